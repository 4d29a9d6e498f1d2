"""Findings on causes with names of their own, each from a program of a few rows."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.causes.test_gaps import Program
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.finding import Diagnosis
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import CopyKind, DeviceOpKind, Trace

GEMM = "ampere_sgemm_128x64_tn"


def steps(call: str | None = None, us: float = 0, *, kernel: str = GEMM, count: int = 5) -> Program:
    """Steps of a call and ten kernels."""
    program = Program()
    for i in range(count):
        start = program.now
        if call is not None:
            program.call(call, program.now, program.now + us)
            program.spend(us)
        for _ in range(10):
            program.launch(kernel, 50)
        program.sync()
        program.annotation(f"ProfilerStep#{i}", start, program.now)
    return program


def diagnosed(program: TraceBuilder | Trace) -> Diagnosis:
    return diagnose(measure(program if isinstance(program, Trace) else program.build()))


@pytest.mark.parametrize(
    ("call", "finding", "word"),
    [
        ("cudaMalloc", "allocation", "allocat"),
        ("cuModuleLoadData", "first-use", "first use"),
        ("cudaGraphInstantiate", "graph-building", "CUDA graphs"),
    ],
)
def test_host_work_with_a_remedy_of_its_own_is_named(call: str, finding: str, word: str) -> None:
    said = diagnosed(steps(call, 5000))
    assert said.findings[0].id == finding
    assert said.findings[0].headroom_ms == pytest.approx(5, rel=0.1)
    assert "host-work" not in {one.id for one in said.findings}, "headroom is counted once"
    assert said.summary.bottleneck == "host"
    assert word in said.summary.headline
    advised = [one.id for one in said.recommendations]
    # what every step loads anew cannot be loaded before them
    assert advised[:1] == ([] if finding == "first-use" else [finding])


def test_kernels_nobody_knows_are_not_memory_bound() -> None:
    said = diagnosed(steps(kernel="mystery(int*)"))
    assert said.summary.bottleneck == "inconclusive"
    assert "ncu" in said.summary.headline
    (unknown,) = [one for one in said.findings if one.id == "unknown-kernels"]
    assert "mystery" in " ".join(evidence.where for evidence in unknown.evidence)


def test_a_few_unknown_kernels_do_not_hide_what_the_others_tell() -> None:
    program = steps()
    program.launch("mystery(int*)", 50)
    assert diagnosed(program).summary.bottleneck == "compute"


def test_copies_within_the_gpu_are_no_transfer() -> None:
    program = steps()
    for row in program.rows["op"]:
        row |= {
            "kind": DeviceOpKind.MEMCPY,
            "copy_kind": CopyKind.DEVICE_TO_DEVICE,
            "bytes": 1 << 20,
        }
    said = diagnosed(program)
    assert said.summary.bottleneck == "memory"
    assert {"device-copies"} <= {one.id for one in said.findings}
    assert "exposed-copies" not in {one.id for one in said.findings}


def test_calls_without_gpu_work_are_told_by_their_time() -> None:
    b = TraceBuilder()
    for i in range(20):
        b.call("cudaLaunchKernel", 100 * i, 100 * i + 5).call(
            "cudaEventSynchronize", 100 * i + 6, 100 * i + 96
        )
    said = diagnosed(b)
    assert "launches were recorded, but no GPU work" in said.summary.headline
    assert said.findings[0].id == "api-calls-only"
    assert said.findings[0].evidence[1].where.startswith("20 x cudaEventSynchronize")


def test_a_handful_of_ops_claims_nothing() -> None:
    program = Program().launch().spend(5000).launch()
    assert [one for one in diagnosed(program).findings if one.headroom_ms] == []
