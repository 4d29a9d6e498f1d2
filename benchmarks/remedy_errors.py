"""Errors and ranges by remedy, and what good programs are told: `python -m benchmarks.remedy_errors
FOLDER ...`.

A FOLDER holds `pairs.json` and captures, as `benchmarks.pairs` makes them, or `manifest.json`
(`benchmarks.remedies`). Three tables: for each remedy how often it was timed, advised among the
first three and right, and its errors; for each family of remedies how many ranges hold the
stopwatch, and how many would if their share of the gain were chosen on the other programs alone;
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
from benchmarks.remedies import CLOSE, FIRST, MORE, Pair, pairs
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.limits import GAIN_SPREAD
from traceanalyzer.replay.whatif import SCENARIO_SPREAD

BRINGS_NOTHING = 0.98
"""A remedy whose step is not shorter than this share of the one before brings nothing."""
CANDIDATES = (GAIN_SPREAD, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
HELD = 0.9
"""Share of the other programs' medians that a chosen range has to hold."""
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
    spread: float = GAIN_SPREAD
    """Share of the gain that is in the range."""

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

    def holds(self, share: float) -> bool:
        """Whether the range would hold the stopwatch's median with this share of the gain in it."""
        if self.step_ms is None:
            return False
        gain = max(self.base_ms - self.step_ms, 0.0)
        now = math.hypot(SCENARIO_SPREAD * self.step_ms, self.spread * gain)
        other = math.hypot(SCENARIO_SPREAD * self.step_ms, share * gain)
        off = self.fixed_ms - self.step_ms
        width = self.high_ms - self.step_ms if off > 0 else self.step_ms - self.low_ms
        return abs(off) <= math.sqrt(max(width**2 - now**2, 0.0) + other**2)


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
    spreads = {one.remedy.id: one.offer.scenario.spread for one in advise(m)}
    return Promise(
        pair, place, base, step, low or 0.0, high or 0.0, spreads.get(pair.remedy, GAIN_SPREAD)
    )


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
    """How many ranges hold, by the share of the gain that is in them; chosen on the other programs,
    too."""
    families: dict[float, list[Promise]] = defaultdict(list)
    for one in found:
        if one.step_ms is not None and one.pays:
            families[one.spread].append(one)
    rows: Rows = []
    for share, mine in sorted(families.items()):
        held = sum(one.low_ms <= one.fixed_ms <= one.high_ms for one in mine)
        others = sum(one.holds(_chosen([two for two in mine if two is not one])) for one in mine)
        width = statistics.median((one.high_ms - one.low_ms) / one.base_ms for one in mine)
        names = ", ".join(sorted({one.pair.remedy for one in mine}))
        rows.append(
            (
                names,
                f"{share:.1%}",
                str(len(mine)),
                str(held),
                str(others),
                f"{width:.0%} of the step",
            )
        )
    columns = (
        "remedies",
        "share of the gain",
        "ranges",
        "hold",
        "hold, chosen on the others",
        "width, median",
    )
    total = sum(map(len, families.values()))
    inside = sum(int(row[3]) for row in rows)
    return (
        "Ranges by what is changed",
        columns,
        rows,
        f"{inside} of {total} ranges hold the stopwatch's median.",
    )


def _chosen(others: list[Promise]) -> float:
    """The least share with which enough of these ranges hold; the largest where none does."""
    enough = (one for one in CANDIDATES if sum(p.holds(one) for p in others) >= HELD * len(others))
    return next(enough, CANDIDATES[-1])


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
