"""How far promises of remedies were off, by kind: the ends of their ranges.

The table (`promise_errors.toml`) is made by `benchmarks.promise_errors` from all promises that were
made before a stopwatch ran, as conformal quantiles."""

import math
import tomllib
from functools import cache
from pathlib import Path

from traceanalyzer.base import dataclass

LEAST_OF_PROMISE = 0.1
"""Share of the promised step below which hardly any step was: one of 259."""
GROWS = 0.75
"""How much further off promises of a whole step were than those of no gain, as a logarithm. Of 315
promises those that gain more than half the step were off twice as far in proportion (a third of the
step, a tenth of it) as those that gain a tenth to a half: ranges that know it are a tenth narrower,
and hold as often."""
PACED_BY_DEVICE = 1.3
"""A promised step that is no longer than so many times what the GPU computes in today's ends at the
pace of the GPU; a longer one at that of the host. With 1.2 and 1.5 as many ranges of 181 promises
hold, and are as wide."""


@dataclass(frozen=True)
class Pace:
    """How far promises are off by who sets the pace of the promised step, as a multiple of all."""

    device: float = 1.0
    host: float = 1.0

    def of(self, by_device: bool | None) -> float:
        """The multiple where the GPU sets the pace, the host does, or nobody knows."""
        if by_device is None:
            return 1.0
        return self.device if by_device else self.host


@dataclass(frozen=True)
class Errors:
    """The ends of the range of a kind of remedy: logarithms of timed over promised step, of promises
    that gain half the step."""

    low: float
    high: float
    pace: Pace = Pace()
    keeps_device_work: bool = False
    """Whether such a remedy leaves the device's work as it is."""

    def around(
        self, promised: float, step: float, compute: float | None = None
    ) -> tuple[float, float]:
        """The range of a promise of today's step, in which the GPU computes so long, in their
        unit."""
        grown = by_gain(promised, step) * self.pace.of(paced_by_device(promised, compute))
        low = max(math.exp(self.low * grown), LEAST_OF_PROMISE)
        return promised * low, promised * math.exp(self.high * grown)


def by_gain(promised: float, step: float) -> float:
    """How far off such promises are, as a multiple of those that gain half the step."""
    gain = 1.0 - promised / step if step else 0.0
    return math.exp(GROWS * (min(max(gain, 0.0), 1.0) - 0.5))


def paced_by_device(promised: float, compute: float | None) -> bool | None:
    """Whether the GPU sets the pace of a promised step, by how long it computes in today's; None
    where that is not known."""
    return None if compute is None else promised <= PACED_BY_DEVICE * compute


def errors_of(scenario: str) -> Errors | None:
    """The errors of a remedy, by its scenario's id, of several together the last one's; None where
    it is none."""
    return _errors().get(scenario.rpartition("+")[2])


@cache
def _errors() -> dict[str, Errors]:
    source = Path(__file__).with_name("promise_errors.toml")
    table = tomllib.loads(source.read_text(encoding="utf-8"))
    pace = Pace(**table["pace"])
    return {
        remedy: Errors(kind["low"], kind["high"], pace, kind["keeps_device_work"])
        for kind in table["kinds"].values()
        for remedy in kind["remedies"]
    }
