from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.collectives import GEMM, Ranked
from tests.recorded import recording
from traceanalyzer.analysis.names.phase_names import Role, role_of
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def measured(name: str) -> Measurements:
    return measure(load([recording(name)]).traces[0])


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("forward", Role.FORWARD),
        ("## backward ##", Role.BACKWARD),
        ("DistributedDataParallel.forward", Role.FORWARD),
        ("Optimizer.step#AdamW.step", Role.OPTIMIZER),
        ("optimizer-inner-step", Role.OPTIMIZER),
        ("forward-backward", Role.NONE),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Role.DATA),
        ("save_checkpoint", Role.CHECKPOINT),
        ("CheckpointWrapper", Role.NONE),
        ("activation_checkpointing", Role.NONE),
        ("log_metrics", Role.LOGGING),
        ("logits", Role.NONE),
        ("blocks", Role.NONE),
    ],
)
def test_a_name_says_what_a_phase_is_for(name: str, role: Role) -> None:
    assert role_of(name) == role


def step(builder: Ranked, at: float) -> None:
    """Forward, a wait, backward, a reduction that outlasts it, optimizer."""
    builder.annotation(f"ProfilerStep#{at:.0f}", at, at + 1000)
    builder.annotation("forward", at + 10, at + 100).launched(GEMM, at + 50, at + 150, at + 20)
    builder.call("cudaStreamSynchronize", at + 60, at + 90)
    builder.annotation("backward", at + 110, at + 200).launched(GEMM, at + 150, at + 250, at + 120)
    builder.launched(REDUCE, at + 200, at + 400, at + 130)
    builder.launched(GEMM, at + 250, at + 300, at + 140)
    builder.annotation("optimizer", at + 210, at + 300).launched(
        "multi_tensor", at + 400, at + 450, at + 220
    )


def training(steps: int = 3) -> Measurements:
    builder = Ranked()
    for i in range(steps):
        step(builder, 1000.0 * i)
    return measure(builder.trace())


def test_the_step_by_what_its_work_is_for() -> None:
    m = training()
    times = m.phase_times
    assert times is not None
    assert times.forward
    assert times.backward
    assert times.optimizer
    assert (times.forward.device_ms, times.backward.device_ms) == pytest.approx((0.1, 0.25))
    assert (times.optimizer.device_ms, times.optimizer.host_ms) == pytest.approx((0.05, 0.09))
    assert (times.forward.waits, times.backward.waits) == (1.0, 0.0)
    assert times.data is times.logging is times.checkpoint is None


def test_waits_are_told_by_phase() -> None:
    (row,) = training().syncs
    assert (row.phase, row.calls) == ("forward", 1.0)


def test_a_wait_outside_of_all_phases_is_told_by_those_around_it() -> None:
    builder = Ranked()
    for i in range(3):
        step(builder, 1000.0 * i)
        builder.call("cudaStreamSynchronize", 1000.0 * i + 204, 1000.0 * i + 206)
    assert {row.phase for row in measure(builder.trace()).syncs} == {
        "forward",
        "between backward and optimizer",
    }


def test_exposed_communication_is_split_into_tail_and_the_rest() -> None:
    time = training().communication
    assert time is not None
    assert (time.exposed_ms, time.tail_ms, time.between_ms) == pytest.approx((0.1, 0.1, 0.0))


def test_without_a_backward_pass_there_is_no_tail() -> None:
    time = measure(
        Ranked().launched(GEMM, 0, 9, 0).launched(REDUCE, 9, 20, 1).trace()
    ).communication
    assert time is not None
    assert time.exposed_ms > 0
    assert time.tail_ms is time.between_ms is None


def test_the_tail_by_looking_at_every_nanosecond_stretch() -> None:
    m = measured("ranks2/ddp_accum_sync.base.rank0")
    ops = m.trace.device_ops
    roles = m.phases.of_op
    device = m.timed.device
    compute = [
        (int(ops.start[i]), int(ops.end[i]), int(roles[i]))
        for i in range(len(ops))
        if m.linked.is_compute[i] and ops.device[i] == device
    ]
    window = int(m.timed.steps.start[m.timed.steps.warmup]), int(m.timed.steps.end[-1])
    tail = 0
    exposed = m.timed.activity[device].exposed_communication
    for start, end in zip(exposed.start.tolist(), exposed.end.tolist(), strict=True):
        before = [
            c
            for c in compute
            if c[0] <= start and c[2] in (Role.FORWARD, Role.BACKWARD, Role.OPTIMIZER)
        ]
        after = [
            c
            for c in compute
            if c[0] > start and c[2] in (Role.FORWARD, Role.BACKWARD, Role.OPTIMIZER)
        ]
        behind = (
            bool(before)
            and before[-1][2] == Role.BACKWARD
            and not (after and after[0][2] == Role.BACKWARD)
        )
        tail += max(min(end, window[1]) - max(start, window[0]), 0) if behind else 0
    time = m.communication
    assert time is not None
    assert time.tail_ms is not None
    assert time.between_ms is not None
    assert time.tail_ms == pytest.approx(tail / 1e6 / m.timed.steps.steady_count, rel=1e-9)
    assert time.tail_ms + time.between_ms == pytest.approx(time.exposed_ms)
    assert time.tail_ms == pytest.approx(9.44, abs=0.01)


def test_roles_by_annotation_and_by_autograd_agree() -> None:
    m = measured("kineto/gpt_large_batch.base")
    times = m.phase_times
    assert times is not None
    assert times.forward
    assert times.backward
    assert times.optimizer
    rows = {row.name: row for row in m.phase_rows}
    for name in ("forward", "backward", "optimizer"):
        assert getattr(times, name).device_ms == pytest.approx(rows[name].device_ms, rel=1e-3)


def autograd_loop() -> TraceBuilder:
    """Two steps of one operator, its backward node and an optimizer; gradients are read before the
    optimizer."""
    builder = Ranked()
    for i in range(2):
        at = 1000.0 * i
        builder.annotation(f"ProfilerStep#{i}", at, at + 1000)
        builder.op("aten::linear", at + 10, at + 30, sequence=5 + i).launched(
            GEMM, at + 40, at + 60, at + 20
        )
        builder.op(
            "autograd::engine::evaluate_function: AddmmBackward0", at + 60, at + 90, thread=1
        )
        builder.op("AddmmBackward0", at + 61, at + 89, thread=1, sequence=5 + i, forward_thread=1)
        builder.launched(GEMM, at + 80, at + 120, at + 70, thread=1)
        builder.op("aten::item", at + 100, at + 130, sequence=6 + i).call(
            "cudaStreamSynchronize", at + 105, at + 125
        )
        builder.annotation("Optimizer.step#SGD.step", at + 140, at + 170).launched(
            "add", at + 150, at + 160, at + 145
        )
    return builder


def test_what_reads_gradients_is_not_part_of_the_next_forward_pass() -> None:
    m = measure(autograd_loop().trace())
    times = m.phase_times
    assert times is not None
    assert times.forward is not None
    assert times.forward.waits == 0.0
    assert {row.phase for row in m.syncs} == {"between backward and optimizer"}


def test_what_comes_between_an_update_and_zero_grad_is_not_the_optimizer() -> None:
    builder = autograd_loop()
    for at in (1140.0 + 60, 2140.0 + 60):
        builder.annotation("Optimizer.zero_grad#SGD.zero_grad", at, at + 5)
        builder.op("aten::to", at - 20, at - 10).call("cudaStreamSynchronize", at - 18, at - 12)
    found = {row.phase for row in measure(builder.trace()).syncs}
    assert "between optimizer ranges" in found
    assert "optimizer" not in found


def test_training_its_micro_steps_and_its_optimizer() -> None:
    program = measured("ranks2/ddp_accum_sync.base.rank0").program
    assert program is not None
    assert (program.mode, program.micro_steps, program.optimizer_steps) == ("training", 4.0, 1.0)
    assert program.skipped_optimizer_steps is None


def test_inference_has_no_backward_pass() -> None:
    program = measured("kineto/tiny_mlp_infer.base").program
    assert program is not None
    assert program.mode == "inference"


def test_kernels_alone_do_not_tell_inference() -> None:
    assert measure(Ranked().launched(GEMM, 0, 10, 0).trace()).program is None


def test_steps_that_a_grad_scaler_skipped_are_counted() -> None:
    builder = Ranked()
    for i in range(4):
        at = 1000.0 * i
        builder.annotation(f"ProfilerStep#{i}", at, at + 1000).launched(
            GEMM, at + 100, at + 200, at + 50
        )
        builder.op("aten::_amp_foreach_non_finite_check_and_unscale_", at + 300, at + 310)
        if i != 2:
            builder.annotation("Optimizer.step#Adam.step", at + 320, at + 400)
    program = measure(builder.trace()).program
    assert program is not None
    assert (program.skipped_optimizer_steps, program.optimizer_steps) == (1, 0.75)


def test_sends_and_receives_that_nothing_hides() -> None:
    builder = Ranked().launched(GEMM, 0, 100, 0)
    builder.collective(50, 160, 20, name="recv", kernel="ncclDevKernel_SendRecv", stream=9)
    builder.launched(GEMM, 160, 200, 30)
    time = measure(builder.trace()).communication
    assert time is not None
    assert time.send_recv_ms == pytest.approx(0.06)


def test_kernels_of_sends_that_may_be_an_all_to_all_are_no_pipeline() -> None:
    builder = Ranked().launched(GEMM, 0, 100, 0).launched("ncclDevKernel_SendRecv", 100, 160, 20)
    time = measure(builder.trace()).communication
    assert time is not None
    assert time.send_recv_ms is None
