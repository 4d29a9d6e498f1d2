"""The bytes allocated and reserved over the history: the peak, the peaks of phases and steps, and
the curve to draw."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from traceanalyzer.analysis.memory.categories import CATEGORIES
from traceanalyzer.analysis.memory.lives import Lives, at_moments
from traceanalyzer.analysis.memory.phases import PHASES, Timeline, site_of
from traceanalyzer.analysis.memory.segments import Reserved, reserved_of
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace.snapshot import I8, I64, DeviceMemory, Events, Stack

CURVE_POINTS = 1000  # points that a drawn curve keeps, its extremes among them


class Level(NamedTuple):
    """Bytes allocated at elements of the level, ascending, between which it is nowhere higher."""

    elements: I64
    bytes: I64

    def at(self, elements: I64) -> I64:
        """The bytes at some of the elements."""
        return self.bytes[np.searchsorted(self.elements, elements)]

    def first_highest(self, starts: I64, ends: I64) -> I64:
        """Where it is highest in each stretch, the first of equals. Both ends of each are among the
        elements."""
        places = np.searchsorted(self.elements, starts), np.searchsorted(self.elements, ends)
        pairs = zip(*(place.tolist() for place in places), strict=True)
        return self.elements[[lo + int(self.bytes[lo : hi + 1].argmax()) for lo, hi in pairs]]


@dataclass(frozen=True)
class StepMemory:
    """A step: what is allocated and reserved at its end, and the peak of each phase."""

    index: int
    end_bytes: int
    end_reserved_bytes: int
    peak_bytes: int
    phase_peaks: dict[str, int]


class Course(NamedTuple):
    """What is kept of the curve: all of it would be eight bytes an event. `moments` are elements of
    the level."""

    peak_moment: int
    peak_bytes: int
    peak_phase: str | None
    peak_step: int | None
    end_bytes: int
    reserved_bytes: int
    phase_peaks: dict[str, int]
    steps: tuple[StepMemory, ...]
    moments: I64
    points: tuple[
        tuple[float, int, int], ...
    ]  # (seconds since the first event, allocated, reserved) at the moments


TOP_LINES = 8


def course_of(memory: DeviceMemory, lives: Lives, timeline: Timeline) -> Course:
    """The course of one GPU's memory."""
    n = lives.n_events
    starts = np.concatenate(([0], timeline.bounds)) if n else np.empty(0, np.int64)
    edges = edges_of(n)
    level = _level(
        lives,
        (
            starts,
            edges,
            edges[:-1] + 1,
            [0, n],
            timeline.steps.ends,
            [r for r, _ in timeline.quiet],
        ),
    )
    reserved = reserved_of(memory)
    highest = int(level.bytes.argmax())
    moment = int(level.elements[highest])
    peak = int(level.bytes[highest])
    moments = moments_of(level, edges)
    steps: dict[int, dict[str, int]] = {}
    phase_peaks: dict[str, int] = {}
    for (step, phase), value in _peaks(level, timeline, starts).items():
        steps.setdefault(step, {})[PHASES[phase]] = value
        if timeline.known:
            phase_peaks[PHASES[phase]] = max(phase_peaks.get(PHASES[phase], 0), value)
    at_peak = PHASES[timeline.phase[moment - 1]] if timeline.known and moment else None
    peak_step = (
        int(timeline.steps.of(np.array(moment - 1))) if timeline.steps.ends and moment else -1
    )
    ends = np.array(timeline.steps.ends, np.int64)
    return Course(
        peak_moment=moment,
        peak_bytes=peak,
        peak_phase="other" if at_peak == "zero_grad" else at_peak,
        peak_step=peak_step if peak_step >= 0 else None,
        end_bytes=int(level.bytes[-1]),
        reserved_bytes=reserved.highest(),
        phase_peaks=phase_peaks,
        steps=tuple(
            StepMemory(k, allocated, held, max(steps.get(k, {"": 0}).values()), steps.get(k, {}))
            for k, (allocated, held) in enumerate(
                zip(level.at(ends).tolist(), reserved.at(ends).tolist(), strict=True)
            )
        ),
        moments=moments,
        points=_points(memory.events, moments, level, reserved),
    )


def _level(lives: Lives, wanted: Sequence[ArrayLike]) -> Level:
    """The level after every birth, where alone it can be highest, and at the elements that are
    wanted."""
    elements: I64 = np.concatenate((lives.born + 1, *(np.asarray(one, np.int32) for one in wanted)))
    elements.sort()
    elements = elements[np.append(elements[1:] != elements[:-1], True)]
    return Level(elements, at_moments(elements, (lives.born, lives.freed, lives.size)))


def edges_of(n: int) -> I64:
    """Elements that part the history into equal stretches, one for each point to draw."""
    return np.unique(np.linspace(0, n, min(n, CURVE_POINTS) + 1).astype(np.int64))


def moments_of(level: Level, edges: I64) -> I64:
    """Elements of the level to draw: the highest in each of many equal stretches of events."""
    return level.first_highest(edges[:-1] + 1, edges[1:])


def _points(
    events: Events, moments: I64, level: Level, reserved: Reserved
) -> tuple[tuple[float, int, int], ...]:
    if not len(moments):
        return ()
    seconds = (events.since_us[moments - 1].astype(np.int64) - int(events.since_us[0])) / 1e6
    return tuple(
        zip(
            seconds.tolist(), level.at(moments).tolist(), reserved.at(moments).tolist(), strict=True
        )
    )


def _peaks(level: Level, timeline: Timeline, starts: I64) -> dict[tuple[int, int], int]:
    """By step and phase the most bytes allocated in it, the level it begins with included."""
    best: dict[tuple[int, int], int] = {}
    if not len(starts):
        return best
    steps = timeline.steps.of(starts).tolist()
    highest = level.at(level.first_highest(starts, np.append(starts[1:], len(timeline.phase))))
    for start, step, value in zip(starts.tolist(), steps, highest.tolist(), strict=True):
        at = step, int(timeline.phase[start])
        best[at] = max(best.get(at, 0), value)
    for row, phase in timeline.quiet:
        at = int(timeline.steps.of(np.array(row - 1))), phase
        best[at] = max(best.get(at, 0), int(level.at(np.array(row))))
    return best


@dataclass(frozen=True)
class Consumer:
    """A category, or a line of the program, over time."""

    name: str = metric("the category, or the innermost line of the program on the stack")
    kind: Literal["category", "line"] = metric(
        "`category` or `line`; either kind sums to the curve", text="own"
    )
    bytes: tuple[int, ...] = metric("bytes allocated at each point of the curve", MEMORY)


def consumers_of(
    lives: Lives, categories: I8, stacks: Sequence[Stack], moments: I64
) -> tuple[Consumer, ...]:
    """The categories and the lines with the most bytes, each over time; what is left in a row of
    its own."""
    if not len(moments):
        return ()
    named = [
        Consumer(name, "category", row)
        for name, row in _over_time(lives, categories, CATEGORIES, moments)
    ]
    names = [site_of(stack) or "(no Python stack)" for stack in stacks]
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
    labels = [*(texts[i] for i in top.tolist()), "(all other lines)"]
    group = place[of_stack][lives.stack]
    return (
        *named,
        *(Consumer(name, "line", row) for name, row in _over_time(lives, group, labels, moments)),
    )


def _over_time(
    lives: Lives, group: I8, names: Sequence[str], moments: I64
) -> list[tuple[str, tuple[int, ...]]]:
    result = []
    for index, name in enumerate(names):
        if len(mine := np.flatnonzero(group == index)):
            level = at_moments(moments, (lives.born[mine], lives.freed[mine], lives.size[mine]))
            result.append((name, tuple(level.tolist())))
    return result
