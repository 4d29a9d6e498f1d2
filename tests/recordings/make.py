"""Cuts these recordings from the whole ones: `python tests/recordings/make.py FOLDER`, the folder
that holds them.

Nothing that the reader uses is changed, so every figure is that of the whole recording:
- Kineto: arrows between rows (`ph` s, t, f) and the arguments in `UNREAD` go; every other row stays as it was written.
- Nsight Systems: free pages go (`VACUUM`).

`nsys/fp32_products.operators` came later, of `collect nsys`: five steps with operators. Threads of
other processes, scheduling, messages, and names that nothing refers to went from it by hand.

`manifest.json` says how each program was run and what a stopwatch read without a profiler. They
were recorded on one or two H200 with PyTorch 2.11 and nsys 2025.3.1.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WANTED = (
    "kineto/*.json.gz",
    "ranks2/*.json.gz",
    "nsys/item_every_layer.*.gz",
    "nsys/slow_dataloader.*.gz",
    "nsys/tiny_mlp_infer.*.gz",
    *(
        f"ablations/{program}.*.gz"
        for program in (
            "copy_pinned",
            "graph_decode",
            "item_long_layers",
            "item_small_layers",
            "python_hidden",
        )
    ),
    "ablations/straggler_compute.*.gz",
    "ablations/tp_small.*.gz",
)
UNREAD = ("Ev Idx", "Record function id", "queued", "blocks per SM", "warps per SM")


def packed(content: bytes) -> bytes:
    """The same bytes whenever it is made."""
    return gzip.compress(content, 9, mtime=0)


def kineto(content: bytes) -> bytes:
    recording = json.loads(content)
    rows: list[dict[str, Any]] = [
        row for row in recording["traceEvents"] if row.get("ph") not in ("s", "t", "f")
    ]
    for row in rows:
        row["args"] = {
            key: value for key, value in row.get("args", {}).items() if key not in UNREAD
        }
    return json.dumps(recording | {"traceEvents": rows}).encode()


def nsys(content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        path.write_bytes(content)
        with sqlite3.connect(path) as database:
            database.execute("VACUUM")
        database.close()
        return path.read_bytes()


def manifest(source: Path) -> dict[str, Any]:
    """Of the recordings that are here alone."""
    whole = json.loads((source / "manifest.json").read_text(encoding="utf-8"))
    here = {str(path.relative_to(HERE)) for path in HERE.glob("*/*.gz")}
    cases = {
        name: case
        for name, case in whole["cases"].items()
        if any(path.startswith(f"{name}.") for path in here)
    }
    return whole | {"cases": cases}


def main(source: Path) -> None:
    for path in sorted(path for pattern in WANTED for path in source.glob(pattern)):
        target = HERE / path.relative_to(source)
        target.parent.mkdir(exist_ok=True)
        cut = kineto if path.name.endswith(".json.gz") else nsys
        target.write_bytes(packed(cut(gzip.decompress(path.read_bytes()))))
    text = json.dumps(manifest(source), indent=1)
    (HERE / "manifest.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
