"""Running a tape stretch by stretch gives, to the nanosecond, what running it op by op gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyzed import measurements
from tests.recorded import GPU, KINETO, NSYS, label
from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.replay import simulate, stretches
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tail, Tape


def op_by_op(tape: Tape, repeats: int) -> Any:
    """What the loop over single ops makes of a tape that meets no other."""
    return next(simulate.op_by_op(tape, repeats))


def same(tape: Tape, repeats: int) -> bool:
    """Whether there was something to compare; both ways agree."""
    found = stretches.run_alone(tape, repeats)
    if found is None:
        return False
    for one, other in zip(found, op_by_op(tape, repeats), strict=True):
        assert list(one) == list(other)
    return True


def tape_of(
    events: list[tuple[int, bool]], ops: list[tuple[int, int, int, int, int, int, int, int]]
) -> Tape:
    """A tape from host time and wait of each event, and of each op: event, stream, duration,
    latency, gap, how far back the ops are that it waits for (0: none), and the delay."""
    event, stream, duration, latency, gap, back, also, delay = (
        np.array(ops, np.int64).reshape(-1, 8).T
    )
    order = np.argsort(event % len(events), kind="stable")
    index = np.arange(len(ops))
    awaited, also_awaited = (
        np.where((one > 0) & (one <= index), index - one, -1) for one in (back, also)
    )
    host = np.array([time for time, _ in events], np.int64)
    nothing = np.zeros(len(events), np.int64)
    return Tape(
        steps=1,
        dispatch=host,
        work=nothing + 3,
        loading=nothing,
        reading=nothing,
        sending=nothing,
        profiling=nothing,
        waits=np.array([waits for _, waits in events]),
        waits_for=nothing - 1,
        reads=nothing.astype(bool),
        call=nothing,
        tail=Tail(5, 0, 2, 0),
        event=(event % len(events))[order],
        stream=stream[order].astype(np.int32),
        duration=duration[order],
        alone=duration,
        latency=latency[order],
        gap=gap[order],
        dependencies=Dependencies(awaited, delay, also_awaited),
        communication=index < 0,
        copy=index < 0,
        meeting=np.full(len(ops), -1),
        row=index,
        source=None,
    )


times = st.integers(0, 50)
EVENTS = st.lists(st.tuples(times, st.booleans()), min_size=1, max_size=30)
FEW_WAITS = st.lists(
    st.tuples(times, st.sampled_from([False] * 9 + [True])), min_size=1, max_size=30
)
OPS = st.lists(
    st.tuples(
        times, st.integers(0, 3), times, times, st.integers(-5, 20), *[st.integers(0, 4)] * 2, times
    ),
    max_size=60,
)


@given(EVENTS | FEW_WAITS, OPS, st.integers(1, 3), st.sampled_from([1, 2, 5, 1024]))
@settings(max_examples=300)
def test_any_tape(events: Any, ops: Any, repeats: int, depth: int) -> None:
    """With a launch queue of any depth, so that it is full now and then."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (simulate, stretches):
            patched.setattr(module, "QUEUE_DEPTH", depth)
        patched.setattr(stretches, "LEAST_OPS", 0)
        assert same(tape_of(events, ops), repeats) or not ops


def test_a_full_queue_holds_the_host() -> None:
    ops = [(i, 0, 100, 0, 0, 0, 0, 0) for i in range(3000)]
    assert same(tape_of([(1, False)] * 3000, ops), 2)


def test_short_stretches_are_run_op_by_op() -> None:
    ops = [(i, 0, 100, 0, 0, 0, 0, 0) for i in range(100)]
    assert stretches.run_alone(tape_of([(1, True)] * 100, ops), 2) is None
    waiting = [(*op[:5], 1, 0, 0) for op in ops]
    assert stretches.run_alone(tape_of([(1, False)] * 100, waiting), 2) is None


@pytest.mark.parametrize("place", [2, 3, 4, 7])
def test_times_of_damaged_recordings_do_not_overflow(place: int) -> None:
    """Python's integers have any length."""
    ops = [(i, 0, 100, 0, 0, 0, 0, 0) for i in range(100)]
    absurd = [(*op[:place], 2**61, *op[place + 1 :]) for op in ops]
    assert stretches.run_alone(tape_of([(1, False)] * 100, absurd), 2) is None
    assert stretches.run_alone(tape_of([(2**61, False)] * 100, ops), 2) is None
    assert stretches.run_alone(tape_of([(1, False)] * 100, ops), 2) is not None


@pytest.mark.parametrize("path", [*GPU, *KINETO[::2], *NSYS], ids=label)
def test_recorded_tapes(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "LEAST_OPS", 0)
    tapes = [
        made
        for m in measurements(path).each
        if m.timed.steps.found and (made := make_tape(m.rated)) is not None
    ]
    assert all(same(tape, 2) for tape in tapes)
