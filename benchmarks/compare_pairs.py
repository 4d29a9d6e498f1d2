"""What `compare` says of pairs whose truth a stopwatch knows: programs with and without one change,
and null pairs.

A null pair is one program recorded twice, with other options of the recorder or by another
recorder. A folder of recordings has a `manifest.json` with the rounds of each program, timed
without a profiler.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

import traceanalyzer as ta
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.report.model import Report

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = [ROOT.parent / "shared" / "traces", ROOT / "benchmarks" / "ablations"]
CHANGED = 0.03
SAME = 0.02
"""Rounds that differ by more are of another step, by less of the same; between the two either
answer is right."""
AFTER = ("fix", "without")
OF_CHANGE = {"faster": -1, "likely_faster": -1, "slower": 1, "likely_slower": 1}


@dataclass(frozen=True)
class Pair:
    """Two recordings; `change` is what the stopwatch says of the step time, 0 of a null pair."""

    a: str
    b: str
    change: float
    is_null: bool

    def is_right(self, verdict: str) -> bool:
        """Whether a verdict says what the stopwatch does."""
        way = OF_CHANGE.get(verdict, 0)
        if self.is_null or abs(self.change) < SAME:
            return way == 0
        return way * self.change > 0 or (abs(self.change) < CHANGED and not way)


def recordings(folder: Path) -> dict[str, list[Path]]:
    """The files of each recording, one a rank, by the folder they lie in and their name:
    `gemm_fp32.base`."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.gz")):
        name = path.name.removesuffix(".gz").rpartition(".")[0].partition(".rank")[0]
        found.setdefault(str(path.parent.relative_to(folder) / name), []).append(path)
    return found


def pairs(folder: Path) -> Iterator[Pair]:
    """The pairs of a folder."""
    cases = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["cases"]
    names = list(recordings(folder))
    for base in (name for name in names if name.endswith(".base")):
        stem = base.removesuffix("base")
        for after in (
            stem + word for word in AFTER if stem + word in names and stem + word in cases
        ):
            before, now = (median(cases[name]["rounds_ms"]) for name in (base, after))
            yield Pair(base, after, now / before - 1, is_null=False)
        program = Path(base).name
        again = [
            name
            for name in names
            if Path(name).name == program or Path(name).name.startswith(f"{program}.")
        ]
        if again[0] == base:
            for one, other in combinations(again, 2):
                yield Pair(one, other, 0.0, is_null=True)


def _report(paths: list[Path]) -> Report:
    return ta.analyze(paths)


def main() -> None:
    """Compare the pairs of the folders given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folders", nargs="*", type=Path, default=[path for path in FOLDERS if path.is_dir()]
    )
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    right = {False: [0, 0], True: [0, 0]}
    for folder in given.folders:
        files = recordings(folder)
        wanted = list(pairs(folder))
        names = sorted({name for pair in wanted for name in (pair.a, pair.b)})
        with ProcessPoolExecutor(given.jobs) as pool:
            reports = dict(
                zip(names, pool.map(_report, [files[name] for name in names]), strict=True)
            )
        for pair in wanted:
            found = compare_reports(reports[pair.a], reports[pair.b], (pair.a, pair.b))
            is_right = pair.is_right(found.verdict)
            right[pair.is_null][0] += is_right
            right[pair.is_null][1] += 1
            stopwatch = "" if pair.is_null else f"{pair.change:+.1%}"
            print(
                f"{'ok' if is_right else 'WRONG':6}{stopwatch:>8}  {found.verdict:14} {pair.a} {pair.b}"
            )
            print(f"      {found.headline}")
    for is_null, (good, count) in right.items():
        print(f"{'null' if is_null else 'timed'} pairs: {good} of {count} right")


if __name__ == "__main__":
    main()
