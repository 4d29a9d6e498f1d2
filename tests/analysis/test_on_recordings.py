"""What must hold on every real recording, whatever is in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.analyzed import measurements
from tests.recorded import EVERY, label
from traceanalyzer.analysis.tables.kernels import class_stats, kernel_stats
from traceanalyzer.analysis.tables.launches import measure_launches
from traceanalyzer.analysis.tables.ops import op_stats
from traceanalyzer.diagnosis.measurements import Measurements

MAX_OTHER = 0.05


@pytest.fixture(params=EVERY, ids=label)
def recording(request: pytest.FixtureRequest) -> tuple[Path, Sequence[Measurements]]:
    return request.param, measurements(request.param).each


def test_nearly_all_kernel_time_has_a_class(recording: tuple[Path, Sequence[Measurements]]) -> None:
    _, processes = recording
    for ctx in processes:
        ops = ctx.trace.device_ops
        kernel_time = (ops.end - ops.start)[ctx.linked.is_kernel]
        other = kernel_time[ctx.linked.op_class[ctx.linked.is_kernel] == 0]
        assert other.sum() <= MAX_OTHER * kernel_time.sum()


def test_all_device_time_is_in_every_table(recording: tuple[Path, Sequence[Measurements]]) -> None:
    for ctx in recording[1]:
        ops = ctx.trace.device_ops
        length = ops.end - ops.start
        per_ms = 1e6 * ctx.timed.steps.steady_count
        everything = length[ctx.timed.steady_ops].sum() / per_ms
        kernels = length[ctx.timed.steady_ops & ctx.linked.is_kernel].sum() / per_ms
        assert sum(r.device_self_ms for r in op_stats(ctx.rated)) == pytest.approx(everything)
        assert sum(r.total_ms for r in class_stats(ctx.timed)) == pytest.approx(everything)
        assert sum(
            r.total_ms for r in kernel_stats(ctx.rated) if r.cls != "graph"
        ) == pytest.approx(kernels)


def test_figures_are_within_what_is_possible(
    recording: tuple[Path, Sequence[Measurements]],
) -> None:
    for ctx in recording[1]:
        for row in op_stats(ctx.rated):
            assert row.device_self_ms <= row.device_total_ms + 1e-9 or row.kind == "none"
            assert row.host_self_ms <= row.host_total_ms + 1e-9
            assert 0 <= row.backward_share <= 1
        for kernel in kernel_stats(ctx.rated):
            assert kernel.min_us <= kernel.p50_us <= kernel.p95_us <= kernel.max_us
            assert kernel.min_us <= kernel.mean_us <= kernel.max_us + 1e-9
        stats = measure_launches(ctx.timed)
        if stats is not None:
            assert stats.launch_ms >= 0
            assert stats.back_pressure_ms >= 0
            assert np.isfinite(stats.launch_calls)
