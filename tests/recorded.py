"""Real recordings that lie in the repository, by their names. No test looks for one elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "tests" / "recordings"
"""One program before and after one change, by kind of recording; `recordings/make.py` says what was
cut."""
PAIRS = ROOT / "benchmarks" / "ablations"
"""More programs with and without one thing, recorded for `docs/accuracy.md`."""
RANKS = ROOT / "benchmarks" / "ablations_ranks"
"""The same of two ranks, with pipelines; recorded blind."""
GPU = sorted((ROOT / "tests" / "data" / "gpu").glob("*.json.gz"))
"""One deliberate bottleneck each."""
EVERY_FILE = sorted(RECORDINGS.glob("*/*.gz"))
EVERY = [path for path in EVERY_FILE if "syncevents" not in path.name]
KINETO = [path for path in EVERY if path.name.endswith(".json.gz")]
NSYS = [path for path in EVERY if path.name.endswith(".sqlite.gz")]
CASES: dict[str, Any] = json.loads((RECORDINGS / "manifest.json").read_text(encoding="utf-8"))[
    "cases"
]
"""What a stopwatch read, by folder and name: `kineto/gemm_fp32.base`."""


def recording(name: str) -> Path:
    """One recording by its folder and name, `kineto/gemm_fp32.base`; an error if it is not
    there."""
    (path,) = (path for path in EVERY_FILE if label(path) == name)
    return path


def ranks(name: str) -> list[Path]:
    """The recordings of a program: one, or one a rank; `pairs` and `two_ranks` are folders of
    `benchmarks`."""
    folder, _, stem = name.rpartition("/")
    where = {"pairs": PAIRS, "two_ranks": RANKS}.get(folder, RECORDINGS / folder)
    found = sorted([*where.glob(f"{stem}.json.gz"), *where.glob(f"{stem}.rank*.json.gz")])
    assert found, name
    return found


def label(path: Path) -> str:
    """How a test names a recording."""
    return f"{path.parent.name}/{path.name.removesuffix('.gz').rpartition('.')[0]}"
