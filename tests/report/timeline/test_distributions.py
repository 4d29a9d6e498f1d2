"""What charts show of single events, held against the recordings that it is from."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.recorded import ROOT
from traceanalyzer import load
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.timeline.distributions import (
    MAX_QUEUE_POINTS,
    kernel_lengths,
    launch_queue,
    logged_loading,
    messages,
    steps_of_ranks,
)
from traceanalyzer.report.timeline.icicle import NOWHERE, device_time, idle_time
from traceanalyzer.report.timeline.lanes import representative
from traceanalyzer.trace import Run, Trace

SAMPLES = ROOT / "sample_traces"


@pytest.fixture(
    scope="module", params=["sync_bound_stacks", "compiled", "cuda_graph", "launch_bound"]
)
def m(request):
    return measured(load(SAMPLES / request.param)).critical


def test_every_kernel_of_the_steady_steps_is_in_a_bin(m):
    found = kernel_lengths(m)
    ops = m.trace.device_ops
    rows = m.linked.is_kernel & m.timed.steady_ops
    steps = m.timed.steps.steady_count
    assert found.kernels.sum() * steps == pytest.approx(rows.sum())
    assert found.time_ms.sum() * steps == pytest.approx((ops.end - ops.start)[rows].sum() / 1e6)
    us = (ops.end - ops.start)[rows] / 1e3
    for low, high, count in zip(found.edges_us, found.edges_us[1:], found.kernels, strict=False):
        assert count * steps == pytest.approx(
            ((us >= low * 0.9999) & (us < high * 0.9999)).sum(), abs=1
        )


def test_the_queues_depth_is_what_was_launched_and_has_not_ended(m):
    found = launch_queue(m)
    ops = m.trace.device_ops
    step = representative(m.timed.steps)
    begin = int(m.timed.steps.start[step])
    launched = m.linked.launch_time >= 0
    assert len(found.time_ns) <= MAX_QUEUE_POINTS + 1
    deepest = 0
    for at in np.unique(np.concatenate((m.linked.launch_time[launched], ops.end[launched]))):
        if begin <= at <= m.timed.steps.end[step]:
            deepest = max(
                deepest, int((launched & (m.linked.launch_time <= at) & (ops.end > at)).sum())
            )
    assert deepest <= found.depth.max() <= deepest + 1, (
        "moments of one nanosecond may be in either order"
    )
    assert found.depth.min() >= 0


def test_boxes_hold_what_is_below_them_and_kernels_their_own_time(m):
    boxes = device_time(m)
    ops = m.trace.device_ops
    step = representative(m.timed.steps)
    inside = (
        (ops.start >= m.timed.steps.start[step])
        & (ops.start < m.timed.steps.end[step])
        & (m.joined.launch_node >= 0)
    )
    whole = (ops.end - ops.start)[inside].sum() / 1e6
    by_level = defaultdict(list)
    for box in boxes:
        by_level[box.level].append(box)
    assert 0.9 * whole < sum(b.end_ms - b.begin_ms for b in by_level[0]) <= whole * 1.0001
    for level, here in by_level.items():
        here.sort(key=lambda b: b.begin_ms)
        assert all(a.end_ms <= b.begin_ms + 1e-9 for a, b in pairwise(here)), "side by side"
        if level:
            above = by_level[level - 1]
            assert all(
                any(
                    a.begin_ms - 1e-9 <= b.begin_ms and b.end_ms <= a.end_ms + 1e-9 and not a.sort
                    for a in above
                )
                for b in here
            )


def test_ranks_by_step_are_the_steps_of_the_recordings():
    of = measured(load(SAMPLES / "straggler"))
    each = of.each
    rows = steps_of_ranks(of)
    assert [row.rank for row in rows] == [m.trace.rank for m in each]
    assert rows[1].times_ms == pytest.approx((each[1].timed.steps.duration / 1e6).tolist())
    for row, rank, m in zip(rows, of.ranks.rows, each, strict=True):
        assert len(row.waiting_ms) == len(row.times_ms)
        assert np.mean(row.waiting_ms[m.timed.steps.steady]) == pytest.approx(rank.waiting_ms)
    assert steps_of_ranks(measured(load(SAMPLES / "sync_bound"))) == []


def test_idle_time_of_the_step_is_charged_in_full(m):
    boxes = idle_time(m)
    step = representative(m.timed.steps)
    start = m.timed.steps.start[step]
    end = m.timed.steps.end[step]
    idle = np.minimum(m.causes.gaps.end, end) - np.maximum(m.causes.gaps.start, start)
    here = (idle > 0) & (m.causes.gaps.device == m.timed.device)
    assert 0.9 * idle[here].sum() < sum(b.end_ms - b.begin_ms for b in boxes if b.level == 0) * 1e6
    by_cause = defaultdict(float)
    for box in boxes:
        if box.sort:
            assert box.sort == f"idle-{box.name}"
            by_cause[box.name] += (box.end_ms - box.begin_ms) * 1e6
    assert sum(by_cause.values()) <= idle[here].sum() * 1.0001
    for cause, time in by_cause.items():
        assert time <= idle[here & (m.causes.gaps.cause == IdleCause[cause.upper()])].sum() * 1.0001


def test_a_waits_idle_time_is_charged_to_the_operator_that_waited():
    m = measured(load(SAMPLES / "sync_bound_stacks")).critical
    boxes = idle_time(m)
    sync = max((b for b in boxes if b.sort == "idle-sync"), key=lambda b: b.end_ms - b.begin_ms)
    above = [
        b.name
        for b in boxes
        if b.level < sync.level and b.begin_ms <= sync.begin_ms and sync.end_ms <= b.end_ms
    ]
    assert "aten::_local_scalar_dense" in above
    assert NOWHERE not in [b.name for b in boxes]


@pytest.mark.parametrize("sample", ["communication_bound", "tensor_parallel"])
def test_messages_are_the_collectives_of_the_step(sample):
    m = measured(load(SAMPLES / sample)).critical
    found = messages(m)
    ops = m.trace.device_ops
    step = representative(m.timed.steps)
    rows = np.flatnonzero(
        m.linked.is_communication & (m.timed.steps.of_op == step) & (ops.device == m.timed.device)
    )
    assert [one.start + m.timed.steps.start[step] for one in found] == ops.start[rows].tolist()
    assert [one.number for one in found if one.kind == "all_reduce"] == list(
        range(1, len(found) + 1)
    )
    assert {one.count for one in found} == {len(found)}
    compute = np.zeros(int(m.timed.steps.end[step] - m.timed.steps.start[step]), bool)
    for op in np.flatnonzero(m.linked.is_compute & (ops.device == m.timed.device)):
        compute[
            max(ops.start[op] - m.timed.steps.start[step], 0) : max(
                ops.end[op] - m.timed.steps.start[step], 0
            )
        ] = True
    assert [one.exposed for one in found] == [
        int((~compute[one.start : one.end]).sum()) for one in found
    ]


def test_a_log_that_tells_data_from_compute_is_taken_apart():
    m = measured(load(SAMPLES / "timing_input_bound")).critical
    rows = logged_loading(m)
    assert len(rows) == (m.trace.step_timings.data >= 0).sum() > 0
    assert all(0 <= row.data_ms <= row.time_ms for row in rows)
    assert logged_loading(measured(load(SAMPLES / "sync_bound")).critical) == []


def test_what_lies_around_launches_is_asked_for_once_however_deep_the_stack(monkeypatch):
    """400 operators in each other; the innermost launches 400 kernels, each from a range of its
    own."""
    depth = 400
    builder = TraceBuilder().annotation("ProfilerStep#0", 0, 20 * depth)
    for level in range(depth):
        builder.op(f"op{level}", level + 1, 20 * depth - level - 1)
    for number in range(depth):
        begin = 4 * depth + 10 * number
        builder.op(f"inner{number}", begin, begin + 4)
        builder.call("cudaLaunchKernel", begin + 1, begin + 3, number + 1)
        builder.kernel("gemm", begin + 4, begin + 9, number + 1)
    critical = measured(Run((builder.build(),))).critical
    asked = []
    text = Trace.text
    monkeypatch.setattr(Trace, "text", lambda self, code: asked.append(code) or text(self, code))
    boxes = device_time(critical)
    assert [box.name for box in boxes if box.level < 5] == [f"op{level}" for level in range(5)]
    assert (
        len(asked) < 4 * depth
    )  # depth squared, 160,000, where each launch asks for all around it
