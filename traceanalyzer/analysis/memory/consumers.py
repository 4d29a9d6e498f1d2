"""The curve over time, thinned out with every peak kept, and what it is made of at each of its points."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from traceanalyzer.analysis.memory.categories import CATEGORIES
from traceanalyzer.analysis.memory.lives import curve
from traceanalyzer.analysis.memory.phases import site_of
from traceanalyzer.figures import metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.memory.lives import Lives
    from traceanalyzer.snapshot import I64, Events, Stack

CURVE_POINTS = 1000
"""Points that a drawn curve keeps, its extremes among them."""
TOP_LINES = 8
NO_STACK = "(no Python stack)"
OTHER_LINES = "(all other lines)"


@dataclass(frozen=True)
class Consumer:
    """A category, or a line of the program, over time."""

    name: str = metric("the category, or the innermost line of the program on the stack")
    kind: Literal["category", "line"] = metric("`category` or `line`; either kind sums to the curve")
    bytes: tuple[int, ...] = metric("bytes allocated at each point of the curve", "bytes")


def moments_of(level: I64) -> I64:
    """Elements of the level to draw: the highest in each of many equal stretches of events."""
    n = len(level) - 1
    edges = np.unique(np.linspace(0, n, min(n, CURVE_POINTS) + 1).astype(np.int64)).tolist()
    return np.array([lo + 1 + int(level[lo + 1 : hi + 1].argmax()) for lo, hi in pairwise(edges)], int)


def points_of(events: Events, moments: I64, level: I64, reserved: I64) -> tuple[tuple[float, int, int], ...]:
    """(seconds since the first event, allocated, reserved) at these elements."""
    if not len(moments):
        return ()
    seconds = (events.time_us[moments - 1] - events.time_us[0]) / 1e6
    return tuple(zip(seconds.tolist(), level[moments].tolist(), reserved[moments].tolist(), strict=True))


def consumers_of(lives: Lives, categories: I64, stacks: Sequence[Stack], moments: I64) -> tuple[Consumer, ...]:
    """The categories and the lines with the most bytes, each over time; what is left in a row of its own."""
    if not len(moments):
        return ()
    named = [Consumer(name, "category", row) for name, row in _over_time(lives, categories, CATEGORIES, moments)]
    names = [site_of(stack) or NO_STACK for stack in stacks]
    texts, of_stack = np.unique(names, return_inverse=True)
    line = of_stack[lives.stack]
    weight = np.bincount(line, lives.size * (np.minimum(lives.freed, lives.n_events) - lives.born), len(texts))
    top = np.argsort(-weight)[:TOP_LINES]
    place = np.full(len(texts), len(top))
    place[top] = np.arange(len(top))
    labels = [*texts[top].tolist(), OTHER_LINES]
    return (*named, *(Consumer(name, "line", row) for name, row in _over_time(lives, place[line], labels, moments)))


def _over_time(lives: Lives, group: I64, names: Sequence[str], moments: I64) -> list[tuple[str, tuple[int, ...]]]:
    result = []
    for index, name in enumerate(names):
        mine = np.flatnonzero(group == index)
        if len(mine):
            level = curve(lives.n_events, lives.born[mine], lives.freed[mine], lives.size[mine])
            result.append((name, tuple(level[moments].tolist())))
    return result
