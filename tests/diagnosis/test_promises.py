"""What is promised, and what is not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.diagnosis.test_remedies import ADD, GEMM, program, step_us, within
from tests.recorded import CASES, PAIRS, ranks
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.remedies.launches import ENLARGED, cuda_graph, larger_batch
from traceanalyzer.diagnosis.remedies.program import reduced_by_hooks
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.changes.loops.repetition import GREATER_BATCH, enlarged
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.report.outline import gains

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

NHWC = "void cudnn::ops::nchwToNhwcKernel<float, float, float, true>"
LAYERS = 20


def small(p: Program) -> None:
    """A model whose host is the limit."""
    for _ in range(LAYERS):
        within(p, "aten::linear", lambda p: p.spend(45).launch(GEMM, 4))


def test_a_larger_batch_promises_the_time_of_as_much_work() -> None:
    m = program(small)
    tape = make_tape(m.rated)
    assert tape is not None
    assert step_us(m, "larger_batch") == pytest.approx(
        step_time_ns(tape) / 1e3 / GREATER_BATCH, rel=0.05
    )
    (advice,) = [one for one in advise(m) if one.remedy.id == "larger_batch"]
    p = advice.prediction
    assert p.step_ms is not None
    assert p.high_ms is not None
    assert p.high_ms >= LAYERS * 4e-3  # the GPU's work is there for each sample


def test_a_larger_batch_comes_after_what_shortens_the_step_and_says_what_it_is_for() -> None:
    report = ta.analyze(*ranks("kineto/vit_small_batch.base"))
    advice = report.recommendations
    steps = [a.predicted_step_ms for a in advice]
    assert None not in steps[:-1]
    assert steps == [*sorted(one for one in steps if one is not None), None]
    batch = advice[-1]
    assert (batch.remedy, batch.predicted_step_ms) == ("larger_batch", None)
    more = batch.as_much_work
    assert more is not None
    assert more.low_ms is not None
    assert more.low_ms < more.time_ms < (report.summary.step_ms or 0.0) / 4
    assert "for the same work, " in gains.prediction(report, batch)


def test_a_stopwatch_agrees_with_a_batch_thirty_two_times_as_large() -> None:
    replay = measured(ta.load(*ranks("kineto/vit_small_batch.base"))).critical.replay
    assert replay is not None
    found = replace(ENLARGED, change=lambda tape: enlarged(tape, 32))
    assert replay.step_under_ms(found) == pytest.approx(
        CASES["kineto/vit_small_batch.fix"]["step_ms_unprofiled"] / 32, rel=0.2
    )


@pytest.mark.parametrize(
    ("name", "told"), [("aten::linear", True), ("FSDP::pre_forward", False), ("aten::add", None)]
)
def test_a_program_that_shards_or_has_no_batch_is_told_of_none(
    name: str, told: bool | None
) -> None:
    kernel = ADD if told is None else GEMM

    def step(p: Program) -> None:
        for _ in range(LAYERS):
            within(p, name, lambda p: p.spend(45).launch(kernel, 4))

    assert (larger_batch.offer(program(step)) is not None) is bool(told)


def test_activations_that_are_calculated_twice_leave_no_room_for_a_larger_batch() -> None:
    def step(p: Program) -> None:
        small(p)
        within(
            p,
            "autograd::engine::evaluate_function: CheckpointFunctionBackward",
            lambda p: within(
                within(p, "aten::addmm", lambda p: p.spend(45).launch(GEMM, 4)),
                "aten::mm",
                _backward,
            ),
        )

    assert larger_batch.offer(program(step)) is None


def _backward(p: Program) -> None:
    p.spend(45).launch(GEMM, 4)


def test_layouts_go_with_their_calls_and_the_operator_stays() -> None:
    def convolutions(layout_us: int, product_us: int) -> Measurements:
        def convolve(p: Program) -> None:
            p.spend(60).launch(NHWC, layout_us)
            p.launch("sm90_xmma_fprop_implicit_gemm_bf16_convolution", product_us)

        def step(p: Program) -> None:
            for _ in range(LAYERS):
                shapes = "[[16, 64, 56, 56], [64, 64, 3, 3]]"
                within(p, "aten::cudnn_convolution", convolve, shapes=shapes)

        return program(step)

    busy = convolutions(100, 400)
    tape = make_tape(busy.rated)
    changed = step_us(busy, "channels_last")
    assert tape is not None
    assert changed is not None
    assert LAYERS * 400 < changed < step_time_ns(tape) / 1e3
    # where launches are what takes the time, other layouts bring nothing
    assert step_us(convolutions(2, 4), "channels_last") is None
    # nor where the GPU is hardly slower than the host, which may be slower without the profiler
    assert step_us(convolutions(12, 34), "channels_last") is None


def test_a_capture_that_gains_nothing_with_a_fast_host_is_not_advised() -> None:
    """A stopwatch says 0.88 ms for the program, which is its GPU's own time."""
    m = measured(ta.load(*ranks("kineto/python_between_ops.fix"))).critical
    assert "cuda_graph" not in {one.remedy.id for one in advise(m)}
    assert "cuda_graph" in {
        one.remedy.id
        for one in advise(measured(ta.load(*ranks("kineto/tiny_mlp_infer.base"))).critical)
    }


def test_what_a_compiler_left_is_not_to_be_made_cheaper() -> None:
    advice = ta.analyze(PAIRS / "fuse_large.without.json.gz").recommendations
    assert [a.remedy for a in advice] == []


def test_a_bound_that_allows_little_is_no_recommendation() -> None:
    report = ta.analyze(ta.load(*ranks("ranks2/ddp_accum_sync.base")))
    (copies,) = [f for f in report.findings if f.id == "device-copies"]
    assert copies.headroom_ms is not None
    assert copies.headroom_ms > 0.02 * (report.summary.step_ms or 0.0)
    assert "device-copies" not in {a.id for a in report.recommendations}


REDUCTION = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def reduced(p: Program, *, forward: bool) -> None:
    for _ in range(LAYERS):
        within(p, "aten::linear", lambda p: p.spend(45).launch(GEMM, 30))
        if forward:
            within(p, "c10d::allreduce_", lambda p: p.spend(20).launch(REDUCTION, 10))
    for _ in range(LAYERS):
        within(
            p,
            "autograd::engine::evaluate_function: AccumulateGrad",
            lambda p: p.spend(20).launch(REDUCTION, 10),
        )


@pytest.mark.parametrize("forward", [False, True])
def test_gradients_that_own_hooks_reduce_are_no_part_of_a_graph(*, forward: bool) -> None:
    """A model that is spread over GPUs reduces in its forward pass, too: these are no gradients."""
    m = program(partial(reduced, forward=forward))
    assert reduced_by_hooks(m) is not forward
    assert (cuda_graph.offer(m) is None) is not forward
