"""The same programs recorded by PyTorch's profiler and by Nsight Systems: do both say the same?

    python -m benchmarks.recorders FOLDER

FOLDER is one that `benchmarks.first_sight record --nsys` left: `pairs.json` with the stopwatches, and
`captures` with `NAME` and `NAME.nsys`. A capture whose recording was not kept (too large) is left
out. Prints verdicts, first remedies and steps program by program, the totals above, and how the
promises of either recorder fared.
"""

from __future__ import annotations

import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RECORDINGS = ("trace.*", "nsys.sqlite*")
CLOSE_STEP = 0.2
"""Share of the stopwatch's nearest round within which a step is right."""
LITTLE = 0.06
"""Share of the step by which two promises may differ that are as good as equal: the same program is
as much faster or slower from one process to the next."""
AT_ONCE = 2  # analyses


@dataclass(frozen=True)
class Side:
    """What one recording of a program says."""

    verdict: str
    advised: tuple[tuple[str, float | None], ...]
    """Remedies in order, each with the step that it promises, ms."""
    step_ms: float | None

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Side:
        """The side of a report."""
        advised = [
            (one["remedy"] or "-", one.get("predicted_step_ms"))
            for one in report["recommendations"]
        ]
        summary = report["summary"]
        return cls(str(summary["bottleneck"]), tuple(advised), summary.get("step_ms"))

    @property
    def first(self) -> str:
        """The first remedy; `-` where there is none."""
        return self.advised[0][0] if self.advised else "-"

    def nearly_first(self, remedy: str) -> bool:
        """Whether it promises hardly less of another remedy than of its first one."""
        times = [time for name, time in self.advised if name in (self.first, remedy)]
        known = [time for time in times if time is not None]
        if len(known) < 2 or self.step_ms is None:
            return False
        return max(known) - min(known) <= LITTLE * self.step_ms

    def is_close(self, rounds_ms: Sequence[float]) -> bool:
        """Whether its step is that of a round of the stopwatch."""
        off = [abs((self.step_ms or 0.0) / one - 1.0) for one in rounds_ms]
        return bool(off) and min(off) <= CLOSE_STEP


@dataclass(frozen=True)
class Both:
    """What both recordings of a program say; the first is by PyTorch's profiler."""

    program: str
    kineto: Side
    nsys: Side
    rounds_ms: tuple[float, ...]

    @property
    def same_verdict(self) -> bool:
        """Whether both find the same bottleneck."""
        return self.kineto.verdict == self.nsys.verdict

    @property
    def same_remedy(self) -> bool:
        """Whether both advise the same first."""
        return self.kineto.first == self.nsys.first

    @property
    def nearly_same(self) -> bool:
        """Whether what the one advises first is as good as first by the other."""
        return self.nsys.nearly_first(self.kineto.first) or self.kineto.nearly_first(
            self.nsys.first
        )


def both_of(
    timed: Mapping[str, Mapping[str, Any]], reports: Mapping[str, Mapping[str, Any]]
) -> list[Both]:
    """The programs of which both recordings could be analyzed."""
    found = []
    for name, row in timed.items():
        pair = [reports.get(name, {}), reports.get(f"{name}.nsys", {})]
        if all("summary" in report for report in pair):
            rounds = tuple(row.get("base_ms", ()))
            found.append(Both(name, Side.of(pair[0]), Side.of(pair[1]), rounds))
    return found


def compared(
    timed: Mapping[str, Mapping[str, Any]], reports: Mapping[str, Mapping[str, Any]]
) -> str:
    """Both recorders program by program, the totals above."""
    found = both_of(timed, reports)
    verdicts = sum(one.same_verdict for one in found)
    remedies = sum(one.same_remedy for one in found)
    agreeing = sum(one.same_verdict and one.same_remedy for one in found)
    nearly = sum(not one.same_remedy and one.nearly_same for one in found)
    by_kineto = [one for one in found if one.kineto.is_close(one.rounds_ms)]
    by_both = sum(one.nsys.is_close(one.rounds_ms) for one in by_kineto)
    lines = [
        f"Of {len(found)} programs {verdicts} have the same verdict, {remedies} the same first remedy, "
        f"{agreeing} both; {nearly} more promise of the other's first remedy within {LITTLE:.0%} of the "
        f"step what they promise of their own. Of {len(by_kineto)} steps by PyTorch's profiler within "
        f"{CLOSE_STEP:.0%} of a round of the stopwatch {by_both} are so by nsys, too.",
        "",
        "| program | verdict | by nsys | first remedy | by nsys | timed, ms | step | by nsys |",
        "|---|---|---|---|---|---|---|---|",
        *map(_line, found),
    ]
    return "\n".join(lines)


def _line(one: Both) -> str:
    verdict = "same" if one.same_verdict else f"**{one.nsys.verdict}**"
    remedy = "same" if one.same_remedy else f"**{one.nsys.first}**"
    if not one.same_remedy and one.nearly_same:
        remedy += ", nearly the same"
    base = f"{statistics.median(one.rounds_ms):.3g}" if one.rounds_ms else "-"
    steps = [
        "-" if side.step_ms is None else f"{side.step_ms:.3g}" for side in (one.kineto, one.nsys)
    ]
    cells = (one.program, one.kineto.verdict, verdict, one.kineto.first, remedy, base, *steps)
    return f"| {' | '.join(cells)} |"


def kept(captures: Path) -> list[Path]:
    """The captures that hold their recording."""
    folders = sorted(path for path in captures.iterdir() if path.is_dir())
    return [path for path in folders if any(next(path.glob(one), None) for one in RECORDINGS)]


def reports_of(captures: Path) -> dict[str, dict[str, Any]]:
    """What this version says of each capture, by its name."""
    from benchmarks.first_sight import report_of

    folders = kept(captures)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip((one.name for one in folders), pool.map(report_of, folders), strict=True))


def main() -> None:
    """Compare, and say how the promises of either fared."""
    from benchmarks.first_sight import as_markdown, scores

    folder = Path(sys.argv[1])
    timed = json.loads((folder / "pairs.json").read_text())
    reports = reports_of(folder / "captures")
    of_nsys = {name: reports[f"{name}.nsys"] for name in timed if f"{name}.nsys" in reports}
    print(compared(timed, reports))
    for recorder, found in (("PyTorch's profiler", reports), ("nsys", of_nsys)):
        print(f"\nBy {recorder}: {as_markdown(scores(timed, found)).splitlines()[0]}")


if __name__ == "__main__":
    main()
