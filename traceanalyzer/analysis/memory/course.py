"""The bytes allocated and reserved over the history: the peak, the peaks of phases and steps, and
the curve to draw."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from traceanalyzer.analysis.memory.categories import CATEGORIES
from traceanalyzer.analysis.memory.lives import Allocations, at_moments
from traceanalyzer.analysis.memory.phases import PHASES, HistoryTimeline, allocation_site
from traceanalyzer.analysis.memory.segments import Reserved, reserved_of
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace import F64, I32
from traceanalyzer.trace.snapshot import I8, I64, AllocationEvents, DeviceMemory, Stack

CURVE_POINTS = 1000  # points that a drawn curve keeps, its extremes among them


class MemoryLevel(NamedTuple):
    """Bytes allocated at elements of the level, ascending, between which it is nowhere higher."""

    elements: I64
    bytes: I64

    def at(self, elements: I64) -> I64:
        """The bytes at some of the elements."""
        return self.bytes[np.searchsorted(self.elements, elements)]

    def first_highest(self, starts: I64, ends: I64) -> I64:
        """Where it is highest in each stretch, the first of equals. Both ends of each are among the
        elements."""
        first = np.searchsorted(self.elements, starts).tolist()
        last = np.searchsorted(self.elements, ends).tolist()
        pairs = zip(first, last, strict=True)
        places = [lo + int(self.bytes[lo : hi + 1].argmax()) for lo, hi in pairs]
        return self.elements[places]


@dataclass(frozen=True)
class StepMemory:
    """A step: when it was, what is allocated and reserved at its end, and the peak of each phase.
    Times are seconds since the first event of the history."""

    index: int
    start_s: float
    end_s: float
    end_bytes: int
    end_reserved_bytes: int
    peak_bytes: int
    phase_peaks: dict[str, int]


class MemoryCurve(NamedTuple):
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
    points: tuple[tuple[float, int, int], ...]
    """(seconds since the first event, allocated, reserved) at the moments."""


TOP_LINES = 8
_Peaks = dict[tuple[int, int], int]  # bytes by step and phase


def course_of(memory: DeviceMemory, lives: Allocations, timeline: HistoryTimeline) -> MemoryCurve:
    """The course of one GPU's memory."""
    n = lives.n_events
    starts = np.concatenate(([0], timeline.bounds)) if n else np.empty(0, np.int64)
    edges = edges_of(n)
    quiet = [row for row, _ in timeline.quiet]
    wanted = (starts, edges, edges[:-1] + 1, [0, n], timeline.steps.ends, quiet)
    level = _level(lives, wanted)
    reserved = reserved_of(memory)
    highest = int(level.bytes.argmax())
    moment = int(level.elements[highest])
    moments = moments_of(level, edges)
    peaks = _peaks(level, timeline, starts)
    at_peak = PHASES[timeline.phase[moment - 1]] if timeline.known and moment else None
    return MemoryCurve(
        peak_moment=moment,
        peak_bytes=int(level.bytes[highest]),
        peak_phase="other" if at_peak == "zero_grad" else at_peak,
        peak_step=_step_before(timeline, moment),
        end_bytes=int(level.bytes[-1]),
        reserved_bytes=reserved.highest(),
        phase_peaks=_phase_peaks(peaks) if timeline.known else {},
        steps=_steps(timeline, level, reserved, peaks, memory.events),
        moments=moments,
        points=_points(memory.events, moments, level, reserved),
    )


def _step_before(timeline: HistoryTimeline, moment: int) -> int | None:
    """The step of the event before an element of the level; None where there is none."""
    if not timeline.steps.ends or not moment:
        return None
    step = int(timeline.steps.of(np.array(moment - 1)))
    return step if step >= 0 else None


def _phase_peaks(peaks: _Peaks) -> dict[str, int]:
    """The highest of all steps, by phase."""
    found: dict[str, int] = {}
    for (_, phase), peak in peaks.items():
        found[PHASES[phase]] = max(found.get(PHASES[phase], 0), peak)
    return found


def _steps(
    timeline: HistoryTimeline,
    level: MemoryLevel,
    reserved: Reserved,
    peaks: _Peaks,
    events: AllocationEvents,
) -> tuple[StepMemory, ...]:
    of_steps: dict[int, dict[str, int]] = {}
    for (step, phase), peak in peaks.items():
        of_steps.setdefault(step, {})[PHASES[phase]] = peak
    ends = np.array(timeline.steps.ends, np.int64)
    if not len(ends):
        return ()
    allocated_at_ends = level.at(ends).tolist()
    at_ends = zip(allocated_at_ends, reserved.at(ends).tolist(), strict=True)
    first_rows = np.append(timeline.steps.start, ends[:-1])
    starts_s = _seconds(events, first_rows).tolist()
    ends_s = _seconds(events, ends - 1).tolist()
    return tuple(
        StepMemory(
            index=index,
            start_s=starts_s[index],
            end_s=ends_s[index],
            end_bytes=allocated,
            end_reserved_bytes=held,
            peak_bytes=max(of_steps.get(index, {}).values(), default=0),
            phase_peaks=of_steps.get(index, {}),
        )
        for index, (allocated, held) in enumerate(at_ends)
    )


def _level(lives: Allocations, wanted: Sequence[ArrayLike]) -> MemoryLevel:
    """The level after every birth, where alone it can be highest, and at the elements that are
    wanted."""
    more = [np.asarray(rows, np.int32) for rows in wanted]
    elements: I64 = np.concatenate((lives.born + 1, *more))
    elements.sort()
    elements = elements[np.append(elements[1:] != elements[:-1], True)]
    return MemoryLevel(elements, at_moments(elements, (lives.born, lives.freed, lives.size)))


def edges_of(n: int) -> I64:
    """Elements that part the history into equal stretches, one for each point to draw."""
    count = min(n, CURVE_POINTS) + 1
    return np.unique(np.linspace(0, n, count).astype(np.int64))


def moments_of(level: MemoryLevel, edges: I64) -> I64:
    """Elements of the level to draw: the highest in each of many equal stretches of events."""
    return level.first_highest(edges[:-1] + 1, edges[1:])


def _points(
    events: AllocationEvents, moments: I64, level: MemoryLevel, reserved: Reserved
) -> tuple[tuple[float, int, int], ...]:
    if not len(moments):
        return ()
    seconds = _seconds(events, moments - 1)
    allocated = level.at(moments).tolist()
    return tuple(zip(seconds.tolist(), allocated, reserved.at(moments).tolist(), strict=True))


def _seconds(events: AllocationEvents, rows: I64) -> F64:
    """When events are, seconds since the first."""
    moment_us = events.since_us[rows].astype(np.int64)
    return (moment_us - int(events.since_us[0])) / 1e6


def _peaks(level: MemoryLevel, timeline: HistoryTimeline, starts: I64) -> _Peaks:
    """The most bytes allocated in each, the level that it begins with included."""
    best: _Peaks = {}
    if not len(starts):
        return best
    steps = timeline.steps.of(starts).tolist()
    ends = np.append(starts[1:], len(timeline.phase))
    highest = level.at(level.first_highest(starts, ends))
    for start, step, value in zip(starts.tolist(), steps, highest.tolist(), strict=True):
        at = step, int(timeline.phase[start])
        best[at] = max(best.get(at, 0), value)
    for row, phase in timeline.quiet:
        at = int(timeline.steps.of(np.array(row - 1))), phase
        level_then = int(level.at(np.array(row)))
        best[at] = max(best.get(at, 0), level_then)
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
    lives: Allocations, categories: I8, stacks: Sequence[Stack], moments: I64
) -> tuple[Consumer, ...]:
    """The categories and the lines with the most bytes, each over time; what is left in a row of
    its own."""
    if not len(moments):
        return ()
    by_category = _over_time(lives, categories, CATEGORIES, moments)
    names = [allocation_site(stack) or "(no Python stack)" for stack in stacks]
    texts = sorted(set(names))
    number = {text: i for i, text in enumerate(texts)}
    of_stack = np.array([number[name] for name in names], np.int32)
    weight = _weights(lives, of_stack, len(texts))
    top = np.argsort(-weight, kind="stable")[:TOP_LINES]
    place = np.full(len(texts), len(top), np.int8)
    place[top] = np.arange(len(top))
    labels = [*(texts[i] for i in top.tolist()), "(all other lines)"]
    by_line = _over_time(lives, place[of_stack][lives.stack], labels, moments)
    return (
        *(Consumer(name, "category", bytes_) for name, bytes_ in by_category),
        *(Consumer(name, "line", bytes_) for name, bytes_ in by_line),
    )


def _weights(lives: Allocations, of_stack: I32, lines: int) -> F64:
    """For each line its bytes times the events that they are there for."""
    weight = np.zeros(lines)
    for _, part in lives.parts():
        lasted = np.minimum(part.freed, part.n_events) - part.born
        weight += np.bincount(of_stack[part.stack], part.size * lasted, lines)
    return weight


def _over_time(
    lives: Allocations, group: I8, names: Sequence[str], moments: I64
) -> list[tuple[str, tuple[int, ...]]]:
    result = []
    for index, name in enumerate(names):
        lives_of = np.flatnonzero(group == index)
        if len(lives_of):
            level = at_moments(
                moments, (lives.born[lives_of], lives.freed[lives_of], lives.size[lives_of])
            )
            result.append((name, tuple(level.tolist())))
    return result
