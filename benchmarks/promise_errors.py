"""How far promises were off at first sight, by kind of remedy: `python -m benchmarks.promise_errors
[--write]`.

`benchmarks/promises.csv` has every promise that was made before a stopwatch ran: the set, the
program, its remedy, the report's step, the promised one, the one timed, and how long the GPU
computes in the report's step, where the sealed report is kept (ms; of programs of which ratios alone
are kept, in hundredths of the step). Of each the error is the logarithm of timed over
promised. It depends on the kind of remedy, and it grows with the gain (`by_gain`): seven in ten are
off by up to 0.16 where a promise gains a tenth to a half of the step, and by up to 0.33 where it
gains more. And it depends on who sets the pace of the promised step (`paced_by_device`): where that is
the GPU, promises are off two thirds as far as where it is the host. So each error is counted in units
of its kind's spread at its gain and pace, and a range reaches from quantile to quantile of all errors
in these units (normalised conformal prediction: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman 2018).
One promise that was far off then widens all ranges a little, and not those of its kind alone.
Printed is how many ranges hold, each made from the other sets alone, and how wide they are.
`--write` puts the ends into `traceanalyzer/replay/promise_errors.toml`.
"""

import csv
import math
import statistics
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traceanalyzer.replay.promise_errors import Errors, Pace, by_gain, paced_by_device

PROMISES = Path(__file__).parent / "promises.csv"
TABLE = Path(__file__).parents[1] / "traceanalyzer" / "replay" / "promise_errors.toml"
BELOW = 0.03
ABOVE = 0.035
"""Shares of the errors that may lie beyond each end, such that nine in ten ranges hold on sets that
did not make them (339 of 377; with 0.03 above 340, a twentieth wider)."""
MOST = 0.7
"""Share of a kind's errors within its spread."""
FEW = 5.0
"""The spread of a kind with so many errors is half its own, half that of all kinds."""
FEW_OF_A_PACE = 10.0
"""The same of the promises of a pace."""
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
    compute: float | None = None

    @property
    def error(self) -> float:
        """How far it was off."""
        return math.log(self.timed / self.promised)

    @property
    def error_at_half(self) -> float:
        """How far it would have been off if it gained half the step."""
        return self.error / by_gain(self.promised, self.step)

    @property
    def paced_by_device(self) -> bool | None:
        """Whether the GPU sets the pace of the promised step; None where that is not known."""
        return paced_by_device(self.promised, self.compute)


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
            float(row["compute"]) if row["compute"] else None,
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


def spreads(found: Sequence[Promise]) -> dict[str, float]:
    """The spread of each kind's errors."""
    of_all = _spread(found)
    made = {}
    for name, remedies in kinds().items():
        own = [one for one in found if one.remedy in remedies]
        weight = len(own) / (len(own) + FEW)
        made[name] = weight * _spread(own) + (1.0 - weight) * of_all if own else of_all
    return made


def _spread(found: Sequence[Promise]) -> float:
    return float(np.quantile([abs(one.error_at_half) for one in found], MOST))


def in_spreads(found: Sequence[Promise]) -> list[float]:
    """The error of each promise, in units of its kind's spread."""
    spread = spreads(found)
    kind = {remedy: name for name, remedies in kinds().items() for remedy in remedies}
    return [one.error_at_half / spread[kind[one.remedy]] for one in found]


def paces(found: Sequence[Promise]) -> Pace:
    """How far promises of each pace are off, as a multiple of all."""
    errors = np.abs(in_spreads(found))
    of_all = float(np.quantile(errors, MOST))
    made = {}
    for pace in (True, False):
        own = errors[[one.paced_by_device is pace for one in found]]
        weight = len(own) / (len(own) + FEW_OF_A_PACE)
        of_own = float(np.quantile(own, MOST)) / of_all if len(own) and of_all else 1.0
        made[pace] = weight * of_own + (1.0 - weight)
    return Pace(device=made[True], host=made[False])


def ends(found: Sequence[Promise]) -> dict[str, Errors]:
    """The ends of the ranges of all kinds, by these promises."""
    spread = spreads(found)
    pace = paces(found)
    errors = [
        error / pace.of(one.paced_by_device)
        for one, error in zip(found, in_spreads(found), strict=True)
    ]
    low = min(quantile(errors, BELOW), 0.0)
    high = max(quantile(errors, 1.0 - ABOVE), 0.0)
    return {name: Errors(low * own, high * own, pace) for name, own in spread.items()}


def write(found: Sequence[Promise]) -> None:
    """Put the ends of all kinds into the table."""
    text = TABLE.read_text(encoding="utf-8").partition("[pace]")[0]
    keeps = keeping()
    spread = spreads(found)
    made = ends(found)
    pace = paces(found)
    text += f"[pace]\ndevice = {pace.device:.3f}\nhost = {pace.host:.3f}\n\n"
    for name, remedies in kinds().items():
        own = made[name]
        count = sum(one.remedy in remedies for one in found)
        listed = ", ".join(f'"{one}"' for one in remedies)
        text += f"[kinds.{name}]\nremedies = [{listed}]\n"
        text += f"keeps_device_work = {str(name in keeps).lower()}\n"
        text += f"promises = {count}\nspread = {spread[name]:.3f}\nlow = {own.low:.3f}\nhigh = {own.high:.3f}\n\n"
    TABLE.write_text(text.rstrip() + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Range:
    """The range of a promise by the other sets alone."""

    promise: Promise
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the stopwatch is in it."""
        return self.low <= self.promise.timed <= self.high

    @property
    def of_promise(self) -> float:
        """Its width as a share of the promised step."""
        return (self.high - self.low) / self.promise.promised

    @property
    def of_step(self) -> float:
        """Its width as a share of the report's step."""
        return (self.high - self.low) / self.promise.step


def held_out(found: Sequence[Promise]) -> list[Range]:
    """The range of each promise, made from the other sets alone."""
    kind = {remedy: name for name, remedies in kinds().items() for remedy in remedies}
    made = {
        left_out: ends([one for one in found if one.set_name != left_out])
        for left_out in {one.set_name for one in found}
    }
    ranges = []
    for one in found:
        low, high = made[one.set_name][kind[one.remedy]].around(one.promised, one.step, one.compute)
        ranges.append(Range(one, low, max(min(high, CAPPED * one.step), one.promised)))
    return ranges


def lines_of(ranges: Sequence[Range]) -> list[str]:
    """A line for each kind, each pace, for all, and for each set: how many ranges hold, and how wide they
    are in the median."""
    parts = {
        name: [one for one in ranges if one.promise.remedy in remedies]
        for name, remedies in kinds().items()
    }
    for name, pace in (("paced by the GPU", True), ("paced by the host", False)):
        parts[name] = [one for one in ranges if one.promise.paced_by_device is pace]
    parts["pace not known"] = [one for one in ranges if one.promise.compute is None]
    parts["all"] = list(ranges)
    for one in ranges:
        parts.setdefault(one.promise.set_name, []).append(one)
    return [_line(name, some) for name, some in parts.items()]


def _line(name: str, ranges: Sequence[Range]) -> str:
    held = sum(one.holds for one in ranges)
    of_promise = statistics.median(one.of_promise for one in ranges)
    of_step = statistics.median(one.of_step for one in ranges)
    return (
        f"{name:26s} {held:3d} of {len(ranges):3d} ({held / len(ranges):4.0%}), "
        f"{of_promise:.0%} of the promise, {of_step:.0%} of the step"
    )


def main() -> None:
    """Print how ranges hold; write the table."""
    found = promises()
    if "--write" in sys.argv:
        write(found)
    print("\n".join(lines_of(held_out(found))))


if __name__ == "__main__":
    main()
