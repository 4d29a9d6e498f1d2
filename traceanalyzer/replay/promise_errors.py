"""How far promises of remedies were off, by kind: the ends of their ranges.

The table (`promise_errors.toml`) is made by `benchmarks.promise_errors` from all promises that were
made before a stopwatch ran, as conformal quantiles."""

import math
import tomllib
from functools import cache
from importlib.resources import files

from traceanalyzer.base import dataclass

LEAST_OF_PROMISE = 0.1
"""Share of the promised step below which hardly any step was: one of 259."""


@dataclass(frozen=True)
class Errors:
    """The ends of the range of a kind of remedy: logarithms of timed over promised step."""

    low: float
    high: float
    keeps_device_work: bool = False
    """Whether such a remedy leaves the device's work as it is."""

    def around(self, promised: float) -> tuple[float, float]:
        """The range of a promise, in its own unit."""
        low = max(math.exp(self.low), LEAST_OF_PROMISE)
        return promised * low, promised * math.exp(self.high)


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
