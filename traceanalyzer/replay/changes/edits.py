"""Small changes of a tape that scenarios are made of."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np

from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.replay.on_tape import events_of_only
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I32, I64, Bool

P = ParamSpec("P")
Change = Callable[[Tape], Tape | None]
"""Makes another tape of a tape; None where the recording does not say what it needs."""


def parametric(change: Callable[Concatenate[Tape, P], Tape | None]) -> Callable[P, Change]:
    """What gives the change for some values, from one that takes them after the tape."""

    @wraps(change)
    def of_values(*values: P.args, **named: P.kwargs) -> Change:
        return lambda tape: change(tape, *values, **named)

    return of_values


def without(tape: Tape, ops: Bool) -> Tape:
    """The ops take no time and leave no gap; what is ordered by them stays so."""
    zero: I64 = np.zeros_like(tape.duration)
    return replace(
        tape,
        duration=np.where(ops, zero, tape.duration),
        alone=np.where(ops, zero, tape.alone),
        gap=np.where(ops, zero, tape.gap),
        latency=np.where(ops, zero, tape.latency),
    )


def without_launches(tape: Tape, ops: Bool) -> Tape:
    """The ops are gone, and so is what the host did to launch them, and its waits for them."""
    return without_dispatch(without(tape, ops), events_of_only(tape, ops))


def without_calls(tape: Tape, ops: Bool) -> Tape:
    """The ops are gone, and so are the calls that launched them; what their operators do on the host stays, because
    they launch others, too."""
    calls = tape.source.trace.api_calls
    called = np.minimum((calls.end - calls.start)[tape.call], tape.dispatch)
    alone = events_of_only(tape, ops)
    left = replace(without(tape, ops), waits=tape.waits & ~alone)
    return with_dispatch(left, np.where(alone, tape.dispatch - called, tape.dispatch))


def without_dispatch(tape: Tape, events: Bool) -> Tape:
    """The host does nothing before these events but what is work of its own, and waits at none of them."""
    left = replace(tape, waits=tape.waits & ~events)
    return with_dispatch(left, np.where(events, 0, tape.dispatch))


def without_work(tape: Tape, events: Bool) -> Tape:
    """The host has no long work of its own before these events."""
    return replace(tape, work=np.where(events, 0, tape.work))


def dispatch_at_most(tape: Tape, events: Bool, most_ns: float) -> Tape:
    """The host takes no longer than that on dispatch before these events."""
    return with_dispatch(tape, np.where(events, np.minimum(tape.dispatch, int(most_ns)), tape.dispatch))


def without_reads(tape: Tape) -> Tape:
    """Operators that only read a value are gone, on the device and on the host; waits stay."""
    left = without(tape, tape.reads[tape.event])
    return with_dispatch(replace(left, reading=np.zeros_like(tape.reading)), tape.dispatch - tape.reading)


def with_dispatch(tape: Tape, times: I64 | F64) -> Tape:
    """The host takes so long on dispatch before each event, ns, and for what it reads there no longer than that."""
    dispatch: I64 = np.rint(times).astype(np.int64)
    return replace(tape, dispatch=dispatch, reading=np.minimum(tape.reading, dispatch))


def retimed(tape: Tape, duration: I64 | F64) -> Tape:
    """The ops take these times, ns; what they would take alone changes in proportion."""
    ratio = np.divide(duration, tape.duration, out=np.ones(len(duration)), where=tape.duration > 0)
    times: I64 = np.rint(duration).astype(np.int64)
    return replace(tape, duration=times, alone=np.where(ratio == 1.0, tape.alone, tape.alone * ratio).astype(np.int64))


def on_own_stream(tape: Tape, ops: Bool, *, at_once: bool = True) -> Tape:
    """The ops run on a stream of their own, `at_once` without what they wait for, and nothing waits for them."""
    own: I32 = np.where(ops, int(tape.stream.max(initial=0)) + 1, tape.stream).astype(np.int32)
    waits, free = tape.dependencies, ops & at_once
    on, also = (np.where(free | _any_of(ops, one), -1, one) for one in (waits.on, waits.also_on))
    return replace(tape, stream=own, dependencies=Dependencies(on, waits.delay, also))


def _any_of(ops: Bool, others: I64) -> Bool:
    """Which entries name one of these ops."""
    return (others >= 0) & ops[np.maximum(others, 0)]
