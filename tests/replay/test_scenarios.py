from __future__ import annotations

import re
from importlib.resources import files

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.causes.test_gaps import Program
from tests.analysis.collectives import GEMM, Ranked
from tests.analysis.roofline.test_roofline import context, mm
from tests.replay.test_replay import NCCL, gpu_bound, host_bound, steps
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.replay.changes.communication.buckets import MB, BucketSize, fit_cost, rebucketed
from traceanalyzer.replay.changes.fusion import LEAST_KERNEL_NS
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.scenario import (
    Scenario,
    buckets_of,
    combined,
    faster,
)
from traceanalyzer.replay.scenarios import (
    AT_ROOFLINE,
    BUCKETS_DOUBLED,
    BUCKETS_HALVED,
    COMMUNICATION_FREE,
    COMMUNICATION_OVERLAPPED,
    FOREACH_OPTIMIZER,
    FUSED_ELEMENTWISE,
    FUSED_OPTIMIZER,
    NO_HOST_SYNCS,
    SCENARIOS,
)
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.report.explain import explained
from traceanalyzer.trace import RangeKind

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
SGEMM = "ampere_bf16_s16816gemm_bf16_128x64"
LIST_OP = "void at::native::multi_tensor_apply_kernel<BinaryOpListAlphaFunctor>"


def replayed(ctx: Measurements, scenario: Scenario | None = None) -> float:
    """Step time in us, with the profiler's cost left in."""
    tape = make_tape(ctx.rated)
    assert tape is not None
    changed = scenario.change(tape) if scenario else tape
    assert changed is not None
    return step_time_ns(changed) / 1e3


def unknown(ctx: Measurements, scenario: Scenario) -> bool:
    tape = make_tape(ctx.rated)
    assert tape is not None
    return scenario.change(tape) is None


def chain(p: Program) -> None:
    """Six short elementwise kernels between two products, bound by the host: 40 + 4 us a launch."""
    p.spend(40).launch(GEMM, 20)
    for us in (2, 3, 2, 2, 2, 2):
        p.spend(40).launch(ADD, us)
    p.spend(40).launch(GEMM, 20)


def test_a_run_of_elementwise_kernels_is_one_launch_of_a_compiled_function() -> None:
    """Its call takes as long as four launches, and no longer than those of the run."""

    def pair(p: Program) -> None:
        p.spend(40).launch(GEMM, 20).spend(40).launch(ADD, 2).spend(40).launch(ADD, 2)

    assert replayed(steps(chain)) == pytest.approx(8 * 44, rel=0.02)
    assert replayed(steps(chain), FUSED_ELEMENTWISE) == pytest.approx((2 + 4) * 44, rel=0.03)
    assert replayed(steps(pair), FUSED_ELEMENTWISE) == pytest.approx(3 * 44, rel=0.03)


def test_a_run_whose_traffic_is_not_known_takes_as_long_as_its_longest_kernel() -> None:
    def heavy(p: Program) -> None:
        p.launch(GEMM, 20)
        for us in (100, 300, 200):
            p.launch(ADD, us)

    ctx = steps(heavy)
    assert replayed(ctx, FUSED_ELEMENTWISE) == pytest.approx(20 + 300 + 2, rel=0.02)
    assert FUSED_ELEMENTWISE.pessimistic is not None
    tape = make_tape(ctx.rated)
    assert tape is not None
    pessimistic = FUSED_ELEMENTWISE.pessimistic(tape)
    assert pessimistic is not None
    assert step_time_ns(pessimistic) / 1e3 == pytest.approx(20 + 300 + 2, rel=0.02)


def test_a_wait_or_another_kernel_ends_a_run() -> None:
    def broken(p: Program) -> None:
        p.launch(ADD, 20).launch(GEMM, 20).launch(ADD, 20).sync().launch(ADD, 20).launch(GEMM, 20)

    assert unknown(steps(broken), FUSED_ELEMENTWISE)
    assert unknown(steps(gpu_bound), FUSED_ELEMENTWISE)


def adam(kernel: str, count: int) -> object:
    """A product, then an AdamW with four passes of so many launches each, 40 + 4 us apart, 2 us on
    the device."""

    def step(p: Program) -> None:
        p.spend(40).launch(GEMM, 20)
        begin = p.now
        for name in ("mul", "lerp", "sqrt", "div"):
            for _ in range(count):
                p.spend(40).launch(f"{kernel} {name}", 2)
        p.annotation("Optimizer.step#AdamW.step", begin, p.now)

    return step


def test_an_optimizer_on_lists_is_fused_into_one_pass() -> None:
    ctx = steps(adam(LIST_OP, 2))
    assert replayed(ctx) == pytest.approx(9 * 44, rel=0.02)
    assert replayed(ctx, FUSED_OPTIMIZER) == pytest.approx(3 * 44, rel=0.05)
    assert unknown(ctx, FOREACH_OPTIMIZER)


def test_an_optimizer_that_goes_from_tensor_to_tensor() -> None:
    ctx = steps(adam(ADD, 40))
    assert replayed(ctx, FOREACH_OPTIMIZER) == pytest.approx((1 + 4 * 2) * 44, rel=0.05)
    assert replayed(ctx, FUSED_OPTIMIZER) == pytest.approx((1 + 2) * 44, rel=0.05)


def test_an_optimizer_that_is_fused_already_or_not_there() -> None:
    assert unknown(
        steps(adam("multi_tensor_apply_kernel FusedAdamMathFunctor", 1)), FUSED_OPTIMIZER
    )
    assert unknown(steps(host_bound), FUSED_OPTIMIZER)


def test_a_named_operator_kernel_annotation_or_python_function_is_faster() -> None:
    def step(p: Program) -> None:
        begin = p.now
        p.launch("first", 200)
        p.op("aten::mm", begin, p.now)
        begin = p.now
        p.launch("second", 300)
        p.annotation("block", begin, p.now).python("model.py(3): forward", begin, p.now)

    ctx = steps(step)
    assert replayed(ctx) == pytest.approx(502, rel=0.01)
    assert replayed(ctx, faster("aten::mm", 2)) == pytest.approx(402, rel=0.01)
    for name in ("^second$", "block", r"model\.py.*forward"):
        assert replayed(ctx, faster(name, 3)) == pytest.approx(302, rel=0.01)
    assert unknown(ctx, faster("nothing of this name", 2))


def test_a_faster_module_is_so_in_the_backward_pass_too() -> None:
    def step(p: Program) -> None:
        begin = p.now
        p.launch("forward", 100)
        p.op("aten::linear", begin, p.now, sequence=7).python("nn.Module: Linear_0", begin, p.now)
        begin = p.now
        p.launch("backward", 200)
        p.op(
            "autograd::engine::evaluate_function: AddmmBackward0",
            begin,
            p.now,
            sequence=7,
            forward_thread=1,
        )

    ctx = steps(step, 1)
    assert int((ctx.trace.host_ranges.kind == RangeKind.PYTHON).sum()) == 1
    assert replayed(ctx, faster("Linear_0", 2)) == pytest.approx(replayed(ctx) - 150, rel=0.01)


def test_slower_is_a_factor_under_one() -> None:
    replay = Replay.of(steps(gpu_bound).rated)
    assert replay is not None
    prediction = replay.predict(faster("gemm", 0.5))
    assert prediction.speedup == pytest.approx(0.5, rel=0.01)


def test_without_known_work_there_is_no_roofline() -> None:
    assert unknown(steps(gpu_bound), AT_ROOFLINE)


def bucketed(sizes_mb: list[float], count: int = 6) -> Measurements:
    """Steps whose products (200 us each) are followed by an all-reduce beside the compute: 20 us
    and 10 us a MB."""
    b = Ranked()
    now = free = 0.0
    for step in range(count):
        begun = now
        now = free
        communicated = free
        for size in sizes_mb:
            start = max(now + 6, free + 1)
            b.launched(GEMM, start, start + 200, now)
            free = start + 200
            now += 5
            begin = max(free, communicated) + 2
            communicated = begin + 20 + 10 * size
            b.collective(begin, communicated, now, elements=int(size * MB / 4), stream=9)
            now += 5
        start = communicated + 3
        b.launched(GEMM, start, start + 10, now)
        free = start + 10
        now += 5
        b.call("cudaStreamSynchronize", now, free + 2)
        now = free + 2
        b.annotation(f"ProfilerStep#{step}", begun, now)
    return measure(b.trace(0, 2))


def test_the_cost_of_a_collective_is_fitted_to_those_recorded() -> None:
    size = np.array([-1, 10, 20, 40, 40]) * MB
    cost = fit_cost(size, (20 + 10 * size / MB) * 1e3)
    assert cost is not None
    assert cost.latency_ns == pytest.approx(20_000, rel=0.01)
    assert cost.ns_per_byte * MB == pytest.approx(10_000, rel=0.01)
    assert fit_cost(np.array([10, 10]), np.array([5, 6])) is None
    assert fit_cost(np.array([10, 15]), np.array([5, 6])) is None
    assert fit_cost(np.array([-1]), np.array([5])) is None


def test_buckets_of_another_size() -> None:
    """The last bucket is exposed: half of it hides behind the compute, twice as much does not."""
    ctx = bucketed([8, 8, 8, 4])
    base = replayed(ctx)
    assert base == pytest.approx(float(np.median(ctx.timed.steps.duration)) / 1e3, rel=0.01)
    # Everything in one message: nothing hides, but three latencies are saved.
    everything = replayed(ctx, buckets_of(1000))
    assert everything == pytest.approx(4 * 201 + 20 + 280 + 13, rel=0.03)
    assert replayed(ctx, BUCKETS_HALVED) <= base
    assert base < replayed(ctx, BUCKETS_DOUBLED) < everything


def test_buckets_of_one_size_tell_nothing_about_smaller_ones() -> None:
    assert unknown(bucketed([8, 8, 8]), BUCKETS_HALVED)
    assert unknown(steps(gpu_bound), BUCKETS_DOUBLED)


def test_larger_buckets_of_one_size_go_at_the_recorded_rate_and_are_launched_less_often() -> None:
    tape = make_tape(bucketed([8] * 8).rated)
    assert tape is not None
    wanted = rebucketed(BucketSize(bytes=32 * MB))
    found = wanted(tape)
    assert found is not None
    assert found.duration[found.communication].sum() == pytest.approx(
        tape.duration[tape.communication].sum(), rel=0.01
    )
    launching = tape.event[tape.communication]
    # a call of a reduction takes 4 us, one before its launch and three after, and three of four
    # calls are gone
    spared_us = (tape.dispatch.sum() - found.dispatch.sum()) / 1e3
    assert spared_us == pytest.approx(4 * 3 / 4 * len(launching), rel=0.05)
    others = np.setdiff1d(np.arange(len(tape.dispatch)), np.append(launching, launching + 1))
    assert (found.dispatch[others] == tape.dispatch[others]).all()
    assert rebucketed(BucketSize(bytes=4 * MB))(tape) is None


def test_overlapped_communication_is_not_free() -> None:
    """Its own time still bounds the step."""

    def step(p: Program) -> None:
        p.launch(GEMM, 100).launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 300)

    ctx = steps(step)
    assert replayed(ctx, COMMUNICATION_FREE) == pytest.approx(101, rel=0.02)
    assert replayed(ctx, COMMUNICATION_OVERLAPPED) == pytest.approx(301, rel=0.02)


def test_the_best_are_combined_and_every_scenario_says_what_it_assumes() -> None:
    def both(p: Program) -> None:
        for _ in range(4):
            p.spend(80).launch(GEMM, 20).sync()
        p.spend(400)

    replay = Replay.of(steps(both).rated)
    assert replay is not None
    found = replay.what_if()
    known = [p for p in found.scenarios if p.step_ms is not None]
    assert found.scenarios[: len(known)] == sorted(known, key=lambda p: p.step_ms or 0)
    best = known[0]
    assert set(best.id.split("+")) == {"launches_free", "no_host_work"}
    assert all(
        p.low_ms <= p.step_ms <= p.high_ms for p in known if p.low_ms and p.step_ms and p.high_ms
    )
    assert all(p.basis for p in found.scenarios)
    assert {s.id for s in SCENARIOS} <= {p.id for p in found.scenarios}


def test_a_recording_that_ends_long_after_its_last_launch_keeps_its_last_step() -> None:
    """The recorder stops inside the last step's range, long after that step's launches."""
    program = Program()
    for i in range(4):
        start = program.now
        program.launch(GEMM, 300).launch(GEMM, 300)
        program.annotation(f"ProfilerStep#{i}", start, program.now + (5000 if i == 3 else 0))
    tape = make_tape(measure(program.build()).rated)
    assert tape is not None
    assert len(tape.row) == 8


def test_no_two_scenarios_combine_the_same() -> None:
    def waiting(p: Program) -> None:
        for _ in range(10):
            p.spend(60).launch(GEMM, 20).sync()

    replay = Replay.of(steps(waiting).rated)
    assert replay is not None
    together = [frozenset(prediction.id.split("+")) for prediction in replay.what_if().scenarios]
    assert {"no_host_syncs", "launches_free"} in together
    assert len(together) == len(set(together))


def test_compute_beside_a_collective_is_never_slower_without_it() -> None:
    """Of two products the one beside the collective took 100 us, the one without it 300: both stay
    as they are."""

    def step(p: Program) -> None:
        p.launch(GEMM, 300)
        p.call("cudaLaunchKernel", p.now, p.now + 4, 1000 + p.launched)
        begin = p.device_free + 1
        p.kernel(NCCL, begin, begin + 100, 1000 + p.launched, stream=9)
        p.spend(4).launch(GEMM, 100)

    tape = make_tape(steps(step).rated)
    assert tape is not None
    assert sorted({round(us) for us in (tape.alone[~tape.communication] / 1e3).tolist()}) == [
        100,
        300,
    ]


def test_compute_beside_a_collective_takes_what_its_like_takes_without_one() -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 100)
        p.call("cudaLaunchKernel", p.now, p.now + 4, 1000 + p.launched)
        begin = p.device_free + 1
        p.kernel(NCCL, begin, begin + 300, 1000 + p.launched, stream=9)
        p.spend(4).launch(GEMM, 300)

    tape = make_tape(steps(step).rated)
    assert tape is not None
    assert {round(us) for us in (tape.alone[~tape.communication] / 1e3).tolist()} == {100}


def test_no_kernel_is_faster_than_the_shortest_that_there_are() -> None:
    """A product of 8 x 8 needs a nanosecond by its work; one of 1,000 x 1,000 20 us of the 50 that
    it took."""
    b = TraceBuilder()
    for i in range(4):
        at = 200.0 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 200)
        mm(b, 8, (SGEMM, at + 20, at + 30, {"blocks": 1, "threads": 128}), at=at)
        mm(b, 1000, (SGEMM, at + 60, at + 110, {"blocks": 100, "threads": 128}), at=at + 40)
    ctx = context(b)
    tape = make_tape(ctx.rated)
    assert tape is not None
    changed = AT_ROOFLINE.change(tape)
    assert changed is not None
    attainable = ctx.rated.roofline.attainable[tape.row]
    assert attainable.min() < LEAST_KERNEL_NS < attainable.max()
    assert changed.duration.tolist() == np.maximum(attainable, LEAST_KERNEL_NS).astype(int).tolist()


def test_every_scenario_is_in_the_help_in_a_line_and_says_what_it_is() -> None:
    help_text = (files("traceanalyzer.cli") / "help" / "whatif.txt").read_text(encoding="utf-8")
    ideals, changes = help_text.split("Ideals:")[1].split("Changes that can be made:")
    for one in SCENARIOS:
        if not one.parts:
            section = ideals if one.kind == "ideal" else changes
            assert re.search(rf"^  {one.id} +[A-Z].*\.$", section, re.M), one.id
        (first, *_) = explained(one.id)
        assert ("an ideal that no change quite reaches" in first.meaning) == (one.kind == "ideal")
        for remedy in filter(None, one.nearest.split("+")):
            assert remedy in {known.id for known in REMEDIES}
    assert combined(NO_HOST_SYNCS, FUSED_ELEMENTWISE).kind == "ideal"
