"""Sampled counters joined with steps and kernels, against the slow and obvious way."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.build import US, TraceBuilder
from tests.recorded import ROOT
from traceanalyzer.analysis.time.sampled import sampled_ops, samples_of
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load
from traceanalyzer.trace import GpuMetrics, Trace

if TYPE_CHECKING:
    from pathlib import Path

SM = "SMs Active [Throughput %]"
TENSOR = "Tensor Active [Throughput %]"
READ = "DRAM Read Bandwidth [Throughput %]"
WRITE = "DRAM Write Bandwidth [Throughput %]"
CLOCK = "GPC Clock Frequency [MHz]"

Sample = tuple[str, int, int]


def trace(b: TraceBuilder, samples: list[Sample]) -> Trace:
    """With samples as (counter, time in us, value)."""
    codes = [b.code(name) for name, _, _ in samples]
    metrics = GpuMetrics.from_columns(
        {
            "name": codes,
            "start": [t * US for _, t, _ in samples],
            "device": [0] * len(samples),
            "value": [v for _, _, v in samples],
        },
        rows=len(samples),
    )
    return b.build(gpu_metrics=metrics)


def two_steps(samples: list[Sample]) -> Measurements:
    """Steps of 1000 us: a kernel of 600 us, one of 50 us, nothing else."""
    b = TraceBuilder()
    for i in range(2):
        at = 10_000 + 1000 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 1000)
        b.call("cudaLaunchKernel", at, at + 2, 2 * i + 1).kernel(
            "long", at + 10, at + 610, 2 * i + 1, stream=7
        )
        b.call("cudaLaunchKernel", at + 3, at + 5, 2 * i + 2).kernel(
            "short", at + 700, at + 750, 2 * i + 2, stream=7
        )
    return measure(trace(b, samples))


def every(name: str, value: int, period: int = 100) -> list[Sample]:
    return [(name, t, value) for t in range(9_900, 12_200, period)]


def test_a_kernel_shorter_than_the_sampling_period_is_unsampled() -> None:
    m = two_steps([*every(SM, 80), *every(READ, 30), *every(WRITE, 10)])
    rows = {row.name: row for row in m.kernels}
    long = rows["long"]
    short = rows["short"]
    # 10_100 < t - 100 and t <= 10_610: the samples at 10_200 ... 10_600
    assert long.samples == 5
    assert (long.sampled_sm_share, long.sampled_dram_share) == (
        pytest.approx(0.8),
        pytest.approx(0.4),
    )
    assert long.sampled_tensor_share is None
    assert (short.samples, short.sampled_sm_share) == (0, None)


def test_without_counters_nothing_is_said() -> None:
    m = two_steps([])
    assert m.counters is None
    assert m.counter_rows == []
    assert {row.samples for row in m.kernels} == {None}
    assert {row.sm_active_share for row in m.step_rows} == {None}


def test_counters_of_the_step() -> None:
    values = [(SM, 10_000 + 100 * i, 10 * i) for i in range(1, 21)]
    m = two_steps([*values, *every(TENSOR, 50), *every(CLOCK, 1980)])
    assert m.counters is not None
    inside = [
        v for _, t, v in values if 10_000 < t <= 12_000
    ]  # of both steps, the first begins with its kernel
    assert m.counters.sm_active_share == pytest.approx(np.mean(inside) / 100, abs=0.01)
    assert m.counters.tensor_active_share == pytest.approx(0.5)
    assert m.counters.dram_share is None
    assert m.counters.period_us == 100
    assert [row.tensor_active_share for row in m.step_rows] == [pytest.approx(0.5)] * 2


def test_counters_one_by_one() -> None:
    m = two_steps([*every(SM, 80), *every(CLOCK, 1980)])
    clock, sm = m.counter_rows
    assert (clock.counter, clock.counted_in, clock.mean) == ("GPC Clock Frequency", "MHz", 1980)
    assert (sm.counter, sm.counted_in, sm.mean, sm.busy_mean) == (
        "SMs Active",
        "Throughput %",
        80,
        80,
    )


def test_a_read_without_the_writes_is_no_bandwidth() -> None:
    m = two_steps(every(READ, 30))
    assert m.counters is not None
    assert m.counters.dram_share is None
    assert {row.sampled_dram_share for row in m.kernels} == {None}


@settings(max_examples=150, deadline=None)
@given(
    ops=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 120), st.integers(0, 2)),
        min_size=1,
        max_size=12,
    ),
    times=st.lists(st.integers(0, 450), min_size=3, max_size=30, unique=True),
)
def test_samples_are_a_kernels_where_it_ran_alone(
    ops: list[tuple[int, int, int]], times: list[int]
) -> None:
    b = TraceBuilder()
    for i, (start, length, stream) in enumerate(sorted(ops)):
        b.kernel(f"k{i}", start, start + length, stream=stream)
    values = [(SM, t, 1 + i) for i, t in enumerate(sorted(times))]
    m = measure(trace(b, values))
    samples = samples_of(m.timed, 0)
    found = sampled_ops(m.timed)
    assert samples is not None
    assert found is not None
    period = int(np.median(np.diff(sorted(t * US for t in times))))
    assert samples.period_ns == period
    device = m.trace.device_ops
    spans = list(zip(device.start.tolist(), device.end.tolist(), strict=True))
    count = [0] * len(spans)
    total = [0.0] * len(spans)
    for _, t, value in values:
        low = t * US - period
        high = t * US
        beside = [i for i, (start, end) in enumerate(spans) if start < high and end > low]
        if len(beside) == 1 and spans[beside[0]][0] <= low and spans[beside[0]][1] >= high:
            count[beside[0]] += 1
            total[beside[0]] += value / 100
    assert found.count.tolist() == count
    assert found.total["sm_active"].tolist() == pytest.approx(total)


def test_real_samples_against_a_reading_of_the_raw_file(tmp_path: Path) -> None:
    """Products in bf16, passes over 1 GB and a wait of 10 ms a step, sampled at 10 kHz on an H200:
    from the first kernel's start to the last one's end."""
    path = ROOT / "tests" / "data" / "nsys" / "sampled.sqlite.gz"
    plain = tmp_path / "plain.sqlite"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    with closing(sqlite3.connect(plain)) as database:
        kernels = "SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL"
        begin, end = database.execute(kernels).fetchone()
        asked = (
            "SELECT avg(value) / 100, count(*) FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS USING (metricId)"
            " WHERE metricName = ? AND timestamp > ? AND timestamp <= ?"
        )
        raw = {
            role: database.execute(asked, (name, begin, end)).fetchone()
            for role, name in (("sm_active", SM), ("tensor", TENSOR), ("dram_read", READ))
        }
    (recorded,) = load([path]).traces
    m = measure(recorded)
    samples = samples_of(m.timed, 0)
    assert samples is not None
    assert samples.period_ns == 100_000
    ops = recorded.device_ops
    compute = ops.start[m.timed.linked.is_kernel].min(), ops.end[m.timed.linked.is_kernel].max()
    for role, (mean, count) in raw.items():
        assert samples.mean(role, *compute) == pytest.approx(mean)
        assert count == 1464
    assert raw["sm_active"][0] == pytest.approx(0.601, abs=0.001)
    assert raw["tensor"][0] == pytest.approx(0.441, abs=0.001)
