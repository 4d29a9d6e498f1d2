from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.causes.test_gaps import Program, causes
from tests.examples import tried
from traceanalyzer.analysis.causes import unwaited
from traceanalyzer.analysis.causes.draining import REFILL_LAUNCHES
from traceanalyzer.analysis.causes.gaps import GapSide, find_gaps
from traceanalyzer.analysis.causes.unwaited import gaps_without_waits
from traceanalyzer.diagnosis.measurements import measure

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def short_queue() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unwaited, "QUEUE_DEPTH", 3)
        yield


def left(program: Program) -> list[int]:
    ctx = measure(program.build())
    gaps = find_gaps(ctx.started)
    inside = gaps.side == GapSide.INSIDE
    parts = gaps_without_waits(
        ctx.started, gaps.start[inside], gaps.end[inside], gaps.next_op[inside]
    )
    return np.concatenate([lengths for _, lengths in parts]).tolist()


def event_by_event(
    host: list[int],
    first: list[bool],
    latency: list[int],
    pause: list[int],
    busy: list[int],
    begin: int,
):
    """The gaps, one launch after the other: each begins a stretch of work or belongs to the one
    begun last."""
    blocked = 0
    ended = begin
    started = []
    found = []
    stretch = begin
    for j, time in enumerate(host):
        if j >= unwaited.QUEUE_DEPTH:
            blocked = max(blocked, started[j - unwaited.QUEUE_DEPTH] - time)
        if first[j]:
            k = len(found)
            stretch = max(time + blocked + latency[k], ended + pause[k])
            found.append(stretch - ended)
            ended = stretch + busy[k]
        started.append(stretch)
    return found


@st.composite
def programs(draw):
    count = draw(st.integers(1, 14))
    times = st.lists(st.integers(0, 40), min_size=count, max_size=count)
    first = [True, *draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1))]
    gaps = sum(first)
    some = st.lists(st.integers(0, 30), min_size=gaps, max_size=gaps)
    return (
        np.cumsum(draw(times)),
        np.array(first),
        *(np.array(draw(some)) for _ in range(3)),
        draw(st.integers(0, 50)),
    )


@tried(5)
@given(programs())
def test_the_running_maximum_is_what_a_loop_over_the_launches_gives(program) -> None:
    host, first, latency, pause, busy, begin = program
    stretch = np.cumsum(first)
    offset = np.zeros_like(host)
    found = unwaited._EarliestSchedule(
        host,
        np.flatnonzero(first),
        lambda here: (stretch[here], offset[here]),
        lambda here: (latency[here], pause[here], busy[here]),
        begin,
    )
    assert np.concatenate(
        [lengths for _, lengths in found.gap_lengths()]
    ).tolist() == event_by_event(*(a.tolist() for a in program[:-1]), begin)


@given(st.lists(st.integers(1, 7), max_size=6))
def test_what_is_made_in_advance_is_what_is_asked_for(lengths: list[int]) -> None:
    column = np.arange(sum(lengths)) * 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unwaited, "MADE_AT_ONCE", 4)
        ask = unwaited._InAdvance(lambda part: (column[part], -column[part]), len(column))
        begin = 0
        for length in lengths:
            part = slice(begin, begin + length)
            found, negative = ask(part)
            assert found.tolist() == column[part].tolist()
            assert negative.tolist() == (-column[part]).tolist()
            begin += length


def test_without_waits_nothing_changes() -> None:
    assert left(Program().launch(us=50).spend(100).launch()) == [54_000]


def waiting(long_us: float) -> Program:
    """30 short kernels, launched in 570 us, follow a long one for which the host waits before it
    launches them."""
    program = Program()
    for _ in range(4):
        program.launch(us=long_us).sync()
        for _ in range(30):
            program.spend(15).launch(us=5)
    return program


def launch_and_sync(program: Program) -> tuple[int, int]:
    found = causes(program)
    return found.count("launch"), found.count("sync")


def test_a_wait_that_costs_the_lead_is_what_exposes_the_launches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it all 30 would have been launched while the long kernel ran; what is left are pauses
    of queued ops."""
    monkeypatch.setattr(unwaited, "QUEUE_DEPTH", 1024)
    assert launch_and_sync(waiting(800)) == (3, 120)


def test_a_host_that_is_too_slow_anyway_keeps_its_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwaited, "QUEUE_DEPTH", 1024)
    launch, sync = launch_and_sync(waiting(100))
    assert launch > 50
    assert sync >= 4 * REFILL_LAUNCHES


def test_the_host_is_never_further_ahead_than_the_queue_is_long() -> None:
    """The waits cost the lead, but the lead is worth three launches only."""
    launch, sync = launch_and_sync(waiting(800))
    assert launch > 50
    assert sync >= 4 * REFILL_LAUNCHES


def test_the_queue_has_room_as_soon_as_the_op_a_queue_before_begins() -> None:
    """Without the wait the second kernel begins as the first one ends and runs 50 us; two follow,
    each a pause later. The last is launched when the second begins, not when it ends, and so runs
    right after the one before it."""
    program = Program().launch(us=100).sync()
    for us in (50, 1, 1, 1):
        program.spend(15).launch(us=us)
    assert left(program) == [0, 1000, 1000, 0]
