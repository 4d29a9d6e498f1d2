"""Where the host was, of several threads and nested ranges; and in which state."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.measure import Measurements
from traceanalyzer.analysis.time.host_timeline import LONG_STRETCH_NS, HostState
from traceanalyzer.trace import OverheadKind

US = 1000


def launching(thread: int = 0, at: float = 0, correlation: int = 1) -> TraceBuilder:
    return TraceBuilder().call("cudaLaunchKernel", at, at + 4, correlation, thread=thread)


def two_threads(working: float) -> TraceBuilder:
    """Of 100 us, thread 1 is within an operator for `working`; thread 0 is within an annotation all the time."""
    b = TraceBuilder()
    for thread in (0, 1):
        b.call("cudaLaunchKernel", -10, -6, thread + 1, thread=thread).kernel("k", 0, 100, thread + 1)
    b.annotation("outer", 0, 100, thread=0)
    return b.op("aten::mm", 30, 30 + working, thread=1)


def node_name(m: Measurements, node: int) -> str | None:
    tree = m.tree
    if node < 0:
        return None
    names = m.trace.api_calls.name if tree.is_call[node] else m.trace.host_ranges.name
    return m.trace.strings[names[tree.row[node]]]


@pytest.mark.parametrize(("working", "asked", "expected"), [
    (60, 0, ("aten::mm", 1)),
    (49, 1, ("aten::mm", 1)),
        (49, 0, ("outer", 0)),
    (30, 0, ("outer", 0)),
    (30, -1, ("outer", 0)),
    (30, 7, ("outer", 0)),
])  # fmt: skip
def test_the_thread_that_worked_half_the_time_says_where_the_host_was(working, asked, expected) -> None:
    m = Measurements(two_threads(working).build())
    node, thread = m.timeline.dominant_node(0, 100 * US, asked)
    assert (node_name(m, node), thread) == expected


def test_the_node_of_the_longest_time_within_the_window_counts() -> None:
    b = launching(at=-20).kernel("k", 0, 5, 1)
    b.op("aten::a", 0, 100).op("aten::b", 100, 140)
    m = Measurements(b.build())
    assert node_name(m, m.timeline.dominant_node(0, 140 * US)[0]) == "aten::a"
    assert node_name(m, m.timeline.dominant_node(70 * US, 140 * US)[0]) == "aten::b"
    assert m.timeline.dominant_node(200 * US, 300 * US, 3) == (-1, 3)


def states(builder: TraceBuilder) -> dict[str, float]:
    """Microseconds of each state that the host was in."""
    timeline = Measurements(builder.build()).timeline
    return {state.name: timeline.states[state].total / US for state in HostState if timeline.states[state].total}


LONG = LONG_STRETCH_NS / US


def around(name: str, us: float, annotation: bool = False) -> TraceBuilder:
    """A launch of 4 us, then a range of this name, then a launch of 4 us."""
    b = launching().kernel("k", 5, 6, 1)
    add = b.annotation if annotation else b.op
    add(name, 4, 4 + us)
    return b.call("cudaLaunchKernel", 4 + us, 8 + us, 2).kernel("k", 9 + us, 10 + us, 2)


@pytest.mark.parametrize(("name", "us", "annotation", "state"), [
    ("aten::mm", LONG, False, "WORK"),
    ("aten::mm", LONG - 1, False, "DISPATCH"),
    ("Optimizer.step#AdamW.step", LONG, True, "DISPATCH"),
    ("c10d::allreduce_", LONG, False, "COMMUNICATION"),
    ("c10d::allreduce_", LONG - 1, False, "DISPATCH"),
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", LONG, True, "INPUT"),
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, True, "INPUT"),
    ("FSDP::backward_prefetch for transformer.h.0", LONG, True, "WORK"),
])  # fmt: skip
def test_what_the_host_did_within_a_range(name, us, annotation, state) -> None:
    expected = {"DISPATCH": 8.0}
    expected[state] = expected.get(state, 0) + us
    assert states(around(name, us, annotation)) == expected


@pytest.mark.parametrize(("call", "done", "state"), [
    ("cudaMalloc", 10, "ALLOCATE"),
    ("cudaFree", 10, "ALLOCATE"),
    ("cudaDeviceSynchronize", 300, "SYNC"),
    ("cudaEventQuery", 10, "DISPATCH"),
])  # fmt: skip
def test_what_the_host_did_within_a_call(call, done, state) -> None:
    """A call of 300 us between two launches, while a kernel ends."""
    b = launching().kernel("k", 5, done, 1).call(call, 4, 304)
    b.call("cudaLaunchKernel", 304, 308, 2).kernel("k", 310, 315, 2)
    expected = {"DISPATCH": 8.0}
    expected[state] = expected.get(state, 0) + 300
    assert states(b) == expected


def test_the_most_productive_thread_says_what_the_process_did() -> None:
    b = launching().kernel("k", 5, 300, 1).call("cudaStreamSynchronize", 4, 304)
    b.op("aten::mm", 100, 150, thread=1).call("cudaLaunchKernel", 110, 114, 2, thread=1).kernel("k", 300, 303, 2)
    assert states(b) == {"DISPATCH": 54.0, "SYNC": 250.0}


def test_threads_that_launch_nothing_do_not_count() -> None:
    b = launching().kernel("k", 5, 6, 1).op("aten::mm", 0, 500, thread=1)
    assert states(b) == {"DISPATCH": 4.0}


def test_the_profilers_own_time_is_its_rows_and_what_lies_between_its_steps() -> None:
    b = launching().kernel("k", 5, 6, 1)
    b.overhead(OverheadKind.PROFILER, 20, 50).overhead(OverheadKind.DRIVER, 60, 90)
    assert Measurements(b.build()).timeline.profiler.total == 30 * US
    b.annotation("ProfilerStep#1", 0, 100).annotation("ProfilerStep#2", 115, 200)
    b.call("cudaLaunchKernel", 120, 124, 2).kernel("k", 130, 140, 2)
    assert Measurements(b.build()).timeline.profiler.total == 45 * US
