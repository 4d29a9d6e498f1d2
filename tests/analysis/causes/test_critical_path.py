from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from tests.analysis.test_any_trace import any_rows, measure_rows
from tests.analyzed import measurements
from tests.examples import tried
from tests.recorded import EVERY, GPU, label
from tests.replay.test_replay import (
    GEMM,
    NCCL,
    copying,
    gpu_bound,
    host_bound,
    loading,
    steps,
    thinking,
)
from traceanalyzer.analysis.causes.critical_path import (
    CriticalPath,
    PathKind,
    SegmentPart,
    find_critical_path,
    walk,
)
from traceanalyzer.analysis.causes.start import Bindings, HostWaits, StartBound, find_host_waits
from traceanalyzer.analysis.tables.path_rows import PathTime, path_tables
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import DeviceOpKind, OverheadKind, RangeKind, WaitKind, Waits

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program


def partitions_the_steps(ctx: Measurements, path: CriticalPath) -> None:
    start = ctx.timed.steps.start[ctx.timed.steps.warmup]
    end = ctx.timed.steps.end[-1]
    assert path.duration.sum() == end - start
    if end > start:
        assert (path.start[0], path.end[-1]) == (start, end)
    assert (path.start[1:] == path.end[:-1]).all()
    assert (path.duration > 0).all()
    spent = np.bincount(path.step, weights=path.duration, minlength=len(ctx.timed.steps))
    assert (spent[ctx.timed.steps.steady] == ctx.timed.steps.duration[ctx.timed.steps.steady]).all()
    runs = path.part == SegmentPart.OP
    assert (path.start[runs] >= ctx.trace.device_ops.start[path.op[runs]]).all()
    assert (path.end[runs] <= ctx.trace.device_ops.end[path.op[runs]]).all()


def shares(ctx: Measurements) -> dict[str, float]:
    """Share of the steady steps by kind of segment, those of at least 1 %."""
    path = find_critical_path(ctx.started)
    partitions_the_steps(ctx, path)
    spent = (
        np.bincount(path.kind, weights=path.duration, minlength=len(PathKind)) / path.duration.sum()
    )
    return {kind.label: round(float(spent[kind]), 2) for kind in PathKind if spent[kind] >= 0.01}


EMPTY_STEPS = [("ProfilerStep#1", start, 0, 0, RangeKind.ANNOTATION) for start in (0, 1, 1, 2)]


def time_of(ctx: Measurements, path: CriticalPath) -> PathTime:
    return path_tables(ctx.timed, [path])[0] or PathTime(**{kind.label: 0.0 for kind in PathKind})


@tried(3)
@given(any_rows)
@example(([("gemm", 0, 0, -1, DeviceOpKind.KERNEL, 0)], [], EMPTY_STEPS, []))
def test_every_moment_of_the_steady_steps_belongs_to_one_segment(rows) -> None:
    ctx = measure_rows(rows)
    path = find_critical_path(ctx.started)
    if len(ctx.trace.device_ops):
        partitions_the_steps(ctx, path)
        assert sum(vars(time_of(ctx, path)).values()) == pytest.approx(
            path.duration.sum() / ctx.timed.steps.steady_count / 1e6
        )
        assert not len(path) or sum(
            row.share_of_step for row in path_tables(ctx.timed, [path])[1]
        ) == pytest.approx(1.0)
    else:
        assert not len(path)


def latest_cause(bindings: Bindings, waits: HostWaits, op: int, begin: int) -> tuple[int, int]:
    """The op before `op` in the chain (-1: none), and when it let the chain go on, one candidate
    after the other."""
    if bindings.by[op] != StartBound.LAUNCH:
        return int(bindings.op[op]), int(bindings.start[op] - bindings.lag[op])
    held = -1
    since = begin
    for end, target in zip(waits.end.tolist(), waits.op.tolist(), strict=True):
        if end <= bindings.start[op] - bindings.lag[op]:
            held, since = (target, end) if target < op else (-1, begin)
    return held, since


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 8))
    start = np.sort(np.array(draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))))
    end = start + np.array(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    by = np.array(
        draw(st.lists(st.sampled_from(list(StartBound)), min_size=count, max_size=count)), np.uint8
    )
    before = np.array([draw(st.integers(-1, i - 1)) for i in range(count)])
    before[(by == StartBound.LAUNCH) | (by == StartBound.NOTHING)] = -1
    since = np.minimum(np.where(before >= 0, end[before], draw(st.integers(0, 50))), start)
    held = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, 9)), max_size=4))
    held = sorted((int(end[op]) + late, op) for op, late in held)
    waits = HostWaits(
        np.zeros(len(held), np.int64),
        np.array([t for t, _ in held], np.int64),
        np.array([op for _, op in held], np.int64),
    )
    return (
        Bindings(by, before, start, start - since),
        waits,
        start,
        end,
        (draw(st.integers(0, 20)), draw(st.integers(20, 90))),
    )


@tried(5)
@given(graphs())
def test_the_walk_visits_what_a_walk_by_hand_does(graph) -> None:
    bindings, waits, start, end, (begin, finish) = graph
    chain = walk(*graph)
    assert (chain.end - chain.start).sum() == finish - begin
    op = max((i for i in range(len(start)) if end[i] == finish), default=-1)
    if op < 0:
        op = next(
            (int(waits.op[i]) for i in reversed(range(len(waits.end))) if waits.end[i] <= finish),
            -1,
        )
    visited = []
    until = finish
    while op >= 0:
        if min(until, end[op]) > max(start[op], begin):
            visited.append(op)
        if start[op] <= begin:
            break
        until = int(start[op])
        op, _ = latest_cause(bindings, waits, op, begin)
    runs = chain.part == SegmentPart.OP
    inside = [i for i in visited if start[i] < finish]
    assert chain.op[runs].tolist() == inside[::-1]


def test_a_busy_device_is_the_path() -> None:
    assert shares(steps(gpu_bound)) == {"compute": 1.0}


def test_a_host_that_launches_too_slowly_is_the_path() -> None:
    found = shares(steps(host_bound))
    assert found["launch"] > 0.95
    assert set(found) <= {"launch", "compute"}


def test_work_and_loading_of_the_host_are_told_from_launching() -> None:
    assert shares(steps(thinking))["host"] > 0.75
    assert shares(steps(loading))["input"] > 0.9


def test_waiting_for_each_layer_alternates_between_device_and_host() -> None:
    def layers(p: Program) -> None:
        for _ in range(4):
            p.spend(50).launch(GEMM, 100).sync()

    ctx = steps(layers)
    path = find_critical_path(ctx.started)
    partitions_the_steps(ctx, path)
    assert set(path.part.tolist()) == {
        SegmentPart.OP,
        SegmentPart.LATENCY,
        SegmentPart.RETURN,
        SegmentPart.HOST,
    }
    found = time_of(ctx, path)
    assert found.compute == pytest.approx(0.4)
    assert found.wait == pytest.approx(4 * 0.003)
    assert found.launch == pytest.approx(4 * 0.056)


def test_operators_that_only_read_a_value_belong_to_the_wait() -> None:
    def reading(p: Program) -> None:
        p.spend(30).launch(GEMM, 20)
        p.op("aten::item", p.now, p.now + 100).spend(60).sync().spend(37)

    found = time_of(ctx := steps(reading), find_critical_path(ctx.started))
    assert found.wait == pytest.approx(0.1)
    assert found.launch == pytest.approx(0.034)


def test_copies_in_the_way_are_on_the_path() -> None:
    assert shares(steps(copying))["copy"] == pytest.approx(0.83, abs=0.02)


def test_a_collective_after_the_compute_is_on_the_path_and_one_beside_it_is_not() -> None:
    def exposed(p: Program) -> None:
        p.launch(GEMM, 300).launch(NCCL, 200)

    def hidden(p: Program) -> None:
        p.launch(GEMM, 100)
        p.launched += 1
        p.call("cudaLaunchKernel", p.now, p.now + 4, p.launched)
        p.kernel(NCCL, p.device_free + 2, p.device_free + 202, p.launched, stream=20)
        p.spend(4).launch(GEMM, 400)

    assert shares(steps(exposed))["communication"] == pytest.approx(0.4, abs=0.01)
    assert "communication" not in shares(steps(hidden))


def two_streams() -> Measurements:
    """Both steps: a on stream 7, b on stream 8 waits for a, c on stream 7 waits for b; launched
    long before."""
    b = TraceBuilder()
    for i in range(2):
        t = 1000.0 * i
        for n in range(3):
            b.call("cudaLaunchKernel", t + 5 * n, t + 5 * n + 4, 3 * i + n + 1)
        b.kernel("a", t + 8, t + 300, 3 * i + 1, stream=7)
        b.kernel("b", t + 302, t + 600, 3 * i + 2, stream=8)
        b.kernel("c", t + 603, t + 1000, 3 * i + 3, stream=7)
        b.annotation(f"ProfilerStep#{i}", t, t + 900)
    return measure(b.build())


def test_the_path_crosses_streams_where_one_waits_for_the_other() -> None:
    ctx = two_streams()
    path = find_critical_path(ctx.started)
    partitions_the_steps(ctx, path)
    of_step = path.take(path.step == 1)
    runs = of_step.part == SegmentPart.OP
    names = [ctx.trace.strings[ctx.trace.device_ops.name[op]] for op in of_step.op[runs]]
    assert names == ["a", "b", "c"]
    assert of_step.duration[runs].tolist() == [292_000, 298_000, 397_000]
    assert ctx.started.bindings.by.tolist()[-2:] == [StartBound.DEPENDENCY, StartBound.DEPENDENCY]


def test_a_full_queue_leads_back_to_the_device() -> None:
    """The host is blocked in its second launch until the first kernel has begun; then it works for
    long."""
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("before", 10, 200, 1)
    b.call("cudaLaunchKernel", 4, 8, 2).kernel("first", 201, 290, 2)
    b.call("cudaLaunchKernel", 8, 202, 3).overhead(OverheadKind.BACK_PRESSURE, 9, 202).kernel(
        "k", 291, 300, 3
    )
    b.call("cudaLaunchKernel", 600, 604, 4).kernel("last", 610, 700, 4)
    ctx = measure(b.build())
    waits = find_host_waits(ctx.timed)
    assert (waits.end.tolist(), waits.op.tolist()) == ([202_000], [1])
    path = find_critical_path(ctx.started)
    partitions_the_steps(ctx, path)
    assert path.op[path.part == SegmentPart.OP].tolist() == [0, 1, 3]


def test_a_recorded_wait_for_a_stream_is_for_its_ops() -> None:
    """Work of another stream ends later, just before the call returns."""
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("mine", 6, 100, 1, stream=7, context=1)
    b.call("cudaLaunchKernel", 4, 8, 2).kernel("other", 10, 103, 2, stream=8, context=1)
    b.call("cudaStreamSynchronize", 10, 105, 3)
    b.call("cudaLaunchKernel", 200, 204, 4).kernel("next", 210, 220, 4, stream=7, context=1)
    sync = {"kind": [WaitKind.STREAM_SYNC], "start": [10_000], "end": [105_000], "correlation": [3]}
    known = Waits.from_columns(sync | {"context": [1], "stream": [7]})
    assert find_host_waits(measure(b.build()).timed).op.tolist() == [1]
    assert find_host_waits(measure(b.build(waits=known)).timed).op.tolist() == [0]


def test_another_thread_that_goes_on_is_not_held_by_a_wait() -> None:
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1, thread=0).kernel("k", 6, 200, 1)
    b.call("cudaStreamSynchronize", 10, 203, thread=0)
    for i in range(30):
        b.op("aten::mm", 20 + 10 * i, 30 + 10 * i, thread=1)
    b.call("cudaLaunchKernel", 320, 324, 2, thread=1).kernel("k", 326, 400, 2)
    assert not len(find_host_waits(measure(b.build()).timed).call)


def test_names_say_what_carries_the_path() -> None:
    def step(p: Program) -> None:
        p.op("aten::linear", p.now, p.now + 44).spend(40).launch(GEMM, 300).sync().spend(20)

    ctx = steps(step)
    rows = path_tables(ctx.timed, [find_critical_path(ctx.started)])[1]
    assert [(row.kind, row.name) for row in rows[:2]] == [
        ("compute", GEMM),
        ("launch", "aten::linear"),
    ]
    assert rows[0].within == "aten::linear"
    assert ("wait", "cudaStreamSynchronize") in [(row.kind, row.name) for row in rows]
    assert ("launch", "(from launch to start)") in [(row.kind, row.name) for row in rows]


@pytest.mark.parametrize("recording", [*GPU, *EVERY], ids=label)
def test_the_paths_of_recordings_are_their_steps(recording: Path) -> None:
    for ctx in measurements(recording).each:
        partitions_the_steps(ctx, find_critical_path(ctx.started))
