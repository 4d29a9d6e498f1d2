"""The first and the second question about a recording, by one process and by several: `python -m benchmarks.questions`.

Each command is a process of its own. The first question reads the recording and keeps a model of it in an empty cache,
the second reads the model. Memory is that of the largest process; CPU time is that of all. Answers are compared: every
way of asking gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.analyze import LARGE, recordings, row, traceanalyzer_command
from benchmarks.measured import MB, Cost, measure

SETTLED_S = 2.5
"""What was written less long ago is not kept."""
OTHERS = ("gaps", "path", "kernels", "ops", "steps")
_ORJSON = "import orjson, sys; orjson.loads(open(sys.argv[1], 'rb').read())"
_BUILT_IN = 2
"""Processes of the second way of reading."""


def ask(path: Path, *words: str) -> Cost:
    """One `analyze`."""
    return measure([*traceanalyzer_command(), "analyze", str(path), "--format", "json", *words])


def questions(path: Path, cache: Path) -> None:
    """Every way to ask about a recording, and whether the answers agree."""
    os.environ["TRACEANALYZER_CACHE"] = str(cache)
    shutil.rmtree(cache, ignore_errors=True)
    asked = {
        "analyze, 1 process, no cache": ask(path, "--no-cache", "--jobs", "1"),
        f"analyze, {_BUILT_IN} processes, no cache": ask(path, "--no-cache", "--jobs", str(_BUILT_IN)),
        "analyze, first question": ask(path),
        "analyze, second question": ask(path),
    }
    for what, cost in asked.items():
        row(what, path, cost, cost.outcome)
    kept = sum(file.stat().st_size for file in cache.glob("*.model"))
    digests = {hashlib.sha256(cost.output.encode()).hexdigest() for cost in asked.values()}
    print(
        f"{'':32} {'the same answer' if len(digests) == 1 else 'ANSWERS DIFFER'}, model {kept / MB:.0f} MB", flush=True
    )
    for name in OTHERS:
        cost = measure([*traceanalyzer_command(), name, str(path)])
        row(f"{name}, second question", path, cost, cost.outcome)


def decode(path: Path) -> None:
    """What `orjson.loads` takes for the same text."""
    cost = measure([sys.executable, "-c", _ORJSON, str(path)])
    row("orjson.loads", path, cost, cost.outcome)


def gzipped(path: Path) -> Path:
    """The recording, compressed as profilers do; made once."""
    packed = path.with_name(f"{path.name}.gz")
    if not packed.exists():
        with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target, MB)
    return packed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path, nargs="*", help="default: the 155 MB recording and its replicas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "traceanalyzer-benchmarks")
    parser.add_argument("--replicas-mb", type=float, nargs="*", default=[600, 1000])
    parser.add_argument("--no-gzip", action="store_true")
    asked = parser.parse_args()
    if not asked.recording and not LARGE.exists():
        sys.exit("the shared recordings are not beside the repository")
    paths = asked.recording or recordings(asked.folder, asked.replicas_mb)
    time.sleep(SETTLED_S)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            decode(path)
            questions(path, Path(folder) / "cache")
        if not asked.no_gzip:
            packed = gzipped(paths[0])
            time.sleep(SETTLED_S)
            questions(packed, Path(folder) / "cache")


if __name__ == "__main__":
    main()
