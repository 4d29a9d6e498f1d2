"""Where the host was, of several threads and nested ranges; and in which state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.algebra import IntervalSet
from traceanalyzer.analysis.causes import driving
from traceanalyzer.analysis.time import host_pieces, host_timeline
from traceanalyzer.analysis.time.host_timeline import LONG_STRETCH_NS, HostState, dominant_nodes
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import OverheadKind, RangeKind

US = 1000


def launching(thread: int = 0, at: float = 0, correlation: int = 1) -> TraceBuilder:
    return TraceBuilder().call("cudaLaunchKernel", at, at + 4, correlation, thread=thread)


def two_threads(working: float) -> TraceBuilder:
    """Of 100 us, thread 1 is within an operator for `working`; thread 0 is within an annotation all
    the time."""
    b = TraceBuilder()
    for thread in (0, 1):
        b.call("cudaLaunchKernel", -10, -6, thread + 1, thread=thread).kernel(
            "k", 0, 100, thread + 1
        )
    b.annotation("outer", 0, 100, thread=0)
    return b.op("aten::mm", 30, 30 + working, thread=1)


def node_name(m: Measurements, node: int) -> str | None:
    tree = m.linked.tree
    if node < 0:
        return None
    names = m.trace.api_calls.name if tree.is_call[node] else m.trace.host_ranges.name
    return m.trace.strings[names[tree.row[node]]]


def dominant(m: Measurements, *stretches: tuple[float, float, int]) -> tuple[list[int], list[int]]:
    """Nodes and threads of stretches (start, end in us, thread)."""
    start, end, thread = np.array(stretches).T
    nodes, threads = dominant_nodes(m.timed.timeline, start * US, end * US, thread)
    return nodes.tolist(), threads.tolist()


@pytest.mark.parametrize(
    ("working", "asked", "expected"),
    [
        (60, 0, ("aten::mm", 1)),
        (49, 1, ("aten::mm", 1)),
        (49, 0, ("outer", 0)),
        (30, 0, ("outer", 0)),
        (30, -1, ("outer", 0)),
        (30, 7, ("outer", 0)),
    ],
)
def test_the_thread_that_worked_half_the_time_says_where_the_host_was(
    working, asked, expected
) -> None:
    m = measure(two_threads(working).build())
    (node,), (thread,) = dominant(m, (0, 100, asked))
    assert (node_name(m, node), thread) == expected


def test_the_node_of_the_longest_time_within_the_window_counts() -> None:
    b = launching(at=-20).kernel("k", 0, 5, 1)
    b.op("aten::a", 0, 100).op("aten::b", 100, 140)
    m = measure(b.build())
    nodes, threads = dominant(m, (0, 140, -1), (70, 140, -1), (200, 300, 3), (-19, -18, -1))
    assert [node_name(m, node) for node in nodes] == [
        "aten::a",
        "aten::b",
        None,
        "cudaLaunchKernel",
    ]
    assert threads[2] == 3


def threads_by_turns(count: int) -> TraceBuilder:
    """Each thread launches one kernel, 100 us after the one before it."""
    b = TraceBuilder()
    for thread in range(count):
        at = 100 * thread
        b.call("cudaLaunchKernel", at, at + 4, thread + 1, thread=thread)
        b.kernel("k", at + 10, at + 20, thread + 1)
    return b


def test_only_threads_with_time_in_the_stretches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    m = measure(threads_by_turns(8).build())
    cut = []
    shares = host_timeline._shares
    monkeypatch.setattr(
        host_timeline, "_shares", lambda *given: cut.append(given[1].thread) or shares(*given)
    )
    assert dominant(m, (300, 350, -1), (510, 590, -1))[1] == [3, -1]
    assert cut == [3]


def test_a_thread_is_asked_only_for_states_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    m = measure(threads_by_turns(8).build())
    asked = []
    overlaps = driving.overlaps
    monkeypatch.setattr(driving, "overlaps", lambda *given: asked.append(1) or overlaps(*given))
    found = driving.driving(m.timed, IntervalSet(np.array([0]), np.array([800 * US])))
    assert len(asked) == 8
    assert (found.state == HostState.DISPATCH).sum() == 8


RANGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(1, 30), st.booleans()), max_size=25
)
STRETCHES = st.lists(
    st.tuples(st.integers(0, 80), st.integers(1, 40), st.integers(-1, 2)), min_size=1, max_size=8
)


@given(ranges=RANGES, stretches=STRETCHES, at_once=st.sampled_from((1, 3, 1 << 14)))
def test_many_stretches_at_once_are_what_each_is_microsecond_by_microsecond(
    ranges, stretches, at_once
) -> None:
    b = TraceBuilder()
    for thread in (0, 1):
        b.call("cudaLaunchKernel", -10, -6, thread + 1, thread=thread).kernel(
            "k", 0, 100, thread + 1
        )
    kept: list[tuple[int, int, int]] = []
    for thread, start, length, is_op in ranges:
        end = start + length
        if not any(
            t == thread and (s < start < e < end or start < s < end < e) for t, s, e in kept
        ):
            (b.op if is_op else b.annotation)(f"range {start}", start, end, thread=thread)
            kept.append((thread, start, end))
    asked = [(start, start + length, thread) for start, length, thread in stretches]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_pieces, "AT_ONCE", at_once)
        patched.setattr(host_timeline, "PIECES_AT_ONCE", at_once)
        m = measure(b.build())
        assert list(zip(*dominant(m, *asked), strict=True)) == [
            one_dominant(m, *stretch) for stretch in asked
        ]


def one_dominant(m: Measurements, start: int, end: int, asked: int) -> tuple[int, int]:
    """The same in the plainest way."""
    tree = m.linked.tree
    shares = []
    for thread in (0, 1):
        own = np.flatnonzero(tree.thread == thread)
        known = (
            max(start, int(tree.start[own].min()) // US),
            min(end, int(tree.end[own].max()) // US),
        )
        spent: dict[int, int] = {}
        for moment in range(*known):
            around = own[(tree.start[own] <= moment * US) & (tree.end[own] > moment * US)]
            node = int(around[tree.depth[around].argmax()]) if len(around) else -1
            spent[node] = spent.get(node, 0) + 1
        if spent:
            works = sum(
                t
                for n, t in spent.items()
                if n >= 0 and (tree.is_call[n] or tree.kind[n] == RangeKind.OP)
            )
            longest = min(n for n, t in spent.items() if t == max(spent.values()))
            shares.append((works, sum(t for n, t in spent.items() if n >= 0), thread, longest))
    if not shares:
        return -1, asked
    busiest = max(shares, key=lambda share: share[0])
    if busiest[0] * 2 < end - start:
        busiest = next(
            (s for s in shares if s[2] == asked), max(shares, key=lambda share: share[1])
        )
    return busiest[3], busiest[2]


def states(builder: TraceBuilder) -> dict[str, float]:
    """Microseconds of each state that the host was in."""
    timeline = measure(builder.build()).timed.timeline
    return {
        state.name: timeline.states[state].total / US
        for state in HostState
        if timeline.states[state].total
    }


LONG = LONG_STRETCH_NS / US


def around(name: str, us: float, annotation: bool = False) -> TraceBuilder:
    """A launch of 4 us, then a range of this name, then a launch of 4 us."""
    b = launching().kernel("k", 5, 6, 1)
    add = b.annotation if annotation else b.op
    add(name, 4, 4 + us)
    return b.call("cudaLaunchKernel", 4 + us, 8 + us, 2).kernel("k", 9 + us, 10 + us, 2)


@pytest.mark.parametrize(
    ("name", "us", "annotation", "state"),
    [
        ("aten::mm", LONG, False, "WORK"),
        ("aten::mm", LONG - 1, False, "DISPATCH"),
        ("Optimizer.step#AdamW.step", LONG, True, "DISPATCH"),
        ("c10d::allreduce_", LONG, False, "COMMUNICATION"),
        ("c10d::allreduce_", LONG - 1, False, "DISPATCH"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", LONG, True, "INPUT"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, True, "INPUT"),
        ("FSDP::backward_prefetch for transformer.h.0", LONG, True, "WORK"),
    ],
)
def test_what_the_host_did_within_a_range(name, us, annotation, state) -> None:
    expected = {"DISPATCH": 8.0}
    expected[state] = expected.get(state, 0) + us
    assert states(around(name, us, annotation)) == expected


@pytest.mark.parametrize(
    ("call", "done", "state"),
    [
        ("cudaMalloc", 10, "ALLOCATE"),
        ("cudaFree", 10, "ALLOCATE"),
        ("cudaDeviceSynchronize", 300, "SYNC"),
        ("cudaEventQuery", 10, "DISPATCH"),
    ],
)
def test_what_the_host_did_within_a_call(call, done, state) -> None:
    """A call of 300 us between two launches, while a kernel ends."""
    b = launching().kernel("k", 5, done, 1).call(call, 4, 304)
    b.call("cudaLaunchKernel", 304, 308, 2).kernel("k", 310, 315, 2)
    expected = {"DISPATCH": 8.0}
    expected[state] = expected.get(state, 0) + 300
    assert states(b) == expected


def test_the_most_productive_thread_says_what_the_process_did() -> None:
    b = launching().kernel("k", 5, 300, 1).call("cudaStreamSynchronize", 4, 304)
    b.op("aten::mm", 100, 150, thread=1).call("cudaLaunchKernel", 110, 114, 2, thread=1).kernel(
        "k", 300, 303, 2
    )
    assert states(b) == {"DISPATCH": 54.0, "SYNC": 250.0}


def test_threads_that_launch_nothing_do_not_count() -> None:
    b = launching().kernel("k", 5, 6, 1).op("aten::mm", 0, 500, thread=1)
    assert states(b) == {"DISPATCH": 4.0}


def test_the_profilers_own_time_is_its_rows_and_what_lies_between_its_steps() -> None:
    b = launching().kernel("k", 5, 6, 1)
    b.overhead(OverheadKind.PROFILER, 20, 50).overhead(OverheadKind.DRIVER, 60, 90)
    assert measure(b.build()).timed.timeline.profiler.total == 30 * US
    b.annotation("ProfilerStep#1", 0, 100).annotation("ProfilerStep#2", 115, 200)
    b.call("cudaLaunchKernel", 120, 124, 2).kernel("k", 130, 140, 2)
    assert measure(b.build()).timed.timeline.profiler.total == 45 * US
