"""The first step and the warm-up apart from the steady step, and when compilation has paid for
itself.

A first step loads kernels, allocates memory and, compiled, compiles. Its time is the GPU's work
and, while the GPU idles, what the host did: compile work, then calls of the driver by name, then
the rest."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import (
    EMPTY,
    IntervalSet,
    clip,
    intersect,
    median_of,
    subtract,
    union,
)
from traceanalyzer.analysis.groups.first_steps import NEVER, begin_of_first, paid_back
from traceanalyzer.analysis.time.steps import WARMUP_RATIO
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, ms
from traceanalyzer.replay.compile.model import Compiled, FirstStepPart, StepsUse
from traceanalyzer.trace import F64, distinct
from traceanalyzer.trace.compile_log import CompileLog

MAX_CALLS = 4  # calls of the driver that a first step is taken apart by
NAMED_SHARE = 0.5  # of what a first step takes longer, the rest without a name
OTHER = "GPU idle: other host work, the recorder's start-up included"
NO_STOPWATCH = (
    "To see after how many steps compilation has paid for itself, record with collect torch --eager-steps 20, or time "
    "the steps compiled and eager (TORCH_COMPILE_DISABLE=1) and give them as --step-ms and --eager-step-ms."
)
"""An estimate of the step without the profiler does not do: the two steps differ by less than it
may be wrong."""
NOT_FASTER = "The eager step is no longer than the compiled one: compilation never pays for itself."
NO_STEPS = "The trace has no steps."
WARM = "The recording begins after warm-up: collect torch --first shows what it cost."
PAYS = "{:.3g} s of compilation over {:.4g} ms saved in each step."


@dataclass(frozen=True)
class StopwatchTimes:
    """Steps timed without a profiler, ms: of the program as it is, and of the same program without
    compilation."""

    step_ms: float | None = None
    eager_step_ms: float | None = None
    reach_ms: float = 0.0  # half of the 90 % interval of what the one saves over the other


def with_steps(
    compiled: Compiled,
    log: CompileLog | None,
    timed: Timed,
    step_ms: float | None,
    stopwatch: StopwatchTimes,
) -> Compiled:
    """What was measured, with the steps of a trace beside the compile time; `step_ms` is without
    the profiler."""
    use = with_stopwatch(compiled, stopwatch).steps
    if use.step_ms is None:
        use = replace(use, step_ms=step_ms)
    steps = timed.steps
    if not steps.found:
        return replace(compiled, steps=_noted(use, NO_STEPS))
    times_ms = steps.duration / NS_PER_MS
    steady_ms = float(times_ms[steps.steady].mean())
    times_ms[0] = (steps.end[0] - begin_of_first(timed)) / NS_PER_MS
    use = replace(use, recorded_step_ms=steady_ms)
    first_step = _first_step(timed, log)
    warmup = steps.warmup
    if not warmup and _warms_up(times_ms, first_step):
        warmup = 1
    if not warmup:
        return replace(compiled, steps=_noted(use, WARM))
    warmup_ms = times_ms[:warmup]
    use = replace(
        use,
        first_step_ms=float(times_ms[0]),
        first_step=first_step,
        warmup_ms=float(warmup_ms.sum()),
        warmup_excess_ms=float((warmup_ms - steady_ms).sum()),
        warmup_steps=warmup,
    )
    return replace(compiled, steps=use)


def _noted(use: StepsUse, note: str) -> StepsUse:
    return replace(use, basis=f"{use.basis} {note}".lstrip())


def _first_step(timed: Timed, log: CompileLog | None) -> list[FirstStepPart]:
    """What the first step does, and how much of each a steady one has."""
    steps = timed.steps
    first = union(np.array([begin_of_first(timed)]), steps.end[:1])
    steady = union(steps.start[steps.steady], steps.end[steps.steady])
    return [
        FirstStepPart(
            what,
            ms(intersect(time, first).total),
            ms(intersect(time, steady).total) / steps.steady_count,
        )
        for what, time in _parts(timed, log, first)
    ]


def _warms_up(times_ms: F64, first_step: list[FirstStepPart]) -> bool:
    """Whether a long first step is the program's own: most of what it takes more than a steady one
    has a name. The rest may be the recorder's start-up."""
    if len(times_ms) < 2 or times_ms[0] <= WARMUP_RATIO * median_of(times_ms[1:]):
        return False
    more_ms = {part.what: part.ms - part.steady_ms for part in first_step}
    return more_ms[OTHER] < NAMED_SHARE * sum(more_ms.values())


def with_stopwatch(compiled: Compiled, stopwatch: StopwatchTimes) -> Compiled:
    """What was measured, with the steps after which compilation has paid for itself."""
    step_ms = stopwatch.step_ms
    eager_ms = stopwatch.eager_step_ms
    pays = NEVER
    basis = NO_STOPWATCH
    if step_ms is not None and eager_ms is not None and compiled.compile_s is not None:
        saved = eager_ms - step_ms
        pays = paid_back(compiled.compile_s * 1e3, saved, stopwatch.reach_ms)
        basis = PAYS.format(compiled.compile_s, saved) if saved > 0 else NOT_FASTER
    steps = StepsUse(
        step_ms=step_ms,
        eager_step_ms=eager_ms,
        basis=basis if compiled.compile_s is not None else "",
    )
    steps = replace(steps, pays_after_steps=pays.steps, pays_low=pays.low, pays_high=pays.high)
    return replace(compiled, steps=steps)


def _parts(
    timed: Timed, log: CompileLog | None, first: IntervalSet
) -> Iterator[tuple[str, IntervalSet]]:
    """Disjoint sets of time that cover everything, and what each is."""
    first_step = union(np.array([begin_of_first(timed)]), timed.steps.end[-1:])
    busy = timed.activity[timed.device].busy if timed.device is not None else EMPTY
    yield "GPU work", busy
    left = subtract(first_step, busy)
    epoch_ns = timed.trace.epoch_ns
    if log is not None and epoch_ns and log.spans:  # the two have a clock in common
        outermost = [
            (span.start_ns - epoch_ns, span.end_ns - epoch_ns)
            for span in log.spans
            if span.depth == 0
        ]
        extent = (begin_of_first(timed), int(timed.steps.end[-1]))
        start, end = np.array(outermost, np.int64).reshape(-1, 2).T
        compiling = clip(union(start, end), extent)
        if len(compiling.start):
            yield "GPU idle: compiling", intersect(left, compiling)
            left = subtract(left, compiling)
    for name, calls in _longest_calls(timed, intersect(left, first)):
        yield f"GPU idle: {name}", intersect(left, calls)
        left = subtract(left, calls)
    yield OTHER, left


def _longest_calls(timed: Timed, idle: IntervalSet) -> list[tuple[str, IntervalSet]]:
    """The calls that fill most of this idle time, by name."""
    if not len(idle.start):
        return []
    calls = timed.trace.api_calls
    within = (calls.start < idle.end[-1]) & (calls.end > idle.start[0])
    near = np.flatnonzero(within & (calls.name >= 0))
    found = []
    for code in distinct(calls.name[near]).tolist():
        rows = near[calls.name[near] == code]
        calling = union(calls.start[rows], calls.end[rows])
        found.append((ms(intersect(idle, calling).total), code))
    longest = sorted((one for one in found if one[0] > 0), reverse=True)[:MAX_CALLS]
    result = []
    for _, code in longest:
        rows = np.flatnonzero(calls.name == code)
        calling = union(calls.start[rows], calls.end[rows])
        result.append((timed.trace.strings[code], calling))
    return result
