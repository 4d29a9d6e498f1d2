"""Where advice falls silent: PyTorch's own pauses, layouts that nobody can choose, kernels that
nothing is known of."""

from __future__ import annotations

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.analysis.causes.test_gaps import Program
from tests.analysis.collectives import Ranked
from tests.diagnosis.test_remedies import ADD, GEMM, program, step_us, within
from traceanalyzer.analysis.tables.timing import UnprofiledTime
from traceanalyzer.diagnosis.finding import same_for_all
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies import advice
from traceanalyzer.diagnosis.remedies.kernels import channels_last
from traceanalyzer.diagnosis.remedies.launches import compile_model
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.replay.changes.communication.collectives import gathered_again
from traceanalyzer.replay.changes.fusion import find_runs
from traceanalyzer.replay.host_speed import _mean_between
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.whatif import Replay

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(("pauses", "us", "own"), [(2, 200, False), (2, 500, True), (6, 200, True)])
def test_a_few_short_pauses_are_not_the_programs_own_work(pauses: int, us: int, own: bool) -> None:
    def step(p: Program) -> None:
        for _ in range(pauses):
            p.spend(us).launch(GEMM, 10)
            within(p, "aten::add", lambda p: p.launch(ADD, 10))

    found = step_us(program(step), "move_host_work")
    assert (found is not None) == own
    assert found is None or found < 40 * pauses


def test_autograds_pauses_are_its_own() -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 10)
        within(
            p,
            "autograd::engine::evaluate_function: MmBackward0",
            lambda p: p.spend(600).launch(GEMM, 10),
        )

    assert step_us(program(step), "move_host_work") is None


@pytest.mark.parametrize(
    ("shape", "action"),
    [
        ("[[16, 64, 56, 56], [64, 64, 3, 3]]", "torch.channels_last)"),
        ("[[16, 64, 8, 56, 56], [64, 64, 3, 3, 3]]", "torch.channels_last_3d)"),
        ("[[16, 80, 300], [256, 80, 5]]", None),
        ("[[16, 80, 1, 300], [256, 80, 1, 5]]", None),
    ],
)
def test_channels_last_is_for_planes_and_space(shape: str, action: str | None) -> None:
    def convolve(p: Program) -> None:
        p.launch(LAYOUT, 100).launch(CONVOLUTION, 100)

    m = program(lambda p: within(p, "aten::cudnn_convolution", convolve, shapes=shape))
    tape = make_tape(m.rated)
    offer = channels_last.offer(m)
    assert tape is not None
    assert offer is not None
    changed = offer.scenario.change(tape)
    assert (changed is not None) == (action is not None)
    assert action is None or action in offer.action.pytorch


def test_kernels_of_a_graph_are_not_merged() -> None:
    def chain(p: Program, call: str) -> None:
        for _ in range(4):
            p.launch(ADD, 50, call)

    for call, runs in (("cudaLaunchKernel", 6), ("cudaGraphLaunch", 0)):
        tape = make_tape(program(lambda p, call=call: chain(p, call)).rated)  # type: ignore[misc]
        assert tape is not None
        assert len(find_runs(tape, ("elementwise",)).first) == runs


def test_a_cautious_reading_that_saves_nothing_is_no_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half(tape):  # type: ignore[no-untyped-def]
        return tape.retimed(tape.duration * 0.5)

    for cautious, told in ((None, 1), (lambda tape: tape, 0)):
        m = program(lambda p: p.launch(GEMM, 400).launch(GEMM, 400))
        scenario = Scenario("half", half, "half of it", pessimistic=cautious)
        remedy = Remedy(
            "tf32",
            "compute",
            "fp32-matmul",
            lambda _m, scenario=scenario: Offer(same_for_all("do"), scenario),
        )  # type: ignore[misc]
        monkeypatch.setattr(advice, "REMEDIES", (remedy,))
        assert len(advice.advise(m)) == told


def test_a_host_that_the_gpu_hides_is_likely_faster_than_the_slowest_that_fits() -> None:
    """Any share of the dispatch up to that of a step as long as the GPU's work fits the
    stopwatch."""

    def step(p: Program) -> None:
        for _ in range(20):
            p.spend(70).launch(GEMM, 48)

    # 1.5 ms of dispatch are 0.96 ms at the usual share, as long as the GPU's work of 0.98 ms.
    m = program(step)
    replay = Replay.of(m.rated, UnprofiledTime(1.0, 0.99, 1.01))
    assert replay is not None
    recorded = make_tape(m.rated)
    left = replay.typical[0]
    assert recorded is not None
    assert 0.45 < left.dispatch.sum() / recorded.dispatch.sum() < 0.62


@pytest.mark.parametrize(
    ("low", "high", "mean"),
    [(0.3, 1.0, 0.651), (0.3, 0.65, 0.556), (0.7, 0.7, 0.7), (5.0, 6.0, 5.0)],
)
def test_mean_of_a_part_of_a_distribution(low: float, high: float, mean: float) -> None:
    assert _mean_between(0.65, 0.122, low, high) == pytest.approx(mean, abs=0.003)


def test_layers_that_are_alike_and_gathered_once_are_not_gathered_again() -> None:
    """Two equal messages in the forward pass are two layers; in the backward pass they are gathered
    a second time."""
    for again in (False, True):
        b = Ranked()
        for i in range(4):
            t = i * 1000.0
            for at in (t, t + 100):
                b.collective(at + 10, at + 50, at, name="_allgather_base", kernel=GATHER)
            if again:
                b.op("autograd::engine::evaluate_function: MmBackward0", t + 290, t + 490)
                b.collective(t + 310, t + 350, t + 300, name="_allgather_base", kernel=GATHER)
            b.launched(GEMM, t + 600, t + 700, t + 500)
            b.annotation(f"ProfilerStep#{i}", t, t + 1000)
        tape = make_tape(measure(b.trace()).rated)
        assert tape is not None
        assert gathered_again(tape).sum() == (tape.steps if again else 0)


def test_kernels_near_their_limits_are_left_alone() -> None:
    report = ta.analyze(SAMPLES / "compute_bound")
    assert "gpu-busy" in {finding.id for finding in report.findings}
    assert report.recommendations == []


@pytest.mark.parametrize(
    "wrapper", ["", "DistributedDataParallel.forward", "FSDP::pre_forward (0)"]
)
def test_compiling_is_not_promised_under_what_cuts_compiled_code(wrapper: str) -> None:
    def step(p: Program) -> None:
        for _ in range(10):
            p.spend(20).launch(GEMM, 30)
            for _ in range(6):
                p.spend(20).launch(ADD, 2)

    def wrapped(p: Program) -> None:
        if wrapper:
            within(p, wrapper, step)
        else:
            step(p)

    m = program(wrapped)
    assert (compile_model.offer(m) is None) == bool(wrapper)
