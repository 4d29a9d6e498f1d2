"""What a timing log says of its steps beside their times."""

import math

import numpy as np

from traceanalyzer.analysis.tables.logged_steps import logged_columns
from traceanalyzer.trace import LoggedPhase, StepTimings, Trace

TWO = (["0", "1"], np.array([100_000_000, 200_000_000]))


def trace_of(source="timing_log", **columns):
    log = StepTimings.from_columns({"duration": [100_000_000, -1, 200_000_000], **columns})
    phase = LoggedPhase("rollout", np.array([60_000_000, -1, -1]))
    return Trace("log", source, [], step_timings=log, logged_phases=(phase,))


def test_lines_without_a_time_are_no_steps():
    trace = trace_of(loss=[3.0, 2.5, math.nan], data=[5_000_000, 1, -1], tokens=[512, 1, -1])
    columns = logged_columns(trace, *TWO)
    assert {name: values for name, values in columns.items() if values != [None, None]} == {
        "data_ms": [5.0, None],
        "phases": ["rollout 60 ms", None],
        "tokens": [512, None],
        "loss": [3.0, None],
    }


def test_the_time_of_the_optimizer():
    columns = logged_columns(trace_of(optimizer=[7_000_000, 1, -1]), *TWO)
    assert columns["optimizer_ms"] == [7.0, None]


def losses(names, durations_ms, **log):
    """The losses that recorded steps get of a log of the same run."""
    columns = {name: np.array(values) for name, values in log.items()}
    timings = StepTimings.from_columns(columns)
    trace = Trace("trace.json", "kineto", [], step_timings=timings)
    recorded = np.array(durations_ms) * 1_000_000
    return logged_columns(trace, names, recorded)["loss"]


def test_recorded_steps_have_what_the_log_says_of_their_numbers():
    log = {"step": [10, 20, 30], "duration": [5_000_000] * 3, "loss": [3.0, 2.0, 1.0]}
    assert losses(["train 10", "train 20"], [9, 9], **log) == [3.0, 2.0]
    assert losses(["iter_19", "iter_20"], [9, 9], **log) == [None, 2.0]
    assert losses(["train 7", "train 8"], [9, 9], **log) == [None, None]


def test_steps_of_the_profiler_are_found_by_their_times():
    """It counts from where it was started: here at the log's step 102."""
    names = [f"ProfilerStep#{i}" for i in (1, 2, 3)]
    log = {"step": np.arange(100, 108), "loss": np.arange(8.0)}
    slow = np.array([5, 5, 5, 9, 9, 9, 5, 5]) * 1_000_000
    assert losses(names, [9, 9, 9], **log, duration=slow) == [3.0, 4.0, 5.0]
    even = np.full(8, 9_000_000)
    assert losses(names, [9, 9, 9], **log, duration=even) == [None] * 3
    assert losses(names[:2], [9, 5], **log, duration=slow) == [None] * 2
