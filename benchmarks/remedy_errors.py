"""Errors and ranges by remedy, and what good programs are told: `python -m benchmarks.remedy_errors
FOLDER ...`.

A FOLDER holds `pairs.json` and captures, as `benchmarks.pairs` makes them, or `manifest.json`
(`benchmarks.remedies`). Three tables: for each remedy how often it was timed, advised among the
first three and right, and its errors; for each family of remedies how many ranges hold the
stopwatch, and how wide they are;
and the advice on programs that already have their remedy (`*.fixed`, `*.fix`, `*.without`).
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import traceanalyzer as ta
from benchmarks.accuracy import ABLATIONS, SHARED, Rows, Table, as_text
from benchmarks.promise_errors import kinds
from benchmarks.remedies import CLOSE, FIRST, MORE, Pair, pairs
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.selection import measured

BRINGS_NOTHING = 0.98
"""A remedy whose step is not shorter than this share of the one before brings nothing."""
GOOD = (".fixed", ".fix", ".without")


@dataclass(frozen=True)
class Promise:
    """What was promised for a pair; steps are None where its remedy was not advised or has none."""

    pair: Pair
    place: int | None
    base_ms: float
    step_ms: float | None
    low_ms: float
    high_ms: float

    @property
    def fixed_ms(self) -> float:
        """The stopwatch's median with the remedy."""
        return statistics.median(self.pair.fixed_ms)

    @property
    def pays(self) -> bool:
        """Whether the stopwatch says that the remedy brings something."""
        return self.fixed_ms < BRINGS_NOTHING * statistics.median(self.pair.rounds_ms)

    @property
    def error(self) -> float | None:
        """Promised over measured step, less 1."""
        return None if self.step_ms is None else self.step_ms / self.fixed_ms - 1

    @property
    def right(self) -> bool:
        """Whether the step is near the stopwatch's, or its range holds that."""
        return self.error is not None and (
            abs(self.error) <= CLOSE or self.low_ms <= self.fixed_ms <= self.high_ms
        )

    @property
    def holds(self) -> bool:
        """Whether its range holds the stopwatch's median."""
        return self.low_ms <= self.fixed_ms <= self.high_ms


def captured(folder: Path) -> Iterator[Pair]:
    """The pairs of a folder that `benchmarks.pairs` filled."""
    for name, row in json.loads((folder / "pairs.json").read_text(encoding="utf-8")).items():
        if row.get("fix_ms") and (
            any((folder / name).glob("*trace*")) or (folder / name).is_file()
        ):
            yield Pair(
                name, row["remedy"], (folder / name,), tuple(row["base_ms"]), tuple(row["fix_ms"])
            )


def promised(pair: Pair) -> Promise:
    """What the report of a pair's recording promises for its remedy."""
    m = measured(ta.load(*pair.paths)).critical
    advised = diagnose(m).recommendations
    base = m.step.step_ms if m.replay is None else m.replay.base_ms
    place = next((i for i, one in enumerate(advised) if one.remedy == pair.remedy), None)
    if place is None:
        return Promise(pair, None, base, None, 0.0, 0.0)
    one = advised[place]
    more = advised[place].as_much_work
    step, low, high = (
        (one.predicted_step_ms, one.low_ms, one.high_ms) if more is None else more.likely_ms
    )
    return Promise(pair, place, base, step, low or 0.0, high or 0.0)


def by_remedy(found: list[Promise]) -> Table:
    """Place, step and errors of each remedy that was timed."""
    rows: Rows = []
    for name in sorted({one.pair.remedy for one in found}):
        mine = [one for one in found if one.pair.remedy == name]
        pays = [one for one in mine if one.pays]
        errors = [one.error for one in mine if one.pays and one.error is not None]
        first = sum(one.place is not None and one.place < FIRST for one in pays)
        nothing = [one for one in mine if not one.pays]
        spread = (
            f"{min(errors):+.0%}, {statistics.median(errors):+.0%}, {max(errors):+.0%}"
            if errors
            else "-"
        )
        advised = (
            f"{sum(one.step_ms is not None for one in nothing)} of {len(nothing)}"
            if nothing
            else "-"
        )
        rows.append(
            (
                f"`{name}`",
                str(len(pays)),
                str(first),
                str(sum(one.right for one in pays)),
                spread,
                advised,
            )
        )
    columns = (
        "remedy",
        "pays",
        "among the first",
        "right",
        "errors: least, median, most",
        "advised where it brings nothing",
    )
    pays = [one for one in found if one.pays]
    first = sum(one.place is not None and one.place < FIRST for one in pays)
    right = sum(one.right for one in pays)
    text = f"Of {len(pays)} programs that a remedy speeds up it is among the first {FIRST} in {first}; right: {right}."
    return "Remedies one by one", columns, rows, text


def ranges(found: list[Promise]) -> Table:
    """How many ranges hold, and how wide they are, by kind of remedy."""
    rows: Rows = []
    told = [one for one in found if one.step_ms is not None and one.pays]
    for name, remedies in kinds().items():
        mine = [one for one in told if one.pair.remedy in remedies]
        if not mine:
            continue
        held = sum(one.holds for one in mine)
        widths = [(one.high_ms - one.low_ms) / (one.step_ms or math.nan) for one in mine]
        of_step = [(one.high_ms - one.low_ms) / one.base_ms for one in mine]
        width = f"{statistics.median(widths):.0%}"
        rows.append((name, str(len(mine)), str(held), width, f"{statistics.median(of_step):.0%}"))
    columns = ("remedies", "ranges", "hold", "width over the promise", "over the step, median")
    inside = sum(one.holds for one in told)
    text = f"{inside} of {len(told)} ranges hold the stopwatch's median."
    return "Ranges by what is changed", columns, rows, text


def good_recordings(folder: Path) -> dict[str, list[Path]]:
    """Recordings of programs that have their remedy, the ranks of a run together."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted([*folder.glob("*"), *folder.glob("*/*.json.gz")]):
        stem = path.name.removesuffix(".json.gz").partition(".rank")[0]
        if stem.endswith(GOOD):
            found[stem].append(path)
    return found


def advice_on_good(folder: Path) -> Rows:
    """What is advised on each good recording, with the share of the step that it is said to
    save."""
    rows: Rows = []
    for name, paths in good_recordings(folder).items():
        report = ta.analyze(ta.load(*paths))
        told = [
            f"{one.remedy or one.id} {1 - 1 / one.predicted_speedup:.0%}"
            if one.predicted_speedup
            else f"{one.remedy}"
            for one in report.recommendations
        ]
        rows.append((name, report.summary.bottleneck, ", ".join(told)))
    return rows


def main() -> None:
    """Print the tables."""
    folders = [Path(a) for a in sys.argv[1:]] or [
        one for one in (SHARED, ABLATIONS, MORE) if one.exists()
    ]
    both = (captured(f) if (f / "pairs.json").exists() else pairs(f) for f in folders)
    found = [promised(pair) for some in both for pair in some]
    print(as_text(by_remedy(found)))
    print(as_text(ranges(found)))
    good = [row for folder in folders for row in advice_on_good(folder)]
    text = f"{sum(not row[2] for row in good)} of {len(good)} get no advice."
    print(
        as_text(
            (
                "Programs that have their remedy",
                ("recording", "class", "advised, saves"),
                good,
                text,
            )
        )
    )


if __name__ == "__main__":
    main()
