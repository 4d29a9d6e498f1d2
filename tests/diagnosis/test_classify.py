from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analysis.causes.test_gaps import Program
from traceanalyzer.diagnosis.classify import classify
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.shares import step_shares
from traceanalyzer.trace import DeviceOpKind, Health

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.finding import Summary

GEMM = "ampere_bf16_s16816gemm_bf16_128x64"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Steps(Program):
    """Five profiler steps of the same program."""

    def __init__(self, step: object) -> None:
        super().__init__()
        for i in range(5):
            start = self.now
            step(self)
            self.annotation(f"ProfilerStep#{i}", start, self.now)


def verdict(step: object, **fields: object) -> Summary:
    return classify(measure(Steps(step).build(**fields)))


def compute(p: Program) -> None:
    p.launch(GEMM, 900).launch(ADD, 90)


def memory(p: Program) -> None:
    p.launch(GEMM, 90).launch(ADD, 900)


def communication(p: Program) -> None:
    p.launch(GEMM, 100).launch(NCCL, 900)


def transfer(p: Program) -> None:
    p.launch("Memcpy HtoD (Pinned -> Device)", 900, "cudaMemcpyAsync", DeviceOpKind.MEMCPY).launch(
        GEMM, 100
    )


def launch(p: Program) -> None:
    for _ in range(30):
        p.spend(40).launch(ADD, 3)


def sync(p: Program) -> None:
    for _ in range(10):
        p.spend(15).launch(ADD, 12).sync()


def loading(p: Program) -> None:
    p.within("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 5000).launch(
        GEMM, 200
    )


def host(p: Program) -> None:
    p.launch(GEMM, 50).spend(900).launch(GEMM, 50).spend(900)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (compute, "compute"),
        (memory, "memory"),
        (communication, "communication"),
        (transfer, "transfer"),
        (launch, "launch"),
        (sync, "sync"),
        (loading, "input"),
        (host, "host"),
    ],
)
def test_each_class_is_named_from_its_own_evidence(step: object, expected: str) -> None:
    summary = verdict(step)
    assert summary.bottleneck == expected
    assert 0.5 < summary.confidence <= 0.95
    assert summary.headline.startswith(f"{expected.capitalize()}-bound: ")


def test_the_shares_are_a_partition() -> None:
    m = measure(Steps(loading).build())
    shares = step_shares(m)
    assert shares is not None
    assert sum(vars(shares).values()) == pytest.approx(1)


def test_no_gpu_work_is_inconclusive() -> None:
    program = Program()
    program.op("aten::mm", 0, 100)
    summary = classify(measure(program.build()))
    assert (summary.bottleneck, summary.confidence) == ("inconclusive", 0.0)
    assert "no GPU work" in summary.headline


def test_two_stray_kernels_are_inconclusive() -> None:
    program = Program().launch().spend(5000).launch()
    assert classify(measure(program.build())).bottleneck == "inconclusive"


def test_idle_time_without_a_known_cause_is_inconclusive() -> None:
    program = Program()
    for i in range(50):
        program.kernel(f"k{i}", i * 1000, i * 1000 + 5)
    summary = classify(measure(program.build()))
    assert summary.bottleneck == "inconclusive"
    assert "does not show" in summary.headline


def test_balanced_parts_and_damage_lower_the_confidence() -> None:
    def balanced(p: Program) -> None:
        p.launch(GEMM, 500).launch(NCCL, 450)

    clear = verdict(compute).confidence
    close = verdict(balanced).confidence
    assert close < 0.6 < clear
    assert verdict(compute, health=Health(events=100, lost=50)).confidence < clear


def test_a_verdict_on_few_steps_is_less_sure() -> None:
    one = Program()
    compute(one)
    one.annotation("ProfilerStep#0", 0, one.now)
    for _ in range(10):
        one.launch(GEMM, 900)
    assert classify(measure(one.build())).confidence < verdict(compute).confidence
