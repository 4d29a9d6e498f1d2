"""What a timing log says of its steps beside their times."""

import math

import numpy as np

from traceanalyzer.analysis.tables.logged_steps import logged_columns
from traceanalyzer.trace import LoggedPhase, StepTimings, Trace


def trace_of(source="timing_log", **columns):
    log = StepTimings.from_columns({"duration": [100_000_000, -1, 200_000_000], **columns})
    phase = LoggedPhase("rollout", np.array([60_000_000, -1, -1]))
    return Trace("log", source, [], step_timings=log, logged_phases=(phase,))


def test_lines_without_a_time_are_no_steps():
    trace = trace_of(loss=[3.0, 2.5, math.nan], data=[5_000_000, 1, -1], tokens=[512, 1, -1])
    columns = logged_columns(trace, 2)
    assert {name: values for name, values in columns.items() if values != [None, None]} == {
        "data_ms": [5.0, None],
        "phases": ["rollout 60 ms", None],
        "tokens": [512, None],
        "loss": [3.0, None],
    }


def test_the_time_of_the_optimizer():
    columns = logged_columns(trace_of(optimizer=[7_000_000, 1, -1]), 2)
    assert columns["optimizer_ms"] == [7.0, None]


def test_a_recording_has_none():
    trace = trace_of("kineto", loss=[3.0, 2.5, 2.0])
    columns = logged_columns(trace, 2)
    assert set(columns) == set(logged_columns(trace_of(), 2))
    assert all(values == [None, None] for values in columns.values())
