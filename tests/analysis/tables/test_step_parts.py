"""The partition of the step into its smallest named parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from tests.analyzed import measurements
from tests.recorded import EVERY, label
from traceanalyzer.analysis.tables import step_parts as module
from traceanalyzer.analysis.tables.step_parts import BUDGET, MAX_BATCHES, SMALLER
from traceanalyzer.diagnosis.measurements import Measurements, measure


def steps_of(count: int) -> TraceBuilder:
    """Steps of 100 us: an addition and a product of 20 us each, half of it side by side, then a
    wait of the host."""
    built = TraceBuilder()
    for i in range(count):
        at = 100 * i
        built.annotation(f"ProfilerStep#{i}", at, at + 100)
        built.op("aten::add", at + 1, at + 5, shapes="[[4]]").call(
            "cudaLaunchKernel", at + 2, at + 4, 2 * i + 1
        )
        built.op("aten::mm", at + 6, at + 10, shapes="[[8, 8]]").call(
            "cudaLaunchKernel", at + 7, at + 9, 2 * i + 2
        )
        built.kernel("void add<float>(int)", at + 10, at + 30, 2 * i + 1, stream=7)
        built.kernel("gemm", at + 20, at + 40, 2 * i + 2, stream=8)
    return built


def parts_of(trace):
    return measure(trace).step_parts


def test_what_runs_side_by_side_is_split_evenly_and_named_by_operator_shapes_and_kernel():
    add, mm, *idle = parts_of(steps_of(3).build())
    assert (add.part, add.op, add.shapes, add.kernel, add.calls) == (
        "compute",
        "aten::add",
        "[[4]]",
        "add",
        1.0,
    )
    assert (mm.op, mm.shapes, mm.kernel) == ("aten::mm", "[[8, 8]]", "gemm")
    assert add.ms == mm.ms == pytest.approx(0.015)
    assert {part.part for part in idle} == {"idle"}
    assert sum(part.ms for part in idle) == pytest.approx(0.07, abs=0.01)


def test_each_step_is_one_batch_until_there_are_many():
    assert len(parts_of(steps_of(3).build())[0].batch_ms) == 3
    many = parts_of(steps_of(40).build())[0]
    assert many.batch_ms == pytest.approx([0.015] * MAX_BATCHES)


def test_the_shortest_of_very_many_are_put_together(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS", 1)
    parts = parts_of(steps_of(3).build())
    assert {part.kernel for part in parts} >= {SMALLER}
    assert sum(part.ms for part in parts) == pytest.approx(0.1, rel=0.05)


def test_without_device_work_there_are_none():
    assert parts_of(TraceBuilder().annotation("ProfilerStep#1", 0, 5).build()) == []


spans = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 80), st.sampled_from(["a", "nccl_b", "c"])),
    min_size=1,
)


@given(spans)
def test_the_parts_are_the_budget_whatever_runs(rows):
    built = TraceBuilder()
    for i in range(4):
        built.annotation(f"ProfilerStep#{i}", 100 * i, 100 * i + 100)
    for i, (start, length, name) in enumerate(rows):
        built.call("cudaLaunchKernel", start, start + 1, i + 1).kernel(
            name, start + 1, start + 1 + length, i + 1
        )
    holds(measure(built.build()))


@pytest.mark.parametrize("path", EVERY, ids=label)
def test_the_parts_are_the_budget_of_every_recording(path):
    for one in measurements(path).each:
        holds(one)


def holds(m: Measurements) -> None:
    """The parts sum to the step, to its budget and to its idle time by cause; so do the batches."""
    assert m.budget is not None
    assert m.idle is not None
    for name in BUDGET:
        assert sum(p.ms for p in m.step_parts if p.part == name) == pytest.approx(
            getattr(m.budget, name), abs=1e-6
        )
    for cause in vars(m.idle):
        idle = [p.ms for p in m.step_parts if p.part == "idle" and p.cls == cause]
        assert sum(idle) == pytest.approx(getattr(m.idle, cause), abs=1e-6)
    steps = m.timed.steps
    if steps.steady_count <= MAX_BATCHES:
        by_step = [sum(values) for values in zip(*(p.batch_ms for p in m.step_parts), strict=True)]
        assert by_step == pytest.approx((steps.duration[steps.steady] / 1e6).tolist(), abs=1e-6)
