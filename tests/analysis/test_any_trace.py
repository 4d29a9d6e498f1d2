"""Whatever the events are and however they overlap, the measurements are made and their parts sum
up."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from tests.examples import tried
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import DeviceOpKind, OverheadKind, RangeKind, Trace

KERNELS = ["gemm", "ncclDevKernel_AllReduce_Sum", "vectorized_elementwise_kernel", ""]
CALLS = [
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaGraphLaunch",
    "cudaMalloc",
    "cudaFree",
    "cudaEventRecord",
    "cudaMemsetAsync",
    "INVALID",
]
RANGES = [
    "aten::mm",
    "aten::item",
    "ProfilerStep#1",
    "ProfilerStep#2",
    "ProfilerStep#3",
    "Optimizer.step#Adam.step",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "forward",
]

moments = st.integers(0, 200)
lengths = st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 200))
ids = st.sampled_from([-1, 0, 1, 2, 3, 4, 5])
threads = st.integers(0, 1)

kernels = st.tuples(
    st.sampled_from(KERNELS),
    moments,
    lengths,
    ids,
    st.sampled_from(list(DeviceOpKind)),
    st.sampled_from([0, 0, 1, -1]),
)
calls = st.tuples(st.sampled_from(CALLS), moments, lengths, ids, threads)
kinds = st.sampled_from([RangeKind.OP, RangeKind.ANNOTATION, RangeKind.PYTHON])
ranges = st.tuples(st.sampled_from(RANGES), moments, lengths, threads, kinds)
overheads = st.tuples(st.sampled_from(list(OverheadKind)), moments, lengths)
any_rows = st.tuples(*(st.lists(rows, max_size=12) for rows in (kernels, calls, ranges, overheads)))


def measure_rows(rows) -> Measurements:
    return measure(built(rows))


def built(rows) -> Trace:
    builder = TraceBuilder()
    for name, start, length, correlation, kind, device in rows[0]:
        builder.kernel(name, start, start + length, correlation, kind=kind, device=device, stream=7)
    for name, start, length, correlation, thread in rows[1]:
        builder.call(name, start, start + length, correlation, thread)
    for name, start, length, thread, kind in rows[2]:
        builder.op(name, start, start + length, thread, kind=kind)
    for kind, start, length in rows[3]:
        builder.overhead(kind, start, start + length)
    return builder.build()


def finite(value) -> bool:
    """Whether no figure in the value, at any depth, is nan or infinite."""
    if is_dataclass(value):
        return all(finite(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@tried(3)
@given(any_rows)
def test_devices_add_up(rows):
    for row in measure_rows(rows).devices:
        assert row.busy_ms + row.idle_ms == pytest.approx(row.span_ms)
        assert row.compute_ms + row.exposed_communication_ms + row.exposed_copy_ms == pytest.approx(
            row.busy_ms
        )
        assert row.largest_gap_ms <= row.idle_ms + 1e-9


@tried(3)
@given(any_rows)
def test_budgets_are_partitions_of_the_steps(rows):
    measured = measure_rows(rows)
    steps = measured.timed.steps
    assert (steps.duration >= 0).all()
    assert (steps.start[1:] == steps.end[:-1]).all()
    budgets = measured.budgets
    if budgets is None:
        return
    parts = [budgets.compute, budgets.exposed_communication, budgets.exposed_copy, budgets.idle]
    assert all((part >= 0).all() for part in parts)
    assert (sum(parts) == budgets.duration).all()
    assert all((part >= 0).all() for part in budgets.idle_by_cause.values())
    assert (sum(budgets.idle_by_cause.values()) == budgets.idle).all()


@tried(3)
@given(any_rows)
def test_no_operator_takes_negative_time(rows):
    for row in measure_rows(rows).ops:
        assert row.host_self_ms >= 0
        assert row.device_self_ms >= 0


@tried(3)
@given(any_rows)
@example(([], [], [], []))
def test_every_measurement_is_made_of_finite_figures(rows):
    measured = measure_rows(rows)
    for name in (
        "step_time",
        "budget",
        "idle",
        "communication",
        "launches",
        "host",
        "devices",
        "gap_histogram",
        "gap_places",
        "syncs",
        "kernels",
        "ops",
        "copies",
        "collectives",
        "phases",
    ):
        assert finite(getattr(measured, name)), name
    assert finite(measured.timed.steps)
