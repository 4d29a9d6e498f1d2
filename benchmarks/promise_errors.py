"""How far promises were off at first sight, by kind of remedy: `python -m benchmarks.promise_errors
[--write]`.

`benchmarks/promises.csv` has every promise that was made before a stopwatch ran: the set, the
program, its remedy, the report's step, the promised one and the one timed (ms; of programs of which
ratios alone are kept, in hundredths of the step). Of each the error is the logarithm of timed over
promised, divided by `LEAST_ERROR` and the logarithm of the promised speedup: what gains more is
known less. A kind's range reaches from quantile to quantile of its errors (conformal prediction:
Vovk, Gammerman, Shafer 2005); the fewer it has, the more of the quantiles of all errors is in it.
Printed is how many ranges hold, each made from the other sets alone. `--write` puts the quantiles
into `traceanalyzer/replay/promise_errors.toml`.
"""

import csv
import math
import statistics
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.replay.promise_errors import Errors

PROMISES = Path(__file__).parent / "promises.csv"
TABLE = Path(__file__).parents[1] / "traceanalyzer" / "replay" / "promise_errors.toml"
OUTSIDE = 0.05
"""Share of the errors that may lie beyond each end: nine in ten are to hold."""
FEW = 5.0
"""A kind with so many errors is half its own, half that of all kinds."""
CAPPED = 0.98
"""Where a range ends at most, as a share of the step: what costs is not advised."""


@dataclass(frozen=True)
class Promise:
    """A promise made at first sight, and what came of it."""

    set_name: str
    program: str
    remedy: str
    step: float
    promised: float
    timed: float

    @property
    def error(self) -> float:
        """How far it was off, by how much it gained."""
        return math.log(self.timed / self.promised) / Errors.scale(self.promised, self.step)


def promises() -> list[Promise]:
    """All of them, in the order of the sets."""
    with PROMISES.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        Promise(
            row["set"],
            row["program"],
            row["remedy"],
            float(row["step"]),
            float(row["promised"]),
            float(row["timed"]),
        )
        for row in rows
    ]


def keeping() -> set[str]:
    """The kinds whose remedies leave the device's work as it is."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name for name, kind in table["kinds"].items() if kind["keeps_device_work"]}


def kinds() -> dict[str, list[str]]:
    """The remedies of each kind."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: kind["remedies"] for name, kind in table["kinds"].items()}


def quantile(values: Sequence[float], share: float) -> float:
    """The value that a further one exceeds with no more than 1 - `share`, as far as so few can
    tell."""
    place = math.ceil(share * (len(values) + 1)) - 1
    return sorted(values)[min(max(place, 0), len(values) - 1)]


def ends(found: Sequence[Promise], remedies: Sequence[str]) -> Errors:
    """The ends of the range of a kind, by these promises."""
    every = [one.error for one in found]
    own = [one.error for one in found if one.remedy in remedies]
    low = quantile(every, OUTSIDE)
    high = quantile(every, 1.0 - OUTSIDE)
    if own:
        share = len(own) / (len(own) + FEW)
        low = share * quantile(own, OUTSIDE) + (1.0 - share) * low
        high = share * quantile(own, 1.0 - OUTSIDE) + (1.0 - share) * high
    return Errors(min(low, 0.0), max(high, 0.0))


def write(found: Sequence[Promise]) -> None:
    """Put the ends of all kinds into the table."""
    text = TABLE.read_text(encoding="utf-8").partition("[kinds")[0]
    keeps = keeping()
    for name, remedies in kinds().items():
        own = ends(found, remedies)
        count = sum(one.remedy in remedies for one in found)
        listed = ", ".join(f'"{one}"' for one in remedies)
        text += f"[kinds.{name}]\nremedies = [{listed}]\n"
        text += f"keeps_device_work = {str(name in keeps).lower()}\n"
        text += f"promises = {count}\nlow = {own.low:.3f}\nhigh = {own.high:.3f}\n\n"
    TABLE.write_text(text.rstrip() + "\n", encoding="utf-8")


def held_out(found: Sequence[Promise]) -> list[str]:
    """A line for each kind: how many ranges hold that were made from the other sets alone, and how
    wide they are."""
    lines = []
    held_by_set: dict[str, list[bool]] = {}
    every_width = []
    for name, remedies in kinds().items():
        mine = [one for one in found if one.remedy in remedies]
        held = []
        widths = []
        for one in mine:
            others = [other for other in found if other.set_name != one.set_name]
            low, high = ends(others, remedies).around(one.promised, one.step)
            high = max(min(high, CAPPED * one.step), one.promised)
            held.append(low <= one.timed <= high)
            widths.append((high - low) / one.promised)
            held_by_set.setdefault(one.set_name, []).append(held[-1])
        every_width += widths
        width = statistics.median(widths) if widths else math.nan
        lines.append(f"{name:12s} {sum(held):3d} of {len(held):3d}, {width:.0%} of the promise")
    total = [one for some in held_by_set.values() for one in some]
    lines.append(
        f"{'all':12s} {sum(total):3d} of {len(total):3d} ({sum(total) / len(total):.0%}), "
        f"{statistics.median(every_width):.0%} of the promise"
    )
    lines += [f"  {name}: {sum(some)} of {len(some)}" for name, some in held_by_set.items()]
    return lines


def main() -> None:
    """Print how ranges hold; write the table."""
    found = promises()
    if "--write" in sys.argv:
        write(found)
    print("\n".join(held_out(found)))


if __name__ == "__main__":
    main()
