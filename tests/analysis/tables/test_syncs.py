"""Waits by their place in the program, and what the device lost by each."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from traceanalyzer.analysis.causes.gaps import find_gaps
from traceanalyzer.analysis.tables.syncs import SyncRow, allocating_sentence, sync_rows
from traceanalyzer.diagnosis.measurements import measure


def rows_of(program: Program) -> list[SyncRow]:
    m = measure(program.build())
    return sync_rows(m.timed, find_gaps(m.started), m.phases)


def stepped(pauses: list[float]) -> Program:
    """A step for each pause: 50 us of work that the host waits for, the pause, then 100 us that it
    does not."""
    program = Program()
    for i, pause in enumerate(pauses):
        start = program.now
        program.op("aten::item", program.now, program.now + 61)
        program.launch(us=50).sync().spend(pause).launch(us=100).spend(2)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    return program


def test_what_the_device_lost_is_the_idle_time_that_the_wait_caused() -> None:
    (row,) = rows_of(stepped([20, 20, 20]))
    # the wait returns 3 us after the work, the host spends 20, a launch takes 6 to reach the device
    assert row.gpu_idle_ms == pytest.approx(0.029)
    assert (row.call, row.op, row.calls) == ("cudaStreamSynchronize", "aten::item", 1)
    # and for what the step before had queued, but for the first
    assert row.host_wait_ms == pytest.approx((55 + 150 + 150) / 3 / 1000)
    assert not row.benign


def test_steps_of_warm_up_do_not_count() -> None:
    """The first step loses ten times as much; a figure is of a steady step."""
    (row,) = rows_of(stepped([2000, 20, 20, 20, 20]))
    assert row.gpu_idle_ms == pytest.approx(0.029)
    assert row.calls == 1


def test_places_are_told_apart_and_the_one_that_costs_more_comes_first() -> None:
    program = Program()
    for i in range(3):
        start = program.now
        for name, pause in (("aten::cheap", 10), ("aten::dear", 60)):
            program.op(name, program.now, program.now + 60)
            program.launch(us=50).sync().spend(pause).launch(us=40).spend(2)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    dear, cheap = rows_of(program)
    assert (dear.op, cheap.op) == ("aten::dear", "aten::cheap")
    assert dear.gpu_idle_ms == pytest.approx(0.069)
    assert cheap.gpu_idle_ms == pytest.approx(0.019)


def test_waiting_beside_work_of_another_stream_is_benign() -> None:
    program = Program()
    for i in range(3):
        start = program.now
        program.launch(us=50)
        program.call("cudaLaunchKernel", program.now, program.now + 4, 100 + i)
        program.kernel("long", program.now + 6, program.now + 290, 100 + i, stream=9)
        program.sync().spend(200)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    (row,) = rows_of(program)
    assert row.benign
    assert row.gpu_idle_ms == pytest.approx(0, abs=1e-3)
    assert row.host_wait_ms > 0.04


def test_without_waits_there_is_no_row() -> None:
    program = Program()
    for i in range(3):
        program.annotation(f"ProfilerStep#{i}", program.now, program.now + 10)
        program.launch().spend(6)
    assert rows_of(program) == []


def allocating(us: float) -> Program:
    """Steps that wait, and then free memory for so long while nothing runs."""
    program = Program()
    for i in range(3):
        start = program.now
        program.launch(us=50).sync()
        program.call("cudaFree", program.now, program.now + us)
        program.spend(us).spend(20)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    return program


def test_allocations_that_wait_for_nothing_are_told_beside_the_waits() -> None:
    program = allocating(30.0)
    assert [row.call for row in rows_of(program)] == ["cudaStreamSynchronize"]
    sentence = allocating_sentence(measure(program.build()).timed)
    assert sentence.startswith(
        "Not in these rows: 1 cudaFree per step, which take 30.0 us of the CPU"
    )
    assert not allocating_sentence(measure(allocating(0.2).build()).timed)


def test_one_call_that_is_in_another_phase_in_some_steps_is_one_row() -> None:
    program = Program()
    for i in range(4):
        start = program.now
        name = "forward" if i == 3 else "loading"
        begin = program.now
        program.op("aten::item", program.now, program.now + 61)
        program.launch(us=50).sync()
        program.annotation(name, begin, program.now)
        program.spend(20).launch(us=100).spend(2)
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    (row,) = rows_of(program)
    assert row.calls == 1
    assert row.phase == "loading"
