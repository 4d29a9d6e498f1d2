"""What a step's time is spent on, put together for a comparison: parts of both sides under the same
names."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, TypedDict, TypeVar

from traceanalyzer.analysis.tables.step_parts import MAX_BATCHES, StepPart
from traceanalyzer.base import dataclass
from traceanalyzer.comparison.noise import difference_interval, is_significant
from traceanalyzer.comparison.side_by_side.copied import Copied, copies_by_direction
from traceanalyzer.report.model import Report

T = TypeVar("T")
WHOLE = "step"  # the only part where neither side's recording can divide the step


@dataclass(frozen=True)
class StepWork:
    """Time of a step that belongs together: one part, or several added up."""

    ms: float = 0.0
    calls: float = 0.0
    batch_ms: tuple[float, ...] = ()  # empty where the spread over steps is not known

    @classmethod
    def of(cls, parts: Iterable[StepPart]) -> "StepWork":
        """The sum of parts of one side."""
        summed = list(parts)
        batches = zip(*(p.batch_ms for p in summed), strict=True) if summed else ()
        return cls(
            ms=sum(p.ms for p in summed),
            calls=sum(p.calls for p in summed),
            batch_ms=tuple(sum(values) for values in batches),
        )


def of_part(parts: Iterable[StepPart], part: str) -> list[StepPart]:
    """The step parts of one part of the budget."""
    return [p for p in parts if p.part == part]


def paired(
    a: Iterable[T], b: Iterable[T], key: Callable[[T], Hashable]
) -> list[tuple[list[T], list[T]]]:
    """Items of both sides grouped by their key, A's and B's; items without a key are left out."""
    found: dict[Hashable, tuple[list[T], list[T]]] = {}
    for index, side in enumerate((a, b)):
        for item in side:
            name = key(item)
            if name is not None:
                found.setdefault(name, ([], []))[index].append(item)
    return list(found.values())


def paired_work(
    a: Iterable[StepPart], b: Iterable[StepPart], key: Callable[[StepPart], Hashable]
) -> list[tuple[StepWork, StepWork]]:
    """The sums of parts of both sides with equal keys."""
    pairs = paired(a, b, key)
    return [(StepWork.of(mine), StepWork.of(theirs)) for mine, theirs in pairs]


class BothSteps(NamedTuple):
    """What is known of both steps as a whole."""

    batches: tuple[
        tuple[float, ...], tuple[float, ...]
    ]  # their times in batches of steps, as `Work` has them
    launches: tuple[float | None, float | None] = (None, None)  # launch calls a step
    waits: tuple[float | None, float | None] = (None, None)  # calls a step that wait for the GPU
    each: str = " a step"  # what calls are counted in
    copies: tuple[Mapping[str, Copied], Mapping[str, Copied]] = ({}, {})  # by direction


def both_steps(
    a: Report, b: Report, parts: tuple[list[StepPart], list[StepPart]], each: str
) -> BothSteps:
    """Both steps as a whole, of these parts."""
    return BothSteps(
        batches=(StepWork.of(parts[0]).batch_ms, StepWork.of(parts[1]).batch_ms),
        launches=(a.metrics.launches_per_step, b.metrics.launches_per_step),
        waits=(_waits(a), _waits(b)),
        each=each,
        copies=(copies_by_direction(a), copies_by_direction(b)),
    )


def _waits(report: Report) -> float | None:
    """Calls a step that wait for the GPU; None where they were not recorded."""
    rows = report.tables.get("syncs")
    return sum(row.calls for row in rows) if rows and report.step_parts else None


def parts_of_both(
    a: Report, b: Report, steps_ms: tuple[float, float]
) -> tuple[list[StepPart], list[StepPart]]:
    """Parts of both steps, as fine as both reports have them: by operator, by budget, or the step
    as a whole, which takes `steps_ms`."""
    if a.step_parts and b.step_parts:
        shapes_a = _launch_shapes(a)
        shapes_b = _launch_shapes(b)
        # Kernels that the sides launch in other shapes are other work.
        other = {name for name, shape in shapes_a.items() if _is_other(shape, shapes_b.get(name))}
        return _alike(
            _named_by_shape(a.step_parts, shapes_a, other),
            _named_by_shape(b.step_parts, shapes_b, other),
        )
    if None not in (a.metrics.budget_ms, b.metrics.budget_ms):
        return _of_budget(a), _of_budget(b)
    return _whole(a, steps_ms[0]), _whole(b, steps_ms[1])


def _launch_shapes(report: Report) -> dict[str, str | None]:
    """In which shape each kernel is launched; of several the one that takes longest."""
    return {row.name: row.launch_shape for row in reversed(report.tables.get("kernels", []))}


def _is_other(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a != b


def _named_by_shape(
    parts: Iterable[StepPart], shapes: dict[str, str | None], names: set[str]
) -> list[StepPart]:
    """The parts, with the launch shape in the names of these kernels."""
    return [
        dataclasses.replace(p, kernel=f"{p.kernel} ({shapes[p.kernel]})")
        if p.kernel in names
        else p
        for p in parts
    ]


class Figures(TypedDict):
    """The fields of a `Difference`, for those that have more."""

    a_ms: float
    b_ms: float
    difference_ms: float
    low_ms: float | None
    high_ms: float | None
    significant: bool | None


def figures(a: StepWork, b: StepWork, steps: BothSteps) -> Figures:
    """The fields of a `Difference`. Work that a side lacks took no time in any batch of the
    `steps`'s."""
    batches = [
        work.batch_ms or tuple(0.0 for _ in side)
        for work, side in zip((a, b), steps.batches, strict=True)
    ]
    interval = difference_interval(batches[0], batches[1], b.ms - a.ms)
    low, high = interval or (None, None)
    return Figures(
        a_ms=a.ms,
        b_ms=b.ms,
        difference_ms=b.ms - a.ms,
        low_ms=low,
        high_ms=high,
        significant=is_significant(a.ms, b.ms, interval),
    )


def _alike(
    a: list[StepPart],
    b: list[StepPart],
) -> tuple[list[StepPart], list[StepPart]]:
    """Parts under names that both sides have: a kernel that either side launched outside any
    operator (from a CUDA graph) goes by its own name on both, and everything does where one side
    recorded no operators; shapes count where both recorded them."""
    bare = {p.kernel for p in (*a, *b) if p.op is None and p.part != "idle"}
    without = not all(any(p.op for p in side) for side in (a, b))
    unshaped = not all(any(p.shapes for p in side) for side in (a, b))

    def named(p: StepPart) -> StepPart:
        if without or (p.kernel in bare and p.part != "idle"):
            return dataclasses.replace(p, op=None, shapes=None, dtypes=None)
        return dataclasses.replace(p, shapes=None, dtypes=None) if unshaped else p

    return [*map(named, a)], [*map(named, b)]


def _of_budget(report: Report) -> list[StepPart]:
    idle = report.metrics.idle_ms
    times = {(name, name): ms for name, ms in vars(report.metrics.budget_ms).items()}
    if idle is not None:
        del times["idle", "idle"]
        times |= {("idle", cause): ms for cause, ms in vars(idle).items()}
    return [
        StepPart(part, cls, None, None, None, None, 0.0, ms, [])
        for (part, cls), ms in times.items()
        if ms
    ]


def _whole(report: Report, step_ms: float) -> list[StepPart]:
    rows = [row.duration_ms for row in report.tables.get("steps", []) if not row.warmup]
    batches = min(len(rows), MAX_BATCHES)
    bounds = [i * len(rows) // batches for i in range(batches + 1)] if batches else []
    batch_ms = [fmean(rows[i:j]) for i, j in pairwise(bounds)]
    return whole_step(step_ms, batch_ms)


def whole_step(step_ms: float, batch_ms: list[float] | None = None) -> list[StepPart]:
    """A step that nothing divides, with its times in batches of steps where these are known."""
    return [StepPart(WHOLE, WHOLE, None, None, None, None, 0.0, step_ms, batch_ms or [])]
