"""How much longer B's machine takes over the same work than A's.

Hosts run 10 to 60 % faster or slower from one recording to the next, and GPUs at other clocks. Both
are so everywhere alike: the median over what both sides call tells by which factor."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.base import dataclass

SAME_CALLS = 0.005
"""Numbers of calls that differ by less are the same: an op now and then falls into the neighbouring
step."""
EDGE = 0.51  # likewise calls a step: the edges of a recording cut one off in every other step
APART = 0.25
"""Work that differs by more than the median factor and this is a change of the program, not a
clock: programs recorded twice, minutes apart on one machine, differ by up to a quarter."""
MOST_HOST_FACTOR = 1.6
"""Hosts run up to so many times faster or slower from one recording to the next; more is a change
of the program, which then runs on other code everywhere alike, as compiled code does."""
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Speed:
    """Ratio B/A of the time of the same work: median and quartiles, weighted by time."""

    factor: float = 1.0
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True)
class Ratio:
    """A figure of B over that of A, and how much it counts."""

    value: float
    weight: float


def speed_of(ratios: Sequence[Ratio]) -> Speed | None:
    """The weighted quartiles of ratios; None without any."""
    ordered = sorted(ratios, key=lambda ratio: (ratio.value, ratio.weight))
    total = sum(ratio.weight for ratio in ordered)
    if not total:
        return None
    weights = np.cumsum([ratio.weight / total for ratio in ordered])
    places = np.searchsorted(weights, QUARTILES).tolist()
    low, middle, high = (ordered[min(place, len(ordered) - 1)].value for place in places)
    return Speed(factor=middle, low=low, high=high)


def usual_gpu_factor(gpu: Speed | None) -> float:
    """The factor between two GPUs, 1 where it is more than clocks can be: then it is the
    program's."""
    if gpu is None or abs(gpu.factor - 1.0) > APART * max(gpu.factor, 1.0):
        return 1.0
    return gpu.factor


def usual_host_factor(host: Speed | None) -> float:
    """The factor between two hosts, 1 where it is more than machines can be."""
    if host is None or not 1.0 / MOST_HOST_FACTOR <= host.factor <= MOST_HOST_FACTOR:
        return 1.0
    return host.factor


def same_calls(a: float, b: float) -> bool:
    """Whether both sides make as many calls a step, and some."""
    return bool(a and b) and not is_other_count(a, b)


def is_other_count(a: float, b: float) -> bool:
    """Whether two numbers a step differ by more than the edges of a recording explain."""
    return abs(b - a) > max(SAME_CALLS * max(a, b), EDGE)
