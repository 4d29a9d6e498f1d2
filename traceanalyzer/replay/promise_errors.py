"""How far promises of remedies were off, by kind: the ends of their ranges.

The table (`promise_errors.toml`) is made by `benchmarks.promise_errors` from all promises that were
made before a stopwatch ran, as conformal quantiles."""

import math
import tomllib
from functools import cache
from importlib.resources import files

from traceanalyzer.base import dataclass

LEAST_ERROR = 0.3
"""What a promise without any gain would be off by, in the unit in which the logarithm of a speedup
counts."""

LEAST_OF_PROMISE = 0.1
"""Share of the promised step below which hardly any step was: one of 212."""


@dataclass(frozen=True)
class Errors:
    """The ends of the range of a kind of remedy: logarithms of timed over promised step, divided by
    `scale`."""

    low: float
    high: float
    keeps_device_work: bool = False
    """Whether such a remedy leaves the device's work as it is."""

    @staticmethod
    def scale(promised: float, step: float) -> float:
        """How far a promise may be off, by what it gains of the step."""
        return LEAST_ERROR + math.log(max(step / promised, 1.0))

    def around(self, promised: float, step: float) -> tuple[float, float]:
        """The range of a promise, in its own unit."""
        scale = self.scale(promised, step)
        low = max(math.exp(self.low * scale), LEAST_OF_PROMISE)
        return promised * low, promised * math.exp(self.high * scale)


def errors_of(scenario: str) -> Errors | None:
    """The errors of a remedy, by its scenario's id, of several together the last one's; None where
    it is none."""
    return _errors().get(scenario.rpartition("+")[2])


@cache
def _errors() -> dict[str, Errors]:
    source = files("traceanalyzer.replay") / "promise_errors.toml"
    table = tomllib.loads(source.read_text(encoding="utf-8"))
    return {
        remedy: Errors(kind["low"], kind["high"], kind["keeps_device_work"])
        for kind in table["kinds"].values()
        for remedy in kind["remedies"]
    }
