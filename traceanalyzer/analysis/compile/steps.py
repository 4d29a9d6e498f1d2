"""The first step and the warm-up apart from the steady step, and when compilation has paid for itself.

Of eager programs, too: a first step loads kernels, allocates memory and, compiled, compiles. Its time is the GPU's work
and, while the GPU idles, what the host did: compile work, then calls of the driver by name, then the rest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import clip, intersect, subtract, union
from traceanalyzer.analysis.compile.model import FirstStepPart, StepsUse
from traceanalyzer.analysis.time.steps import WARMUP_RATIO
from traceanalyzer.figures import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.algebra.intervals import IntervalSet
    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.compile_log import CompileLog
    from traceanalyzer.trace import F64

MAX_CALLS = 4
"""Calls of the driver that a first step is taken apart by."""
NAMED_SHARE = 0.5
"""Of what a first step takes longer, the rest without a name."""
OTHER = "GPU idle: other host work, the recorder's start-up included"
NO_EAGER = (
    "Time the program eager, too (TORCH_COMPILE_DISABLE=1), and give its step as --eager-step-ms to see after how many "
    "steps compilation has paid for itself."
)
NOT_FASTER = "The eager step is no longer than the compiled one: compilation never pays for itself."
WARM = "The recording begins after warm-up: record from the first step to see what it cost."
PAYS = "{:.3g} s of compilation over {:.4g} ms saved in each step"


def steps_use(
    compiled: Compiled,
    log: CompileLog | None,
    timed: Timed,
    step_ms: float | None,
    eager_step_ms: float | None = None,
) -> StepsUse:
    """Steps of a trace beside the compile time; `step_ms` is without the profiler, `eager_step_ms` the step of the same
    program without compilation."""
    pays, basis = _pays(compiled, step_ms, eager_step_ms)
    steps = timed.steps
    if not steps.found:
        notes = [basis, "The trace has no steps."]
        return StepsUse(step_ms, eager_step_ms=eager_step_ms, pays_after_steps=pays, basis=_said(notes))
    durations = steps.duration / NS_PER_MS
    steady = float(durations[steps.steady].mean())
    durations[0] = (steps.end[0] - _begin(timed)) / NS_PER_MS
    parts = _first_step(timed, log)
    warmup = steps.warmup or int(_is_first_of_all(parts, durations))
    if not warmup:
        return StepsUse(step_ms, steady, eager_step_ms=eager_step_ms, pays_after_steps=pays, basis=_said([basis, WARM]))
    return StepsUse(
        step_ms=step_ms,
        recorded_step_ms=steady,
        first_step_ms=float(durations[0]),
        first_step=parts,
        warmup_ms=float(durations[:warmup].sum()),
        warmup_excess_ms=float((durations[:warmup] - steady).sum()),
        warmup_steps=warmup,
        eager_step_ms=eager_step_ms,
        pays_after_steps=pays,
        basis=basis,
    )


def _begin(timed: Timed) -> int:
    """When the host began with the first step, or earlier work of the GPU ended. Steps are counted without the idle
    time before the first launch; here it is what a first step costs."""
    steps, ops = timed.steps, timed.trace.device_ops
    own = ops.start[steps.of_op == 0]
    earlier = ops.end[ops.start < own.min()] if len(own) else own
    return min(max(int(steps.host_start[0]), int(earlier.max(initial=steps.host_start[0]))), int(steps.start[0]))


def _is_first_of_all(parts: list[FirstStepPart], durations: F64) -> bool:
    """Whether a long first step is the program's own: most of what it takes more than a steady one has a name. The rest
    may be the recorder's start-up."""
    if len(durations) < 2 or durations[0] <= WARMUP_RATIO * float(np.median(durations[1:])):
        return False
    more = {part.what: part.ms - part.steady_ms for part in parts}
    return more.pop(OTHER) < NAMED_SHARE * sum(part.ms - part.steady_ms for part in parts)


def _said(sentences: list[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _pays(compiled: Compiled, step_ms: float | None, eager_step_ms: float | None) -> tuple[int | None, str]:
    """After how many steps the time saved is the compile time, and how that was worked out or why it is not known."""
    if compiled.compile_s is None or step_ms is None:
        return None, ""
    if eager_step_ms is None:
        return None, NO_EAGER
    saved = eager_step_ms - step_ms
    if saved <= 0:
        return None, NOT_FASTER
    return math.ceil(compiled.compile_s * 1e3 / saved), f"{PAYS.format(compiled.compile_s, saved)}."


def _first_step(timed: Timed, log: CompileLog | None) -> list[FirstStepPart]:
    """What the first step's time went into, with what a steady step has of it; the parts sum to the step."""
    steps = timed.steps
    first = union(np.array([_begin(timed)]), steps.end[:1])
    steady = union(steps.start[steps.steady], steps.end[steps.steady])
    return [
        FirstStepPart(what, _ms(intersect(found, first)), _ms(intersect(found, steady)) / steps.steady_count)
        for what, found in _parts(timed, log, first)
    ]


def _parts(timed: Timed, log: CompileLog | None, first: IntervalSet) -> Iterator[tuple[str, IntervalSet]]:
    """Disjoint sets of time that cover everything, and what each is."""
    whole = union(np.array([_begin(timed)]), timed.steps.end[-1:])
    busy = timed.activity[timed.device].busy if timed.device is not None else union(*_NOTHING)
    yield "GPU work", busy
    left = subtract(whole, busy)
    compiling = _compiling(timed, log)
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
    calls, window = timed.trace.api_calls, (int(idle.start[0]), int(idle.end[-1]))
    near = np.flatnonzero((calls.start < window[1]) & (calls.end > window[0]) & (calls.name >= 0))
    found = []
    for code in np.unique(calls.name[near]).tolist():
        rows = near[calls.name[near] == code]
        found.append((_ms(intersect(idle, union(calls.start[rows], calls.end[rows]))), code))
    longest = sorted((one for one in found if one[0] > 0), reverse=True)[:MAX_CALLS]
    return [(timed.trace.strings[code], _of_name(timed, code)) for _, code in longest]


def _of_name(timed: Timed, code: int) -> IntervalSet:
    calls = timed.trace.api_calls
    rows = np.flatnonzero(calls.name == code)
    return union(calls.start[rows], calls.end[rows])


def _compiling(timed: Timed, log: CompileLog | None) -> IntervalSet:
    """Compile work on the trace's clock; none where the two have no clock in common."""
    epoch_ns = timed.trace.epoch_ns
    if log is None or not epoch_ns or not log.spans:
        return union(*_NOTHING)
    outermost = [span for span in log.spans if span.depth == 0]
    start = np.array([span.start_ns - epoch_ns for span in outermost], np.int64)
    end = np.array([span.end_ns - epoch_ns for span in outermost], np.int64)
    extent = (_begin(timed), int(timed.steps.end[-1]))
    return clip(union(start, end), extent)


_NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _ms(a: IntervalSet) -> float:
    return a.total / NS_PER_MS
