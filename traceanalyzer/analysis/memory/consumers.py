"""What the curve is made of, by category and by line, at each of its points."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from traceanalyzer.analysis.memory.categories import CATEGORIES
from traceanalyzer.analysis.memory.lives import Lives, at_moments
from traceanalyzer.analysis.memory.phases import site_of
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace.snapshot import I8, I64, Stack

TOP_LINES = 8
NO_STACK = "(no Python stack)"
OTHER_LINES = "(all other lines)"


@dataclass(frozen=True)
class Consumer:
    """A category, or a line of the program, over time."""

    name: str = metric("the category, or the innermost line of the program on the stack")
    kind: Literal["category", "line"] = metric("`category` or `line`; either kind sums to the curve", text="own")
    bytes: tuple[int, ...] = metric("bytes allocated at each point of the curve", MEMORY)


def consumers_of(lives: Lives, categories: I8, stacks: Sequence[Stack], moments: I64) -> tuple[Consumer, ...]:
    """The categories and the lines with the most bytes, each over time; what is left in a row of its own."""
    if not len(moments):
        return ()
    named = [Consumer(name, "category", row) for name, row in _over_time(lives, categories, CATEGORIES, moments)]
    names = [site_of(stack) or NO_STACK for stack in stacks]
    texts = sorted(set(names))
    number = {text: i for i, text in enumerate(texts)}
    of_stack = np.array([number[name] for name in names], np.int32)
    weight = np.zeros(len(texts))
    for _, part in lives.parts():
        lasted = np.minimum(part.freed, part.n_events) - part.born
        weight += np.bincount(of_stack[part.stack], part.size * lasted, len(texts))
    top = np.argsort(-weight, kind="stable")[:TOP_LINES]
    place = np.full(len(texts), len(top), np.int8)
    place[top] = np.arange(len(top))
    labels = [*(texts[i] for i in top.tolist()), OTHER_LINES]
    group = place[of_stack][lives.stack]
    return (*named, *(Consumer(name, "line", row) for name, row in _over_time(lives, group, labels, moments)))


def _over_time(lives: Lives, group: I8, names: Sequence[str], moments: I64) -> list[tuple[str, tuple[int, ...]]]:
    result = []
    for index, name in enumerate(names):
        mine = np.flatnonzero(group == index)
        if len(mine):
            level = at_moments(moments, (lives.born[mine], lives.freed[mine], lives.size[mine]))
            result.append((name, tuple(level.tolist())))
    return result
