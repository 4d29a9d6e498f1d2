"""What repeats is not yet a step: each kind of evidence, and what it must not be taken for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from tests.kineto_builder import KinetoTrace
from traceanalyzer.analysis.time.periods import inference_only
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.rules.recording import recording_notes
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from pathlib import Path

DECODE = "step[DECODE bs=32]"


def layers(
    b: TraceBuilder, at: float, count: int = 12, *, correlation: int = 1, us: float = 10
) -> None:
    """A pass of equal layers, three kernels each, launched one by one."""
    for i in range(count):
        for j, name in enumerate(("norm", "gemm", "act")):
            start = at + us * (3 * i + j)
            number = correlation + 3 * i + j
            b.call("cudaLaunchKernel", start, start + 2, number)
            b.kernel(name, start + 3, start + 3 + us / 2, number)


def built(b: TraceBuilder) -> Measurements:
    return measure(b.build())


def test_one_iteration_is_one_step_and_its_layers_are_repeats() -> None:
    b = TraceBuilder().annotation(DECODE, 0, 1000)
    b.op("aten::mm", 1, 2)
    layers(b, 10)
    m = built(b)
    assert (m.timed.steps.source, len(m.timed.steps)) == ("annotation", 1)
    assert m.timed.steps.duration[0] == max(m.trace.device_ops.end) - min(m.trace.device_ops.start)
    assert m.repeats is not None
    assert (m.repeats.count, m.repeats.ops) == (12, 3)


def test_nested_marks_are_one_iteration() -> None:
    b = TraceBuilder().annotation(DECODE, 0, 1000).annotation("step[decode bs=32]", 5, 900)
    layers(b, 10)
    assert len(built(b).timed.steps) == 1


def test_an_iteration_is_cut_by_its_device_work() -> None:
    """The host is through with each iteration long before the device; sampling is launched after
    the mark."""
    b = TraceBuilder()
    for i in range(3):
        b.annotation(f"execute_context_0(0)_generation_8({8 + i})", 100 * i, 100 * i + 20)
        b.call("cudaGraphLaunch", 100 * i + 5, 100 * i + 9, 2 * i + 1)
        b.kernel("decode", 50 + 300 * i, 300 + 300 * i, 2 * i + 1)
        b.call("cudaLaunchKernel", 100 * i + 40, 100 * i + 44, 2 * i + 2)
        b.kernel("sample", 310 + 300 * i, 330 + 300 * i, 2 * i + 2)
    steps = built(b).timed.steps
    assert steps.of_op.tolist() == [0, 0, 1, 1, 2, 2]
    assert steps.duration.tolist()[1:] == [300_000, 300_000]
    assert steps.warmup == 0


def test_a_slow_prefill_is_no_warm_up() -> None:
    b = TraceBuilder()
    for i, us in enumerate((500, 20, 20, 20)):
        at = 600 * i
        b.annotation("step[EXTEND bs=1 toks=99]" if i == 0 else DECODE, at, at + 550)
        b.call("cudaLaunchKernel", at + 1, at + 3, i + 1).kernel("k", at + 5, at + 5 + us, i + 1)
    assert built(b).timed.steps.warmup == 0


def test_calls_of_the_model_are_steps_and_its_parts_are_not() -> None:
    b = TraceBuilder()
    for i in range(2):
        at = 1000 * i
        b.python("nn.Module: Net_0", at, at + 900)
        for j in range(12):
            b.python(f"nn.Module: Block_{j}", at + 10 + 30 * j, at + 35 + 30 * j)
        layers(b, at + 10, correlation=1 + 100 * i)
    steps = built(b).timed.steps
    assert steps.names == ("Net_0 call 0", "Net_0 call 1")
    assert steps.of_op.tolist() == [0] * 36 + [1] * 36


def test_markers_around_the_set_up_are_not_steps() -> None:
    """Ten `.cuda()` marks with a copy each; the work lies after them, in no range."""
    b = TraceBuilder()
    for i in range(10):
        b.annotation("model.cuda()", 20 * i, 20 * i + 10)
        b.call("cudaMemcpy", 20 * i + 1, 20 * i + 5, i + 1).kernel(
            "Memcpy HtoD", 20 * i + 2, 20 * i + 4, i + 1, kind=2
        )
    for i in range(40):
        at = 1000 + 50 * i
        b.call("cudaLaunchKernel", at, at + 2, 100 + i).kernel(f"k{i}", at + 3, at + 43, 100 + i)
    assert built(b).timed.steps.source == "recording"


def test_numbered_layers_are_not_steps() -> None:
    b = TraceBuilder()
    for i in range(8):
        at = 100 * i
        b.annotation(f"FSDP::pre_forward (encoder.block.{i}.layer.0)", at, at + 99)
        b.call("cudaLaunchKernel", at + 1, at + 3, i + 1).kernel(f"k{i}", at + 5, at + 90, i + 1)
    assert built(b).timed.steps.source == "recording"


def test_a_period_splits_no_graph_launch() -> None:
    b = TraceBuilder().call("cudaGraphLaunch", 0, 5, 1)
    for i in range(12):
        for j, name in enumerate(("norm", "gemm", "act")):
            b.kernel(name, 10 + 30 * i + 10 * j, 18 + 30 * i + 10 * j, 1)
    m = built(b)
    assert m.timed.steps.source == "recording"
    assert m.repeats is not None
    assert m.repeats.count == 12


def test_layers_of_one_pass_by_pytorch_are_not_steps() -> None:
    """Nothing marks the pass, nothing is trained: what repeats may be its layers."""
    b = TraceBuilder().op("aten::linear", 0, 400)
    layers(b, 10)
    assert built(b).timed.steps.source == "recording"
    b.op("autograd::engine::evaluate_function: AddmmBackward0", 401, 402)
    assert built(b).timed.steps.source == "periodicity"


def test_few_ops_repeat_by_habit_unless_their_sizes_do_too() -> None:
    def loop(grow: int) -> Measurements:
        b = TraceBuilder()
        for i in range(6):
            b.kernel("Memcpy HtoD", 100 * i, 100 * i + 20, kind=2, bytes=1000 + grow * i)
            b.kernel("k", 100 * i + 30, 100 * i + 60, blocks=10 + grow * i)
        return built(b)

    assert loop(0).timed.steps.source == "periodicity"
    assert loop(1).timed.steps.source == "recording"


def test_periods_without_kernels_are_none() -> None:
    b = TraceBuilder()
    for i in range(30):
        b.kernel("Memcpy HtoD", 100 * i, 100 * i + 20, kind=2, bytes=64)
        b.kernel("Memcpy DtoH", 100 * i + 30, 100 * i + 60, kind=2, bytes=64)
    assert built(b).timed.steps.source == "recording"


@pytest.mark.parametrize("category", ["Operator", "cpu_op"])
def test_old_recordings_have_annotations_among_the_operators(category: str, tmp_path: Path) -> None:
    trace = KinetoTrace()
    for i in range(4):
        trace.step(i, 100 * i, 90)["cat"] = category
        trace.annotation(
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100 * i, 40
        )["cat"] = category
        trace.op("aten::mm", 100 * i + 50, 10)["cat"] = category
        trace.launched("k", 100 * i + 52, 100 * i + 60, 20)
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"traceEvents": trace.rows}))
    m = measure(load([path]).traces[0])
    assert (m.timed.steps.source, len(m.timed.steps)) == ("profiler_step", 4)
    assert any(phase.is_input for phase in m.phase_rows)


def test_coverage_says_what_lies_outside() -> None:
    b = TraceBuilder().call("cudaMalloc", 0, 600)
    b.annotation(DECODE, 700, 1000)
    layers(b, 710, count=6)
    b.call("cudaFree", 1900, 2000)
    seen = built(b).coverage
    assert seen.recorded_ms == pytest.approx(2.0)
    assert seen.steps_share is not None
    assert seen.steps_share < 0.1
    assert seen.before_first_op_ms == pytest.approx(0.713)
    assert seen.idle_outside_share is not None
    assert seen.idle_outside_share > 0.9
    assert seen.work_outside_share == 0


def test_the_recorders_own_waits_are_torchs_alone() -> None:
    """nsys synchronises nothing: the last wait of the program is its own."""
    b = (
        TraceBuilder()
        .call("cudaLaunchKernel", 0, 4, 1)
        .kernel("k", 6, 900, 1)
        .call("cudaDeviceSynchronize", 10, 910)
    )
    trace = b.build()
    assert not measure(trace).joined.blocks.any()
    assert measure(type(trace)(**{**vars(trace), "source": "nsys"})).joined.blocks.any()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=6, max_size=60), st.booleans())
def test_steps_never_claim_more_than_was_recorded(names: list[int], marked: bool) -> None:
    b = TraceBuilder()
    for i, name in enumerate(names):
        b.call("cudaLaunchKernel", 20 * i, 20 * i + 3, i + 1).kernel(
            f"k{name}", 20 * i + 4, 20 * i + 9, i + 1
        )
        if marked:
            b.annotation(f"range {name}", 20 * i, 20 * i + 15)
    m = built(b)
    seen = m.coverage
    assert seen.steps_share is None or 0 <= seen.steps_share <= 1
    assert seen.idle_outside_share is None or 0 <= seen.idle_outside_share <= 1
    assert not m.timed.steps.found or (m.timed.steps.duration > 0).all()
    if m.repeats is not None:
        assert 0 < m.repeats.share <= 1


KERNEL_OF_LAMBDA = "void at::native::elementwise_kernel<gpu_kernel_impl(lambda(float))>"


def numbered_layers(names: list[str]) -> TraceBuilder:
    """Passes of 24 ops each, all alike, under one annotation each."""
    b = TraceBuilder().op("SomeBackward0", 0, 1)
    for i, name in enumerate(names):
        at = 1000 * i
        b.annotation(name, at, at + 300)
        for j in range(24):
            number = 24 * i + j + 1
            b.call("cudaLaunchKernel", at + 10 * j, at + 10 * j + 2, number)
            b.kernel(f"k{j}", at + 10 * j + 4, at + 10 * j + 9, number)
    return b


def test_numbered_layers_that_repeat_are_parts_of_a_step() -> None:
    m = built(numbered_layers([f"FSDP::pre_forward (blocks.{i}._module)" for i in range(9, 15)]))
    assert not m.timed.steps.found
    assert m.repeats is not None
    assert m.repeats.name == "FSDP::pre_forward (blocks.#._module)"
    assert any("parts of a step" in note for note in recording_notes(m))


def test_a_model_of_one_numbered_layer_may_repeat_by_steps() -> None:
    assert (
        built(numbered_layers(["FSDP::pre_forward (blocks.0._module)"] * 6)).timed.steps.source
        != "none"
    )


@pytest.mark.parametrize("name", [KERNEL_OF_LAMBDA, "RegisterPostBackwardFunction"])
def test_neither_a_lambda_nor_a_hook_is_training(name: str) -> None:
    b = TraceBuilder().op("aten::mm", 0, 1).op(name, 2, 3)
    layers(b, 10)
    assert inference_only(built(b).linked)
    assert not built(b).timed.steps.found
    b.op("LambBackward0", 4, 5)
    assert not inference_only(built(b).linked)
