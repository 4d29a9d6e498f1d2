"""What tells a change of the program from a host or a GPU that was faster in one of two recordings.

Hosts run 10 to 60 % faster or slower from one recording to the next, and GPUs at other clocks. Both
are so everywhere alike: the median over what both sides call tells by which factor. A change of the
program shows in certain places: another number of calls or waits, other kernels, a stretch of other
work that is gone."""

import dataclasses
import math
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.base import dataclass, ratio
from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.comparison.work import Work, of_part, paired, paired_work
from traceanalyzer.replay.host_parts import HostPart
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.breakdown import recorded_ms

US_TO_MS = 1e-3
COUNTS = ("launches_per_step", "launches.copy_calls", "syncs.calls")
"""A difference of less than one a step is the edge of the recording."""
SAME_CALLS = 0.005
"""Numbers of calls that differ by less are the same: an op now and then falls into the neighbouring
step."""
EDGE = 0.51  # likewise calls a step: the edges of a recording cut one off in every other step
APART = 0.25
"""Work that differs by more than the median factor and this is another's doing than the machine's:
programs recorded twice, minutes apart on one machine, differ by up to a quarter."""
PYTHON_APART = 1 / 3
"""Likewise Python between operators and calls, next to these: in programs recorded twice it
differed by a quarter."""
LEAST_STRETCH = 0.03
"""Stretches of host work that changed by less than this share of the step: some are now above, now
below 0.1 ms."""
EVERY_STEP = 0.9  # stretches that come less than this often are hiccups


class Speed(NamedTuple):
    """How long B takes over A for the same, and within what half of the time lies."""

    factor: float = 1.0
    low: float = 1.0
    high: float = 1.0


@dataclass(frozen=True)
class Evidence:
    """Factors of both machines, and what changed in certain places: shares of A's step."""

    host: Speed | None  # None where the host's time was not recorded in parts
    gpu: Speed | None
    on_host: float
    on_gpu: float
    common_ms: float  # time of B's step in kernels that both run alike
    dispatch_share: (
        float  # of B's host time, that on operators and calls: what is as fast as its host
    )
    # whether both hosts were recorded in parts: without, changed work cannot be told in time
    known: bool
    is_same_work: bool  # whether nothing changed in certain places

    @property
    def most(self) -> float:
        """The larger of what changed on the host and on the GPU."""
        return max(abs(self.on_host), abs(self.on_gpu))

    def towards(self, change: float) -> float:
        """How much of what was found in certain places has the sign of a change of the step."""
        sign = math.copysign(1.0, change)
        return max(
            sign * self.on_host, sign * self.on_gpu, sign * (self.on_host + self.on_gpu), 0.0
        )


WITHOUT_STEPS = ("none", "recording")  # sources of steps that are none
EVENLY = 0.05  # counts whose quartiles differ by more are of different work, not of more of it
SAME_WORK = 0.005  # counts that differ by less are of as much work


def evidence_of(
    a: Report, b: Report, parts: tuple[list[StepPart], list[StepPart]], step_ms: float
) -> Evidence:
    """What is known of both, the device work by `parts`; `step_ms` is A's."""
    gpu, common_ms, on_gpu = _device(*parts)
    known = bool(a.host_parts and b.host_parts)
    if known:
        host, on_host = _host(a, b, step_ms)
    else:  # all that is known of hosts without their parts is idle time by cause
        idle = [
            (x.ms, y.ms)
            for x, y in paired_work(*parts, lambda p: p.cls if p.part == "idle" else None)
        ]
        host = None
        on_host = _differences(idle, LEAST_STRETCH * step_ms)
    alike = not [*on_gpu, *on_host] and (known or _counts_alike(a, b))
    dispatch, other = (
        sum(map(attrgetter(name), b.host_parts)) for name in ("dispatch_ms", "stretch_ms")
    )
    share = ratio(dispatch, dispatch + other) or 0.0
    on_host_share, on_gpu_share = (ratio(sum(ms), step_ms) or 0.0 for ms in (on_host, on_gpu))
    return Evidence(host, gpu, on_host_share, on_gpu_share, common_ms, share, known, alike)


def usual_gpu(gpu: Speed | None) -> float:
    """The factor between two GPUs, 1 where it is more than clocks can be: then it is the
    program's."""
    return gpu.factor if gpu and abs(gpu.factor - 1.0) <= APART * max(gpu.factor, 1.0) else 1.0


def _counts_alike(a: Report, b: Report) -> bool:
    """Whether both have their steps by operator, and launch, copy and wait for the device equally
    often."""
    if not (a.step_parts and b.step_parts):
        return False
    of_a = figures_by_path(a)
    of_b = figures_by_path(b)
    counts = [(of_a[name].value, of_b[name].value) for name in COUNTS]
    return all(
        x is not None and y is not None and abs(y - x) < max(SAME_CALLS * max(x, y), 1.0)
        for x, y in counts
    )


def same_calls(a: float, b: float) -> bool:
    """Whether both sides make as many calls a step."""
    return bool(a and b) and abs(b - a) <= max(SAME_CALLS * max(a, b), EDGE)


def _device(a: list[StepPart], b: list[StepPart]) -> tuple[Speed | None, float, list[float]]:
    """The GPU's factor, B's time in what both run alike, and the other differences, ms."""
    sums = paired_work(
        a, b, lambda p: None if p.part == "idle" else (p.part, p.op, p.shapes, p.dtypes, p.kernel)
    )
    changed = [y.ms - x.ms for x, y in sums if not same_calls(x.calls, y.calls)]
    alike = [(x.ms, y.ms) for x, y in sums if same_calls(x.calls, y.calls) and x.ms and y.ms]
    speed = speed_of([(y / x, min(x, y)) for x, y in alike])
    before, after = np.array(alike, float).reshape(-1, 2).T
    usual = before * usual_gpu(speed)
    apart = abs(after - usual) > APART * np.maximum(after, usual)
    return speed, sum(after[~apart].tolist()), [*changed, *(after - before)[apart].tolist()]


class _Host(NamedTuple):
    """What a report says of its host, calls and ms a step."""

    parts: list[HostPart]
    recorded: tuple[
        bool, bool
    ]  # whether operators were, and stacks: their cost is part of the host's time
    waits: float
    sync_ms: float
    stretch_ms: float
    allocate_ms: float

    @classmethod
    def of(cls, report: Report) -> "_Host":
        parts = report.host_parts
        metrics = report.metrics
        recorded = (
            any(p.op for p in parts),
            any("stacks" in (i.collected or ()) for i in report.inputs),
        )
        sync_ms = getattr((metrics.unprofiled or metrics).idle_ms, "sync", 0.0)
        stretch_ms = sum(p.stretch_ms for p in parts if p.stretches >= EVERY_STEP)
        allocate_ms = getattr(metrics.host, "allocate_ms", 0.0)
        return cls(parts, recorded, sum(p.waits for p in parts), sync_ms, stretch_ms, allocate_ms)


def _host(a: Report, b: Report, step_ms: float) -> tuple[Speed | None, list[float]]:
    """The host's factor, and what changed on it in certain places, ms of A's host."""
    x = _Host.of(a)
    y = _Host.of(b)
    least = LEAST_STRETCH * step_ms
    named = x.recorded[0] and y.recorded[0]
    pairs = paired(x.parts, y.parts, lambda p: (named and p.op, p.call))
    timed = [(p, q) for [p], [q] in filter(_is_timed, pairs)]
    speed = speed_of(
        [(q.dispatch_us / p.dispatch_us, min(p.dispatch_ms, q.dispatch_ms)) for p, q in timed]
    )
    factor = (speed or Speed()).factor
    sums = [map(_work, pair) for pair in pairs]
    changed = [
        theirs.ms / factor - mine.ms
        for mine, theirs in sums
        if not same_calls(mine.calls, theirs.calls)
    ]
    if abs(y.waits - x.waits) > max(SAME_CALLS * max(x.waits, y.waits), EDGE):
        changed.append(y.sync_ms - x.sync_ms)
    stretches = ((x.stretch_ms, y.stretch_ms), (x.allocate_ms, y.allocate_ms / factor))
    changed += _differences(stretches, least)
    return speed, [*changed, *_python(timed, least) * (x.recorded == y.recorded)]


def _work(parts: list[HostPart]) -> Work:
    return Work(sum(p.dispatch_ms for p in parts), sum(p.calls for p in parts))


def _is_timed(pair: tuple[list[HostPart], list[HostPart]]) -> bool:
    """Whether both sides make the same calls in one place, and it is known how long they take."""
    times = [p.dispatch_us for side in pair for p in side]
    return (
        list(map(len, pair)) == [1, 1]
        and all(times)
        and same_calls(pair[0][0].calls, pair[1][0].calls)
    )


def _differences(pairs: Iterable[tuple[float, float]], least: float) -> list[float]:
    """Those of times that differ by more than hosts do, ms."""
    return [y - x for x, y in pairs if abs(y - x) > least + APART * min(x, y)]


def _python(alike: list[tuple[HostPart, HostPart]], least: float) -> list[float]:
    """What short Python before the calls that both make became longer by, next to the rest of the
    host's time, ms."""
    sides = [[pair[i] for pair in alike] for i in (0, 1)]
    before, after = (sum(p.calls * p.between_us for p in side) * US_TO_MS for side in sides)
    rest = [sum(p.calls * (p.dispatch_us - p.between_us) for p in side) for side in sides]
    now = after * rest[0] / rest[1] if rest[1] else after
    return [now - before] if abs(now - before) > least + PYTHON_APART * max(now, before) else []


def speed_of(ratios: list[tuple[float, float]]) -> Speed | None:
    """The quartiles of ratios, each with its weight; None without any."""
    ratios, whole = sorted(ratios), sum(weight for _, weight in ratios)
    if not whole:
        return None
    places = np.searchsorted(np.cumsum([weight / whole for _, weight in ratios]), (0.25, 0.5, 0.75))
    low, middle, high = (ratios[min(i, len(ratios) - 1)][0] for i in places.tolist())
    return Speed(middle, low, high)


class Unit(NamedTuple):
    """What times are of; the text is empty where they are of a step on one side alone."""

    per: str = "per step"
    of_a: float = 1.0  # how many of it A's recording holds
    of_b: float = 1.0

    @property
    def each(self) -> str:
        """What counts are of, after them."""
        return {"per step": " a step", "per repeat": " a repeat"}.get(self.per, "")


def unit_of(a: Report, b: Report) -> Unit:
    """What both can be compared by; steps where either has them."""
    without = [report.metrics.step_source in WITHOUT_STEPS for report in (a, b)]
    if not all(without):
        return Unit("") if any(without) else Unit()
    x = a.metrics.repeats
    y = b.metrics.repeats
    whole = recorded_ms(a), recorded_ms(b)
    if x and y and whole[0] and whole[1] and (x.name, x.ops) == (y.name, y.ops):
        return Unit("per repeat", whole[0] / x.mean_ms, whole[1] / y.mean_ms)
    return _as_much_work(*(of_part(report.step_parts, "compute") for report in (a, b)))


def _as_much_work(a: list[StepPart], b: list[StepPart]) -> Unit:
    sums = paired_work(a, b, lambda p: (p.op, p.shapes, p.kernel))
    counts = speed_of(
        [(y.calls / x.calls, min(x.ms, y.ms)) for x, y in sums if x.calls and y.calls]
    )
    if (
        counts is None
        or counts.high - counts.low > EVENLY * counts.factor
        or abs(counts.factor - 1.0) < SAME_WORK
    ):
        return Unit("for the recording")
    return Unit("for as much work", 1.0, counts.factor)


def of_one(report: Report, units: float) -> Report:
    """The report with the times and counts of one unit, where it holds so many."""
    if units == 1.0:
        return report
    metrics = report.metrics
    known = {name: getattr(metrics, name) for name in ("budget_ms", "idle_ms")}
    scaled = {
        name: type(of)(*(ms / units for ms in dataclasses.astuple(of)))
        for name, of in known.items()
        if of
    }
    single = ("unprofiled_step_time_ms", "launches_per_step", "kernels_per_step")
    scaled |= {
        name: getattr(metrics, name) / units
        for name in single
        if getattr(metrics, name) is not None
    }
    parts = [
        dataclasses.replace(
            p, calls=p.calls / units, ms=p.ms / units, batch_ms=[ms / units for ms in p.batch_ms]
        )
        for p in report.step_parts
    ]
    return dataclasses.replace(
        report, metrics=dataclasses.replace(metrics, **scaled), step_parts=parts
    )
