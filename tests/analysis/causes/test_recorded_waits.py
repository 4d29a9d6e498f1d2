"""Recorded waits of streams for events go before what times suggest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.start import StartBound
from traceanalyzer.analysis.joined.blocking import read_ranges
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import Trace, WaitKind, Waits

COMPUTE = 7
COPY = 20
COMM = 17


def waits(**columns: Any) -> Waits:
    count = len(columns["stream"])
    given = {"kind": [WaitKind.STREAM_WAIT_EVENT] * count, "context": [1] * count} | columns
    return Waits.from_columns({name: np.array(values) for name, values in given.items()})


def two_buckets() -> TraceBuilder:
    """Two kernels, each followed by a collective that waits for it, and a last kernel that waits
    for both."""
    b = TraceBuilder()
    rows = (
        ("k1", COMPUTE, 0, 10, 110, 1),
        ("n1", COMM, 12, 115, 300, 2),
        ("k2", COMPUTE, 20, 111, 211, 3),
        ("n2", COMM, 22, 301, 500, 4),
        ("k3", COMPUTE, 40, 505, 600, 5),
    )
    for name, stream, call, start, end, correlation in rows:
        b.call("cudaLaunchKernel", call, call + 2, correlation)
        b.kernel(name, start, end, correlation, stream=stream, context=1)
    for call, correlation in ((11, 11), (21, 12), (30, 13), (31, 14)):
        b.call("cudaStreamWaitEvent", call, call + 0.5, correlation)
    return b


def recorded(trace: Trace, **columns: Any) -> list[tuple[int, int]]:
    found = measure(replace(trace, waits=waits(**columns))).started.starts.dependencies
    return list(zip(found.awaited.tolist(), found.also_awaited.tolist(), strict=True))


def test_an_op_waits_for_what_its_stream_was_told_to_wait_for() -> None:
    trace = two_buckets().build()
    names = [trace.strings[n] for n in trace.device_ops.name]
    assert names == ["k1", "k2", "n1", "n2", "k3"]
    found = recorded(
        trace,
        stream=[COMM, COMM, COMPUTE, COMPUTE],
        correlation=[11, 12, 13, 14],
        event=[4, 4, 1, 2],
    )
    assert found == [(-1, -1), (-1, -1), (0, -1), (1, -1), (3, -1)]


def test_a_record_that_is_known_says_which_op_is_waited_for() -> None:
    b = two_buckets()
    b.call("cudaEventRecord", 15, 15.5, 21)
    found = recorded(
        b.build(), stream=[COMPUTE], correlation=[14], event=[1], source_stream=[COMM], record=[21]
    )
    # The event was recorded behind n1, before n2 was launched.
    assert found[4] == (2, -1)


def test_two_streams_are_waited_for_the_later_one_first() -> None:
    b = TraceBuilder()
    for name, stream, call, start, end, correlation in (
        ("copy", COPY, 0, 10, 200, 1),
        ("reduce", COMM, 5, 15, 300, 2),
        ("kernel", COMPUTE, 20, 303, 400, 3),
    ):
        b.call("cudaLaunchKernel", call, call + 2, correlation)
        b.kernel(name, start, end, correlation, stream=stream, context=1)
    b.call("cudaStreamWaitEvent", 10, 10.5, 11).call("cudaStreamWaitEvent", 12, 12.5, 12)
    trace = b.build()
    both = {"stream": [COMPUTE, COMPUTE], "correlation": [11, 12], "source_stream": [COPY, COMM]}
    assert recorded(trace, **both)[2] == (1, 0)
    started = measure(replace(trace, waits=waits(**both))).started
    assert started.starts.dependencies.delay[2] == 3000
    assert started.bindings.by[2] == StartBound.DEPENDENCY
    assert started.bindings.op[2] == 1


def test_a_wait_that_the_times_contradict_is_none() -> None:
    trace = two_buckets().build()
    # k2 starts at 111 us, before n1 has ended at 300.
    found = recorded(trace, stream=[COMPUTE], correlation=[11], source_stream=[COMM], event=[1])
    assert found[1] == (-1, -1)


def test_streams_on_which_nothing_ran_and_waits_of_the_host_say_nothing() -> None:
    trace = two_buckets().build()
    assert recorded(trace, stream=[99], correlation=[11])[2] == (-1, -1)
    host = {"kind": [WaitKind.EVENT_SYNC], "stream": [COMM], "correlation": [11]}
    assert recorded(trace, **host) == recorded(
        trace, stream=[], correlation=[], kind=[], context=[]
    )


def test_without_recorded_waits_times_are_believed() -> None:
    started = measure(two_buckets().build()).started
    assert started.starts.dependencies.awaited.tolist()[4] == 3


def test_an_op_that_follows_another_stream_does_not_keep_its_pause_as_its_own() -> None:
    trace = two_buckets().build()
    started = measure(
        replace(trace, waits=waits(stream=[COMPUTE], correlation=[14], source_stream=[COMM]))
    ).started
    starts = started.starts
    assert starts.pause[4] + starts.held[4] < 20_000
    assert starts.dependencies.delay[4] == 5000


def test_reads_are_operators_that_bring_a_value_to_the_host() -> None:
    trace = (
        TraceBuilder()
        .op("aten::item", 10, 20)
        .op("aten::mul", 30, 40)
        .op("aten::is_nonzero", 15, 25)
        .build()
    )
    found = read_ranges(measure(trace).linked)
    assert (found.start.tolist(), found.end.tolist()) == ([10_000], [25_000])
