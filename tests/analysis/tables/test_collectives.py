from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.collectives import ALL_REDUCE, GEMM, Ranked
from tests.recorded import EVERY, label, recording
from traceanalyzer.analysis.algebra.intervals import IntervalSet, intersect, shared_time, union
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.analysis.tables.collectives import collective_stats, communication_time
from traceanalyzer.diagnosis.measurements import Measurements, measure, measure_ranks

TWO_RANKS = [path for path in EVERY if ".base.rank" in path.name]


@cache
def recorded(path: Path) -> Measurements:
    from traceanalyzer.ingest import load

    return measure(load([path]).traces[0])


def test_overlapping_intervals_share_their_time():
    start = np.array([0, 50, 300])
    end = np.array([100, 150, 300])
    within = IntervalSet(np.array([20]), np.array([120]))
    # 20-50 alone, 50-100 shared by two, 100-120 alone.
    assert shared_time(start, end, within).tolist() == [30 + 25, 25 + 20, 0]


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8)


@given(spans, spans)
def test_shared_time_adds_up_to_the_union(intervals, others):
    start = np.array([a for a, _ in intervals], np.int64)
    end = np.array([a + length for a, length in intervals], np.int64)
    within = union(
        *(np.array(side, np.int64) for side in ([a for a, _ in others], [a + b for a, b in others]))
    )
    shared = shared_time(start, end, within)
    assert shared.sum() == pytest.approx(intersect(union(start, end), within).total)
    assert (shared >= 0).all()
    assert (shared <= end - start + 1e-9).all()


def test_metadata_comes_from_the_call_that_encloses_the_launch():
    ctx = measure(Ranked().collective(10, 20, 5, elements=1000).trace())
    (row,) = collective_stats(ctx.timed)
    assert (row.collective, row.group, row.group_size, row.dtype) == (
        "all_reduce",
        "pg",
        2,
        "Float",
    )
    assert row.group_ranks == "[0, 1]"
    assert row.message_bytes == 4000
    assert row.algorithm_gbs == pytest.approx(4000 / 10_000)
    assert row.bus_gbs == pytest.approx(4000 / 10_000 * 2 * 1 / 2)
    assert row.count == 1
    assert row.streams == "7"
    assert row.on_compute_stream is False


def test_metadata_of_the_kernel_itself_goes_first():
    builder = Ranked()
    own = builder.described("allreduce", 7)
    builder.collective(10, 20, 5, elements=1000, collective=own)
    (row,) = collective_stats(measure(builder.trace()).timed)
    assert row.message_bytes == 28


def test_without_metadata_the_kernel_name_tells_the_kind_alone():
    ctx = measure(Ranked().launched(ALL_REDUCE, 10, 20, 5).trace())
    (row,) = collective_stats(ctx.timed)
    assert (row.collective, row.group, row.message_bytes, row.bus_gbs) == (
        "all_reduce",
        None,
        None,
        None,
    )


def test_a_metadata_range_on_another_thread_is_not_the_launching_one():
    builder = Ranked()
    builder.op(
        "record_param_comms", 0, 30, thread=1, collective=builder.described("allreduce", 1000)
    )
    (row,) = collective_stats(measure(builder.launched(ALL_REDUCE, 10, 20, 5).trace()).timed)
    assert row.message_bytes is None


def test_kernels_of_one_call_are_one_collective():
    builder = Ranked()
    row = builder.described("all_gather", 1000, ranks=2, out=2000)
    builder.op("record_param_comms", 0, 10, collective=row)
    for i in range(2):
        builder.launched("ncclDevKernel_Broadcast_RING_LL", 20 + 10 * i, 28 + 10 * i, 2 + i)
    (stats,) = collective_stats(measure(builder.trace()).timed)
    assert stats.count == 1
    assert stats.collective == "all_gather"
    assert stats.message_bytes == 8000
    assert stats.mean_us == pytest.approx(16)


def test_a_group_of_calls_launches_at_its_end():
    builder = Ranked()
    for i, elements in enumerate((1000, 500)):
        builder.op(
            "record_param_comms",
            10 * i,
            10 * i + 5,
            collective=builder.described("allreduce", elements),
        )
    builder.launched(ALL_REDUCE, 40, 60, 30)
    (row,) = collective_stats(measure(builder.trace()).timed)
    assert row.message_bytes == 6000
    assert row.group == "pg"


def test_a_call_that_launched_nothing_does_not_describe_another_kind():
    builder = Ranked()
    builder.op(
        "record_param_comms", 0, 5, collective=builder.described("_reduce_scatter_base", 1000)
    )
    builder.launched(ALL_REDUCE, 40, 60, 30)
    (row,) = collective_stats(measure(builder.trace()).timed)
    assert (row.collective, row.message_bytes) == ("all_reduce", None)


def test_a_barrier_is_a_barrier_and_not_the_all_reduce_inside_it():
    builder = Ranked()
    builder.op("record_param_comms", 0, 20, collective=builder.described("barrier", 1))
    builder.collective(30, 40, 5, elements=1)
    (row,) = collective_stats(measure(builder.trace()).timed)
    assert (row.collective, row.message_bytes, row.bus_gbs) == ("barrier", None, None)


def test_exposed_time_is_shared_and_hidden_time_is_not_exposed():
    builder = Ranked()
    builder.launched(GEMM, 0, 100, 0)
    builder.collective(50, 150, 10, stream=8, elements=10).collective(
        120, 200, 20, stream=9, elements=20
    )
    ctx = measure(builder.trace())
    small, large = sorted(collective_stats(ctx.timed), key=lambda row: row.message_bytes)
    # 100-120 the first alone, 120-150 both, 150-200 the second alone.
    assert small.exposed_ms == pytest.approx((20 + 15) / 1e3)
    assert large.exposed_ms == pytest.approx((15 + 50) / 1e3)
    assert small.overlap_share == pytest.approx(0.5)
    total = communication_time(ctx.timed, 0, ctx.phases)
    assert total.total_ms == pytest.approx(0.150)
    assert total.exposed_ms == pytest.approx(small.exposed_ms + large.exposed_ms)


def test_the_compute_stream_is_named():
    builder = Ranked().launched(GEMM, 0, 100, 0).collective(100, 150, 10)
    (row,) = collective_stats(measure(builder.trace()).timed)
    assert row.on_compute_stream is True


def test_no_collectives_no_rows():
    ctx = measure(Ranked().launched(GEMM, 0, 100, 0).trace())
    assert collective_stats(ctx.timed) == []
    assert communication_time(ctx.timed, 0, ctx.phases).overlap_share is None


@pytest.mark.parametrize("path", TWO_RANKS, ids=label)
def test_rows_add_up_to_the_collectives_of_the_steady_steps(path):
    ctx = recorded(path)
    ops = ctx.trace.device_ops
    nccl = [
        i
        for i in range(len(ops))
        if "nccl" in ctx.trace.strings[ops.name[i]]
        and ctx.timed.steps.of_op[i] >= ctx.timed.steps.warmup
    ]
    rows = collective_stats(ctx.timed)
    steps = ctx.timed.steps.steady_count
    assert sum(row.count for row in rows) * steps == pytest.approx(len(nccl))
    total = sum(int(ops.end[i] - ops.start[i]) for i in nccl) / 1e6
    assert sum(row.total_ms for row in rows) * steps == pytest.approx(total)
    hidden = 0
    for i in nccl:
        busy = np.zeros(int(ops.end[i] - ops.start[i]), bool)
        for j in np.flatnonzero((ops.start < ops.end[i]) & (ops.end > ops.start[i])):
            if "nccl" not in ctx.trace.strings[ops.name[j]] and ops.kind[j] != 2:
                busy[max(ops.start[j] - ops.start[i], 0) : ops.end[j] - ops.start[i]] = True
        hidden += int(busy.sum())
    # NCCL runs collectives of one group one after the other: none is shared, so exposed is what is
    # not hidden.
    assert sum(row.exposed_ms for row in rows) * steps == pytest.approx(
        total - hidden / 1e6, abs=1e-3
    )


@pytest.mark.parametrize("path", TWO_RANKS, ids=label)
def test_every_launched_collective_of_pytorch_is_described(path):
    ctx = recorded(path)
    calls = ctx.timed.collective_calls
    launched = calls.launched >= 0
    assert (calls.metadata[launched] >= 0).all()
    assert (calls.bytes[launched] > 0).all()
    assert {KINDS[k] for k in calls.kind} <= {"all_reduce"}


def test_figures_of_the_straggler_recording():
    (waits,) = collective_stats(recorded(recording("ranks2/straggler.base.rank0")).timed)
    (late,) = collective_stats(recorded(recording("ranks2/straggler.base.rank1")).timed)
    assert waits.message_bytes == late.message_bytes == 4096 * 4096 * 4
    assert waits.total_ms == pytest.approx(9.639, abs=1e-3)
    assert late.total_ms == pytest.approx(0.258, abs=1e-3)
    assert late.bus_gbs == pytest.approx(67_108_864 / 258_281.7, rel=1e-4)
    assert late.on_compute_stream is True


@pytest.mark.parametrize(("variant", "exchanges"), [("base", 4), ("fix", 1)])
def test_what_a_step_sends_is_measured_by_the_gradients_of_a_pass(variant, exchanges):
    """Eight matrices of fp32, four backward passes a step: their gradients are exchanged after each
    of them, or after the last alone."""
    time = recorded(recording(f"ranks2/ddp_accum_sync.{variant}.rank0")).communication
    assert time.gradient_bytes == 8 * 6144 * 6144 * 4
    assert time.volume_bytes == exchanges * time.gradient_bytes


def test_waiting_is_apart_from_transfer_where_the_ranks_are_known():
    """Both end at 500 us; rank 1 comes at 400 us, 300 us after rank 0."""
    traces = [
        Ranked().collective(at, 500, 10, ranks=2).trace(i, 2) for i, at in enumerate((100, 400))
    ]
    early, late = (one.collectives[0] for one in measure_ranks(traces))
    assert (early.transfer_ms, early.waiting_ms) == pytest.approx((0.1, 0.3))
    assert (late.transfer_ms, late.waiting_ms) == pytest.approx((0.1, 0.0))
    assert measure(traces[0]).collectives[0].waiting_ms is None
