"""Two versions side by side: `python -m benchmarks.paired REV`, the working tree against a commit.

The 155 MB recording, a replica of 1 GB and a large nsys export (of ../shared/traces) are analyzed by
both in turns, each run a process of its own without a cache, so that a busy machine counts for
both. Prints the ratio of CPU seconds of each pair: median, least and most. A release's notes quote
it.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measured import compiling_environment
from benchmarks.sized import EXPORT, check_sources, recordings
from benchmarks.tile_nsys import tile

ROOT = Path(__file__).parent.parent
FOLDER = Path(tempfile.gettempdir()) / "traceanalyzer_sized"
LARGE_MB = 1000.0
NSYS_ROWS = 11_600_000
PAIRS = 3
"""The median of three holds against one pair that something disturbed."""


@dataclass(frozen=True)
class Pair:
    """CPU seconds of one run by each version."""

    ours: float
    other: float

    @property
    def ratio(self) -> float:
        """Below 1: the working tree is faster."""
        return self.ours / self.other


def main() -> None:
    """Measure and print a line an input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rev", help="the commit, branch or tag to compare with")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--file", type=Path, action="append", help="these files instead")
    asked = parser.parse_args()
    files = asked.file or list(inputs())
    sys.stdout.write(
        f"{'input':32} {'MB':>6} {'ours s':>8} {'other s':>8} {'ratio':>6}  of pairs\n"
    )
    with checked_out(asked.rev) as other:
        for path in files:
            run_pair(path, other)  # compiles both, and has the file in memory
            pairs = [run_pair(path, other) for _ in range(asked.pairs)]
            sys.stdout.write(line(path.name, path.stat().st_size, pairs))
            sys.stdout.flush()


def inputs() -> Iterator[Path]:
    """The recordings, made where they are missing."""
    check_sources()
    yield from recordings(FOLDER, [LARGE_MB])
    export = FOLDER / "large.sqlite"
    if not export.exists():
        tile(EXPORT, export, rows=NSYS_ROWS)
    yield export


@contextmanager
def checked_out(rev: str) -> Iterator[Path]:
    """The package of a commit in a folder of its own."""
    archive = subprocess.run(
        ["git", "archive", rev, "traceanalyzer"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def run_pair(path: Path, other: Path) -> Pair:
    """One run by the working tree, then one by the other version."""
    return Pair(cpu_seconds(path, ROOT), cpu_seconds(path, other))


def cpu_seconds(path: Path, tree: Path) -> float:
    """User and system time of `analyze` by the package of that tree, start to exit, one process."""
    before = os.times()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "traceanalyzer",
            "analyze",
            str(path),
            *("--jobs", "1", "--no-cache", "--format", "json", "-o", os.devnull),
        ],
        cwd=tree,
        env=_environment(tree),
        check=True,
        capture_output=True,
    )
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def _environment(tree: Path) -> dict[str, str]:
    """That of a run: the package is that of the tree."""
    compiled = str(FOLDER / "compiled")
    return {
        **compiling_environment(),
        "PYTHONPATH": str(tree),
        "PYTHONPYCACHEPREFIX": compiled,
    }


def line(name: str, size: int, pairs: Sequence[Pair]) -> str:
    """The figures of an input in a line."""
    ratios = [pair.ratio for pair in pairs]
    ours = median(pair.ours for pair in pairs)
    other = median(pair.other for pair in pairs)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    figures = f"{ours:>8.2f} {other:>8.2f} {median(ratios):>6.2f}"
    return f"{name:32} {size / 1e6:>6.0f} {figures}  {spread}\n"


if __name__ == "__main__":
    main()
