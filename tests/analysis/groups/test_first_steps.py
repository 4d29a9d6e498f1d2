"""First steps of a process: timed, recorded or logged, and when compilation has paid for itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.analysis.build import TraceBuilder
from tests.replay.compile.test_steps import program
from traceanalyzer.analysis.groups.first_steps import (
    PaidBack,
    begin_of_first,
    first_steps,
    paid_back,
)
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load
from traceanalyzer.trace import Stopwatch

MS = 1_000_000
WATCH = {"low_ns": None, "high_ns": None, "steady": True, "after_profiler": False, "unit": None}


def recorded(**fields):
    """Eight steps of 200 us."""
    trace = TraceBuilder()
    for i, at in enumerate(range(0, 1600, 200)):
        trace.annotation(f"ProfilerStep#{i}", at, at + 199)
        trace.call("cudaLaunchKernel", at + 10, at + 15, i).kernel("k", at + 20, at + 190, i)
    return first_steps(measure(trace.build(**fields)).timed)


def watch(first_ms, eager_ms=None):
    return Stopwatch(
        2 * MS,
        first_ns=tuple(ms * MS for ms in first_ms),
        eager_ns=None if eager_ms is None else eager_ms * MS,
        **WATCH,
    )


def test_timed_steps_come_before_recorded_ones():
    found = recorded(stopwatch=watch([1002, 7, 2, 2]))
    assert found is not None
    assert (found.source, found.first_ms, found.steady_ms, found.steps) == ("timed", 1002, 2, 2)
    assert found.excess_ms == 1005


@pytest.mark.parametrize(("eager_ms", "steps"), [(5, 334), (2, None), (1, None)])
def test_compilation_is_paid_back_by_what_each_step_saves(eager_ms, steps):
    found = recorded(stopwatch=watch([1002, 2], eager_ms))
    assert found is not None
    assert (found.eager_ms, found.pays_after_steps) == (eager_ms, steps)  # 1,000 ms at 3 ms a step


@pytest.mark.parametrize(
    ("reach_ms", "words"),
    [
        (1, "paid back after 334 steps (250 to 500)"),
        (4, "paid back after 334 steps (143 or more, perhaps never)"),
    ],
)
def test_noisy_eager_steps_give_a_range(reach_ms, words):
    found = recorded(stopwatch=replace(watch([1002, 2], 5), eager_reach_ns=reach_ms * MS))
    assert found is not None
    assert str(PaidBack(found.pays_after_steps, found.pays_low, found.pays_high)) == words


def test_what_may_not_be_faster_is_perhaps_never_paid_back():
    assert str(paid_back(1000, -1, 5)) == "paid back after 250 steps at the earliest, perhaps never"
    assert str(paid_back(1000, -6, 5)) == "never paid back"


def test_a_recorded_first_step_counts_from_its_begin_on_the_host(tmp_path):
    (trace,) = load([program(tmp_path)]).traces
    assert first_steps(measure(trace).timed) is None  # the recorder may have started in it
    from_first = replace(trace, stopwatch=Stopwatch(2 * MS, from_first=True, **WATCH))
    found = first_steps(measure(from_first).timed)
    assert found is not None
    assert (found.source, found.steps, found.steady_ms) == ("recorded", 1, pytest.approx(1.0))
    assert found.first_ms == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize(("number", "source"), [(0, "logged"), (1, "logged"), (10, None)])
def test_a_log_that_begins_later_says_nothing_of_first_steps(tmp_path, number, source):
    times = [900, *20 * [3]]
    lines = [json.dumps({"step": number + i, "iter_ms": time}) for i, time in enumerate(times)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    found = first_steps(measure(load([tmp_path / "log.jsonl"]).traces[0]).timed)
    assert (found.source if found else None) == source


def test_the_first_step_begins_with_its_host_or_as_earlier_work_ends():
    """Its two kernels come after 9 ms of compiling, the steps after it take 1 ms."""

    def begin_us(*earlier):
        trace = TraceBuilder()
        for i in range(6):
            begin = 9000 + 1000 * i if i else 100
            end = 10_000 + 1000 * i
            trace.annotation(f"ProfilerStep#{i}", begin, end - 1)
            for j, at in enumerate((end - 800, end - 400)):
                trace.call("cudaLaunchKernel", at, at + 5, 2 * i + j + 1)
                trace.kernel("k", at + 10, at + 390, 2 * i + j + 1)
        for start, end in earlier:
            trace.kernel("before", start, end)
        return begin_of_first(measure(trace.build()).timed) / 1000

    assert begin_us() == 100
    assert begin_us((50, 90)) == 100
    assert begin_us((50, 130)) == 130
