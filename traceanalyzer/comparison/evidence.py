"""What tells a change of the program from a host or a GPU that was faster in one of two recordings.

A faster machine is faster everywhere (`comparison.speed`). A change of the program shows in certain
places: another number of calls or waits, other kernels, a stretch of other work that is gone."""

import math
from collections.abc import Callable, Hashable, Iterable

from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.base import dataclass, ratio
from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.comparison.side_by_side.by_rank import RanksChange
from traceanalyzer.comparison.side_by_side.recorders import (
    are_of_two_tools,
    hosts_compare,
)
from traceanalyzer.comparison.speed import (
    APART,
    SAME_CALLS,
    Ratio,
    Speed,
    is_other_count,
    same_calls,
    speed_of,
    usual_gpu_factor,
)
from traceanalyzer.comparison.work import StepWork, paired, paired_work
from traceanalyzer.replay.host_parts import HostPart
from traceanalyzer.report.model import Report

US_TO_MS = 1e-3
WAITS = "syncs.calls"
COUNTS = ("launches_per_step", "launches.copy_calls", WAITS)
"""A difference of less than one a step is the edge of the recording."""
PYTHON_APART = 1 / 3
"""As `APART`, of Python between operators and calls, next to these: in programs recorded twice it
differed by a quarter."""
LEAST_STRETCH = 0.03
"""Stretches of host work that changed by less than this share of the step: some are now above, now
below 0.1 ms."""
MOST_OTHER_WAITS = 0.05
"""Share of a step's calls by which the waits of both may differ where these tell the hosts' speed."""
LEAST_COMMON = 0.1
"""Share of either host's time that calls of both must be to tell the hosts' speed."""
EVERY_STEP = 0.9  # stretches in fewer steps than this are hiccups


@dataclass(frozen=True)
class SpeedEvidence:
    """Factors of both machines, and what changed in certain places: shares of A's step."""

    host: Speed | None  # None where the host's time was not recorded in parts
    gpu: Speed | None
    on_host: float
    on_gpu: float
    common_ms: float  # time of B's step in kernels that both run alike
    dispatch_share: float
    """Of B's host time, that on operators and calls: what is as fast as its host."""
    known: bool
    """Whether both hosts were recorded in parts: without, changed work cannot be told in time."""
    is_same_work: bool  # whether nothing changed in certain places
    is_other_tool: bool = False  # whether two recorders made the recordings
    on_ranks: float = 0.0
    """How much later a rank became whose own work is not compared: that shows in the step, too."""

    @property
    def most(self) -> float:
        """The largest of what changed on the host, on the GPU and between ranks."""
        return max(abs(self.on_host), abs(self.on_gpu), abs(self.on_ranks))

    def towards(self, change: float) -> float:
        """How much of what was found in certain places has the sign of a change of the step."""
        sign = math.copysign(1.0, change)
        both = self.on_host + self.on_gpu
        each = (self.on_host, self.on_gpu, both, self.on_ranks)
        return max(0.0, *(sign * change for change in each))


@dataclass(frozen=True)
class GpuChange:
    """What device work of both sides tells."""

    speed: Speed | None
    common_ms: float  # B's time in what both run alike
    differences_ms: list[float]  # of all else


@dataclass(frozen=True)
class HostChange:
    """What host work of both sides tells."""

    speed: Speed | None
    differences_ms: list[float]  # in certain places, ms of A's host


def evidence_of(
    a: Report,
    b: Report,
    parts: tuple[list[StepPart], list[StepPart]],
    step_ms: float,
    ranks: RanksChange | None = None,
) -> SpeedEvidence:
    """What is known of both, the device work by `parts`, and of their `ranks`; `step_ms` is A's."""
    is_other_tool = are_of_two_tools(a, b)
    gpu = _gpu_change(*parts, _kernel_of if is_other_tool else _kind_of_work)
    known = bool(a.host_parts and b.host_parts) and not is_other_tool
    if known:
        host = _host_change(a, b, step_ms)
    elif is_other_tool:  # each sees another part of the host
        host = HostChange(None, [])
    else:
        host = _host_by_idle(*parts, step_ms)
    dispatch_ms = sum(part.dispatch_ms for part in b.host_parts)
    other_ms = sum(part.stretch_ms for part in b.host_parts)
    on_ranks = _between_ranks(ranks, step_ms)
    return SpeedEvidence(
        host=host.speed,
        gpu=gpu.speed,
        on_host=ratio(sum(host.differences_ms), step_ms) or 0.0,
        on_gpu=ratio(sum(gpu.differences_ms), step_ms) or 0.0,
        common_ms=gpu.common_ms,
        dispatch_share=ratio(dispatch_ms, dispatch_ms + other_ms) or 0.0,
        known=known,
        is_same_work=not on_ranks and _is_same_work(a, b, gpu, host, step_ms, known=known),
        on_ranks=on_ranks,
        is_other_tool=is_other_tool,
    )


def _between_ranks(ranks: RanksChange | None, step_ms: float) -> float:
    """How much later, or less late, ranks became whose own work is not compared: a share of the
    step, the largest; 0 where none did by enough to be named."""
    if ranks is None:
        return 0.0
    compared = (ranks.a_critical, ranks.b_critical)
    others = [ranks.row(rank) for rank in (ranks.slower, ranks.faster) if rank not in compared]
    changes = [one.late_difference_ms or 0.0 for one in others if one is not None]
    return ratio(max(changes, key=abs, default=0.0), step_ms) or 0.0


def _kernel_of(part: StepPart) -> tuple[str | None, ...] | None:
    """As `_kind_of_work`, of two recorders: each knows other operators and types."""
    return None if part.part == "idle" else (part.part, part.kernel)


def _is_same_work(
    a: Report, b: Report, gpu: GpuChange, host: HostChange, step_ms: float, *, known: bool
) -> bool:
    """Whether nothing changed in certain places; of two recorders hardly anything in
    kernels."""
    if are_of_two_tools(a, b):
        apart_ms = sum(abs(ms) for ms in gpu.differences_ms)
        return apart_ms <= LEAST_STRETCH * step_ms and _same_counts(a, b)
    changed = gpu.differences_ms or host.differences_ms
    return not changed and (known or _same_counts(a, b))


def _same_counts(a: Report, b: Report) -> bool:
    """Whether both have their steps by operator, and launch, copy and wait for the device equally
    often; of two recorders waits by all but few of the launches, as each sees other waits."""
    if not (a.step_parts and b.step_parts):
        return False
    of_a = figures_by_path(a)
    of_b = figures_by_path(b)
    margins = dict.fromkeys(COUNTS, 1.0) | {WAITS: max(1.0, _other_waits(a, b))}
    return all(
        _is_as_often(of_a[name].value, of_b[name].value, least) for name, least in margins.items()
    )


def _is_as_often(a: float | None, b: float | None, least: float) -> bool:
    """Whether both numbers are known, and differ by less than this and the edges of a recording."""
    if a is None or b is None:
        return False
    return abs(b - a) < max(SAME_CALLS * max(a, b), least)


def _other_waits(a: Report, b: Report) -> float:
    """By how many waits a step two recorders of one program may differ; 0 of one recorder."""
    if not are_of_two_tools(a, b):
        return 0.0
    return MOST_OTHER_WAITS * min(r.metrics.launches_per_step or 0.0 for r in (a, b))


def _kind_of_work(part: StepPart) -> tuple[str | None, ...] | None:
    """What device work is compared by; None for idle time."""
    if part.part == "idle":
        return None
    return part.part, part.op, part.shapes, part.dtypes, part.kernel


def _gpu_change(
    a: list[StepPart], b: list[StepPart], kind: Callable[[StepPart], Hashable]
) -> GpuChange:
    sums = paired_work(a, b, kind)
    differences = [y.ms - x.ms for x, y in sums if not same_calls(x.calls, y.calls)]
    timed = [(x, y) for x, y in sums if x.ms and y.ms]
    alike = [(x.ms, y.ms) for x, y in timed if same_calls(x.calls, y.calls)]
    speed = speed_of([Ratio(after / before, min(before, after)) for before, after in alike])
    factor = usual_gpu_factor(speed)
    common_ms = 0.0
    for before, after in alike:
        if abs(after - before * factor) > APART * max(after, before * factor):
            differences.append(after - before)
        else:
            common_ms += after
    return GpuChange(speed, common_ms, differences)


def _host_by_idle(a: list[StepPart], b: list[StepPart], step_ms: float) -> HostChange:
    """All that is known of hosts without their parts: idle time by cause."""
    idle = paired_work(a, b, lambda p: p.cls if p.part == "idle" else None)
    times = [(x.ms, y.ms) for x, y in idle]
    return HostChange(None, _beyond_margin(times, LEAST_STRETCH * step_ms))


@dataclass(frozen=True)
class HostSide:
    """What a report says of its host, calls and ms a step."""

    parts: list[HostPart]
    has_operators: bool
    has_stacks: bool  # as `has_operators`: their cost is part of the host's time
    waits: float
    sync_ms: float
    stretch_ms: float
    allocate_ms: float
    dispatch_ms: float
    calls: float

    @classmethod
    def of(cls, report: Report) -> "HostSide":
        """That of a report."""
        parts = report.host_parts
        metrics = report.metrics
        idle = (metrics.unprofiled or metrics).idle_ms
        return cls(
            parts=parts,
            has_operators=any(part.op for part in parts),
            has_stacks=any("stacks" in (i.collected or ()) for i in report.inputs),
            waits=sum(part.waits for part in parts),
            sync_ms=getattr(idle, "sync", 0.0),
            stretch_ms=sum(p.stretch_ms for p in parts if p.stretches >= EVERY_STEP),
            allocate_ms=getattr(metrics.host, "allocate_ms", 0.0),
            dispatch_ms=sum(part.dispatch_ms for part in parts),
            calls=sum(part.calls for part in parts),
        )

    def is_recorded_as(self, other: "HostSide") -> bool:
        """Whether the recorder cost both hosts the same."""
        return (self.has_operators, self.has_stacks) == (other.has_operators, other.has_stacks)


def _host_change(a: Report, b: Report, step_ms: float) -> HostChange:
    x = HostSide.of(a)
    y = HostSide.of(b)
    least_ms = LEAST_STRETCH * step_ms
    named = x.has_operators and y.has_operators
    pairs = paired(x.parts, y.parts, lambda p: (named and p.op, p.call))
    timed = [(mine[0], theirs[0]) for mine, theirs in pairs if _is_timed(mine, theirs)]
    speed = _host_speed(timed, x, y) if named and hosts_compare(a, b) else None
    factor = (speed or Speed()).factor
    differences = []
    for own, theirs in ((_work(mine), _work(theirs)) for mine, theirs in pairs):
        if not same_calls(own.calls, theirs.calls):
            differences.append(theirs.ms / factor - own.ms)
    if is_other_count(x.waits, y.waits):
        differences.append(y.sync_ms - x.sync_ms)
    stretches = ((x.stretch_ms, y.stretch_ms), (x.allocate_ms, y.allocate_ms / factor))
    differences += _beyond_margin(stretches, least_ms)
    if x.is_recorded_as(y):
        differences += _python(timed, least_ms)
    return HostChange(speed, differences)


def _host_speed(timed: list[tuple[HostPart, HostPart]], a: HostSide, b: HostSide) -> Speed | None:
    """How much longer B's host takes for the operators that both call alike; None where these are
    too little of either host's time, or one waits for the GPU much more often: a call after a wait
    takes longer on any host. Launch calls alone tell none: what comes before them may be other
    work."""
    if abs(a.waits - b.waits) > MOST_OTHER_WAITS * min(a.calls, b.calls):
        return None
    ratios = [
        Ratio(theirs.dispatch_us / mine.dispatch_us, min(mine.dispatch_ms, theirs.dispatch_ms))
        for mine, theirs in timed
        if mine.op
    ]
    common_ms = sum(each.weight for each in ratios)
    enough = all(common_ms >= LEAST_COMMON * side.dispatch_ms for side in (a, b))
    return speed_of(ratios) if enough else None


def _work(parts: list[HostPart]) -> StepWork:
    return StepWork(sum(p.dispatch_ms for p in parts), sum(p.calls for p in parts))


def _is_timed(a: list[HostPart], b: list[HostPart]) -> bool:
    """Whether both sides make the same calls in one place, and it is known how long they take."""
    if len(a) != 1 or len(b) != 1:
        return False
    known = a[0].dispatch_us and b[0].dispatch_us
    return bool(known) and same_calls(a[0].calls, b[0].calls)


def _beyond_margin(pairs: Iterable[tuple[float, float]], least_ms: float) -> list[float]:
    """Differences of times that differ by more than hosts do, ms."""
    return [
        b_ms - a_ms
        for a_ms, b_ms in pairs
        if abs(b_ms - a_ms) > _margin(a_ms, b_ms, least_ms, APART)
    ]


def _margin(a_ms: float, b_ms: float, least_ms: float, share: float) -> float:
    """How much two times may differ and be the same work."""
    return least_ms + share * min(a_ms, b_ms)


def _python(alike: list[tuple[HostPart, HostPart]], least_ms: float) -> list[float]:
    """What short Python before the calls that both make became longer by, next to the rest of the
    host's time, ms."""
    before_ms = sum(p.calls * p.between_us for p, _ in alike) * US_TO_MS
    after_ms = sum(p.calls * p.between_us for _, p in alike) * US_TO_MS
    rest_a = sum(p.calls * (p.dispatch_us - p.between_us) for p, _ in alike)
    rest_b = sum(p.calls * (p.dispatch_us - p.between_us) for _, p in alike)
    at_speed_of_a = after_ms * rest_a / rest_b if rest_b else after_ms
    # Of the longer one: Python is a small part of a call, and a share of nothing is nothing.
    if abs(at_speed_of_a - before_ms) > least_ms + PYTHON_APART * max(at_speed_of_a, before_ms):
        return [at_speed_of_a - before_ms]
    return []
