from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.names.api import FULL_QUEUE
from traceanalyzer.analysis.tables.launches import LaunchStats, host_stats, measure_launches
from traceanalyzer.base.figures import definitions
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import DeviceOpKind, OverheadKind


def measured(builder: TraceBuilder) -> LaunchStats:
    stats = measure_launches(measure(builder.build()).timed)
    assert stats is not None
    return stats


def two_steps() -> TraceBuilder:
    """Two steps; each launches three kernels of 4, 4 and 40 us with calls of 5, 7 and 9 us."""
    b = TraceBuilder()
    for step in range(2):
        t = 1000.0 * step
        b.annotation(f"ProfilerStep#{step}", t, t + 1000)
        for i, (length, call) in enumerate(((4, 5), (4, 7), (40, 9))):
            at = t + 100 * i
            b.call("cudaLaunchKernel", at, at + call, correlation=10 * step + i + 1)
            b.kernel("k", at + call + 2, at + call + 2 + length, correlation=10 * step + i + 1)
    return b


def test_counts_and_times_are_per_step() -> None:
    stats = measured(two_steps())
    assert stats.kernels == 3
    assert stats.launch_calls == 3
    assert stats.launch_ms == pytest.approx(0.021)
    assert stats.launch_mean_us == pytest.approx(7)
    assert stats.launch_p50_us == pytest.approx(7)
    assert stats.short_kernel_share == pytest.approx(2 / 3)
    assert stats.kernel_mean_us == pytest.approx(16)
    assert stats.queue_delay_p50_us == pytest.approx(2)
    assert stats.back_pressure_ms == 0
    assert stats.kernels_per_graph_launch is None
    assert stats.without_launch == 0


def test_the_share_that_the_cpu_works_leaves_out_waits() -> None:
    """Of steps of 1000 us: 600 in a wait for the GPU, the rest in operators."""
    b = TraceBuilder()
    for step in range(2):
        t = 1000.0 * step
        b.annotation(f"ProfilerStep#{step}", t, t + 1000).op("aten::mul", t, t + 400)
        b.call("cudaLaunchKernel", t + 10, t + 20, correlation=step + 1)
        b.kernel("k", t + 30, t + 990, correlation=step + 1)
        b.call("cudaDeviceSynchronize", t + 400, t + 1000)
    host = host_stats(measure(b.build()).timed)
    assert host is not None
    assert host.sync_ms == pytest.approx(0.6)
    assert host.busy_share == pytest.approx(0.4)


def test_a_host_far_ahead_of_the_gpu_is_busy_for_a_small_share() -> None:
    """The host has issued three steps of 1000 us in 100 us each, and then waits."""
    b = TraceBuilder()
    for step in range(3):
        t = 100.0 * step
        b.annotation(f"ProfilerStep#{step}", t, t + 100).op("aten::mm", t, t + 90)
        b.call("cudaLaunchKernel", t + 10, t + 20, correlation=step + 1)
        b.kernel("k", 30 + 1000.0 * step, 1020 + 1000.0 * step, correlation=step + 1)
    b.call("cudaDeviceSynchronize", 300, 3020)
    host = host_stats(measure(b.build()).timed)
    assert host is not None
    assert host.busy_share == pytest.approx(0.1, abs=0.02)


def test_no_api_calls_means_no_figures() -> None:
    assert measure_launches(measure(TraceBuilder().kernel("k", 0, 10).build()).timed) is None


def test_negative_queue_delay_is_absent() -> None:
    b = TraceBuilder().call("cudaLaunchKernel", 0, 10, 1).kernel("k", 5, 20, 1)
    assert measured(b).queue_delay_p50_us is None


def test_a_driver_call_beneath_a_runtime_call_counts_once() -> None:
    b = (
        TraceBuilder()
        .call("cudaLaunchKernel", 0, 10, 1)
        .call("cuLaunchKernel", 1, 9, 1)
        .kernel("k", 12, 20, 1)
    )
    stats = measured(b)
    assert stats.launch_calls == 1
    assert stats.launch_ms == pytest.approx(0.010)


def test_recorded_back_pressure_is_kept_apart() -> None:
    b = TraceBuilder().annotation("ProfilerStep#1", 0, 1000)
    b.call("cudaLaunchKernel", 0, 100, 1).kernel("k", 200, 300, 1)
    b.overhead(OverheadKind.BACK_PRESSURE, 10, 95).overhead(OverheadKind.PROFILER, 0, 5)
    b.overhead(OverheadKind.BACK_PRESSURE, 500, 520)
    stats = measured(b)
    assert stats.launch_ms == pytest.approx(0.015)
    assert stats.back_pressure_ms == pytest.approx(0.105)


@pytest.mark.parametrize(("queued", "blocked"), [(FULL_QUEUE + 5, 0.295), (20, 0.0)])
def test_a_long_launch_is_back_pressure_only_if_the_queue_was_full(
    queued: int, blocked: float
) -> None:
    b = TraceBuilder()
    for i in range(queued):
        b.call("cudaLaunchKernel", 10 * i, 10 * i + 5, i + 1)
        b.kernel("k", 10 * queued + 400 + i, 10 * queued + 401 + i, i + 1)
    b.call("cudaLaunchKernel", 10 * queued, 10 * queued + 300, queued + 1)
    b.kernel("k", 20 * queued + 500, 20 * queued + 501, queued + 1)
    stats = measured(b)
    assert stats.back_pressure_ms == pytest.approx(blocked)
    assert stats.launch_ms == pytest.approx((5 * queued + 300) / 1000 - blocked)


def test_graph_launches() -> None:
    b = TraceBuilder().call("cudaGraphLaunch", 0, 50, 1).call("cudaLaunchKernel", 60, 65, 2)
    for i in range(4):
        b.kernel("k", 100 + 10 * i, 105 + 10 * i, 1)
    b.kernel("k", 200, 205, 2)
    stats = measured(b)
    assert stats.graph_launches == 1
    assert stats.kernels_per_graph_launch == 4
    assert stats.launch_calls == 2
    assert stats.kernels == 5
    assert stats.queue_delay_p50_us == pytest.approx((50 + 135) / 2)


def test_a_graph_recorded_as_a_whole_hides_its_kernels() -> None:
    b = (
        TraceBuilder()
        .call("cudaGraphLaunch", 0, 50, 1)
        .kernel("graph", 60, 160, 1, kind=DeviceOpKind.GRAPH)
    )
    stats = measured(b)
    assert stats.kernels_per_graph_launch is None
    assert stats.kernels == 0
    assert stats.kernel_mean_us is None
    assert stats.queue_delay_p50_us == pytest.approx(10)


def test_copies_memsets_and_unlaunched_ops() -> None:
    b = TraceBuilder().call("cudaMemcpyAsync", 0, 5, 1).call("cudaMemsetAsync", 10, 15, 2)
    b.kernel("Memcpy", 20, 25, 1, kind=DeviceOpKind.MEMCPY).kernel(
        "Memset", 26, 27, 2, kind=DeviceOpKind.MEMSET
    )
    b.kernel("k", 30, 40, 99)
    stats = measured(b)
    assert (stats.copy_calls, stats.memset_calls, stats.without_launch) == (1, 1, 1)
    assert stats.launch_calls == 0
    assert stats.launch_mean_us is None


def test_every_figure_is_defined() -> None:
    assert len(definitions(LaunchStats)) == len(LaunchStats.__dataclass_fields__)


def test_what_the_recorder_saw_of_a_full_queue_goes_before_what_is_inferred() -> None:
    """The long call is blocked for all but 5 us of its 300, were it inferred; the recorder saw 50
    us."""
    queued = FULL_QUEUE + 5
    b = TraceBuilder()
    for i in range(queued):
        b.call("cudaLaunchKernel", 10 * i, 10 * i + 5, i + 1)
        b.kernel("k", 10 * queued + 400 + i, 10 * queued + 401 + i, i + 1)
    b.call("cudaLaunchKernel", 10 * queued, 10 * queued + 300, queued + 1)
    b.kernel("k", 20 * queued + 500, 20 * queued + 501, queued + 1)
    b.overhead(OverheadKind.BACK_PRESSURE, 10 * queued + 100, 10 * queued + 150)
    stats = measured(b)
    assert stats.back_pressure_ms == pytest.approx(0.050)
    assert stats.launch_ms == pytest.approx((5 * queued + 300) / 1000 - 0.050)
