"""Findings on the computation, each on a step made for it: what it claims, and that no time is
claimed twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import GEMM, TABLE, op
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.diagnose import allocate_headroom, diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.rules.device import (
    above_roofline,
    fp32_matmul,
    memory_chains,
    misaligned,
    optimizer_passes,
    small_products,
    wave_quantisation,
)
from traceanalyzer.diagnosis.rules.passes import (
    channels_last,
    layout_copies,
    repeated_casts,
    written_out_attention,
)
from traceanalyzer.trace import Device

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.draft import Draft

BF16 = "c10::BFloat16"
FP32 = "float"
ADD = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>"
SOFTMAX = "void softmax_warp_forward<float>"
FREE = np.ones(0, bool)
SGEMM = "ampere_sgemm_128x64_nn"


COMPUTATION = (
    optimizer_passes,
    written_out_attention,
    channels_last,
    memory_chains,
    fp32_matmul,
    small_products,
    misaligned,
    wave_quantisation,
    repeated_casts,
    layout_copies,
)
"""The rules on the computation, in their order."""


def measured(builder: TraceBuilder, name: str = "round") -> Measurements:
    return measure(builder.build(devices=(Device(0, name),)), Knowledge(hardware=TABLE))


def found(builder: TraceBuilder, name: str = "round") -> dict[str, Draft]:
    return {draft.id: draft for draft, _ in allocate_headroom(measured(builder, name), COMPUTATION)}


def figure(draft: Draft, metric: str) -> float:
    (value,) = [e.value for e in draft.evidence if e.metric == metric]
    assert isinstance(value, float)
    return value


def product(
    builder: TraceBuilder, at: float, shape: str, dtype: str, kernel: str, us: float, **columns: int
) -> None:
    """A matrix product of 1,000 us that starts at `at`."""
    op(
        builder,
        "aten::mm",
        at,
        f"[{shape}]",
        f'["{dtype}","{dtype}"]',
        (kernel, at + 20, at + 20 + us, columns),
    )


def test_fp32_products_at_the_rate_of_tf32() -> None:
    b = TraceBuilder()
    product(b, 0, "[1000,1000],[1000,1000]", FP32, SGEMM, 400)
    draft = found(b)["fp32-matmul"]
    assert figure(draft, "time in tf32") == pytest.approx(2e9 / (50e12 * 0.75) * 1e3)
    assert figure(draft, "time in bf16") == pytest.approx(2e9 / (100e12 * 0.75) * 1e3)
    assert draft.claim_ms == pytest.approx(0.4 - 2e9 / (50e12 * 0.75) * 1e3)
    assert draft.proposals[0].basis == "the products at 75% of the dense tf32 peak"


def test_fp32_products_on_an_unknown_gpu_are_told_without_a_gain() -> None:
    b = TraceBuilder()
    product(b, 0, "[1000,1000],[1000,1000]", FP32, SGEMM, 400)
    draft = found(b, "square")["fp32-matmul"]
    assert draft.claim_ms is None
    assert (
        draft.proposals[0].basis
        == "the gain depends on the GPU's tensor-core rate, which is not known"
    )


def test_fp32_products_of_unknown_sizes_did_at_most_what_the_ordinary_cores_can() -> None:
    b = TraceBuilder()
    op(b, "aten::mm", 0, "", "", (SGEMM, 20, 420, {"blocks": 100, "threads": 256}))
    draft = found(b)["fp32-matmul"]
    assert figure(draft, "time in tf32") == pytest.approx(0.4 * 10 / (50 * 0.75))
    assert draft.proposals[0].basis.endswith("the ordinary cores were at their peak before")


@pytest.mark.parametrize(
    ("kernel", "blocks"), [("gemv2T_kernel_val<int, int, __nv_bfloat16>", 100), (SGEMM, 1)]
)
def test_of_unknown_products_those_in_fp32_that_fill_the_gpu_are_told(
    kernel: str, blocks: int
) -> None:
    b = TraceBuilder()
    op(b, "aten::mm", 0, "", "", (kernel, 20, 420, {"blocks": blocks, "threads": 256}))
    assert "fp32-matmul" not in found(b)


@pytest.mark.parametrize(
    ("columns", "told"), [(1001, True), (1004, True), (1000, False), (1024, False)]
)
def test_sizes_that_are_not_multiples_of_16_bytes(columns: int, told: bool) -> None:
    b = TraceBuilder()
    product(b, 0, f"[1000,1000],[1000,{columns}]", BF16, GEMM, 100)
    assert ("misaligned-matmul" in found(b)) is told


@pytest.mark.parametrize(("rows", "told"), [(1001, False), (1000, False)])
def test_how_many_rows_a_product_has_plays_no_part(rows: int, told: bool) -> None:
    b = TraceBuilder()
    product(b, 0, f"[{rows},1000],[1000,1000]", BF16, GEMM, 100)
    assert ("misaligned-matmul" in found(b)) is told


def test_a_vector_is_no_odd_size() -> None:
    b = TraceBuilder()
    product(b, 0, "[1,4000],[4000,4000]", BF16, GEMM, 100)
    assert "misaligned-matmul" not in found(b)


def test_last_wave_mostly_empty() -> None:
    b = TraceBuilder()
    product(b, 0, "[1000,1000],[1000,1000]", BF16, GEMM, 60, blocks=22, threads=1024)
    draft = found(b)["wave-quantisation"]
    assert figure(draft, "waves") == pytest.approx(1.1)
    assert draft.claim_ms == pytest.approx(0.06 * (1 - 1.1 / 2))
    full = TraceBuilder()
    product(full, 0, "[1000,1000],[1000,1000]", BF16, GEMM, 60, blocks=40, threads=1024)
    assert "wave-quantisation" not in found(full)


def test_small_products_in_a_row() -> None:
    b = TraceBuilder()
    for i in range(4):
        product(b, i * 50, "[32,64],[64,32]", BF16, GEMM, 10, blocks=1, threads=128)
    draft = found(b)["small-matmuls"]
    assert draft.claim_ms == pytest.approx(0.03)
    b = TraceBuilder()
    for i in range(4):
        product(b, i * 50, f"[64,64],[64,{64 + 8 * i}]", BF16, GEMM, 10, blocks=1, threads=128)
    assert "small-matmuls" not in found(b)


def attention(b: TraceBuilder) -> None:
    bmm = f'["{BF16}","{BF16}"]'
    scores = f'["{BF16}"]'
    op(b, "aten::bmm", 0, "[[8,512,64],[8,64,512]]", bmm, (GEMM, 20, 60, {}))
    op(b, "aten::mul", 20, "[[8,512,512],[]]", f'["{BF16}",""]', (ADD, 60, 90, {}))
    op(b, "aten::_softmax", 40, "[[8,512,512]]", scores, (SOFTMAX, 90, 140, {}))
    op(b, "aten::mul", 60, "[[8,512,512],[]]", f'["{BF16}",""]', (ADD, 140, 170, {}))
    op(b, "aten::bmm", 80, "[[8,512,512],[8,512,64]]", bmm, (GEMM, 170, 210, {}))


def test_attention_written_out_is_claimed_once() -> None:
    b = TraceBuilder()
    attention(b)
    drafts = found(b)
    assert drafts["attention-written-out"].claim_ms == pytest.approx(0.11)
    assert "memory-chains" not in drafts


def test_a_softmax_alone_is_no_attention() -> None:
    b = TraceBuilder()
    op(b, "aten::_softmax", 40, "[[8,512,512]]", f'["{BF16}"]', (SOFTMAX, 90, 140, {}))
    assert "attention-written-out" not in found(b)


def test_memory_chain_says_what_traffic_it_would_save() -> None:
    b = TraceBuilder()
    for i in range(3):
        op(
            b,
            "aten::add",
            i * 20,
            "[[1000000],[1000000],[]]",
            '["float","float","Scalar"]',
            (ADD, 100 + i * 20, 120 + i * 20, {}),
        )
    draft = found(b)["memory-chains"]
    assert draft.claim_ms == pytest.approx(0.04)
    assert figure(draft, "traffic saved") == pytest.approx(2 * 12e6)


def test_what_a_compiler_left_is_no_chain() -> None:
    b = TraceBuilder()
    for i in range(4):
        op(
            b,
            "CompiledFunction",
            i * 20,
            "",
            "",
            (f"triton_red_fused_sum_{i}", 100 + i * 20, 120 + i * 20, {}),
        )
    assert "memory-chains" not in found(b)


def test_layout_kernels_beside_convolutions() -> None:
    b = TraceBuilder()
    op(
        b,
        "aten::cudnn_convolution",
        0,
        "[]",
        "[]",
        ("void cudnn::ops::nchwToNhwcKernel<float>", 20, 60, {}),
        ("sm90_xmma_fprop_implicit_gemm_tf32", 60, 200, {}),
    )
    assert found(b)["channels-last"].claim_ms == pytest.approx(0.04)


def test_casts_of_equal_tensors() -> None:
    b = TraceBuilder()
    for i in range(3):
        op(
            b,
            "aten::_to_copy",
            i * 20,
            "[[1000000]]",
            '["float"]',
            ("void direct_copy_kernel_cuda", 100 + i * 100, 120 + i * 100, {"stream": i}),
        )
    draft = found(b)["repeated-casts"]
    assert draft.claim_ms is None
    assert figure(draft, "casts of equal inputs") == 3
    assert figure(draft, "time") == pytest.approx(0.02)


def test_claims_never_exceed_the_kernels_they_are_on() -> None:
    b = TraceBuilder()
    attention(b)
    product(b, 300, "[1000,1001],[1001,1000]", FP32, SGEMM, 400, blocks=22, threads=1024)
    m = measured(b)
    claims = [draft.claim_ms for draft, _ in allocate_headroom(m, COMPUTATION)]
    assert m.budget is not None
    assert sum(c for c in claims if c) <= m.budget.compute


def test_faster_than_the_roofline_is_always_said() -> None:
    b = TraceBuilder()
    product(b, 0, "[1000,1000],[1000,1000]", BF16, GEMM, 10)
    op(
        b,
        "aten::add",
        100,
        "[[1000],[1000],[]]",
        '["float","float","Scalar"]',
        (ADD, 500, 500.001, {}),
    )
    product(b, 600, "[1000,1000],[1000,1000]", BF16, GEMM, 50_000)
    m = measured(b)
    ((draft, _),) = allocate_headroom(m, [above_roofline])
    assert figure(draft, "highest") == pytest.approx(12)
    assert "above-roofline" in {finding.id for finding in diagnose(m).findings}


def test_nothing_above_the_roofline_no_finding() -> None:
    b = TraceBuilder()
    product(b, 0, "[1000,1000],[1000,1000]", BF16, GEMM, 50)
    assert not allocate_headroom(measured(b), [above_roofline])


@pytest.mark.parametrize(("last", "told"), [(1_000_000, True), (1_000, True), (700_000, False)])
def test_kernels_on_other_tensors_are_no_chain(last: int, told: bool) -> None:
    b = TraceBuilder()
    for i, size in enumerate((1_000_000, 1_000_000, last)):
        shapes = f"[[{size}],[{size}],[]]"
        op(
            b,
            "aten::add",
            i * 20,
            shapes,
            '["float","float","Scalar"]',
            (ADD, 100 + i * 20, 120 + i * 20, {}),
        )
    assert ("memory-chains" in found(b)) is told


def test_chains_are_counted_by_the_step() -> None:
    """Two steps with one run each, and one with two: four thirds a step."""
    b = TraceBuilder()
    at = 0.0
    for step, runs in enumerate((1, 2, 1)):
        begin = at
        for _ in range(runs):
            for i in range(3):
                sizes = "[[1000000],[1000000],[]]"
                op(
                    b,
                    "aten::add",
                    at + i * 20,
                    sizes,
                    '["float","float","Scalar"]',
                    (ADD, at + i * 20 + 12, at + i * 20 + 32, {}),
                )
            at += 70
            product(b, at, "[1000,1000],[1000,1000]", BF16, GEMM, 100)
            at += 130
        b.annotation(f"ProfilerStep#{step}", begin, at)
    draft = found(b)["memory-chains"]
    assert figure(draft, "runs per step") == pytest.approx(4 / 3)
    assert figure(draft, "kernels per run") == 3
    assert draft.claim_ms == pytest.approx(4 / 3 * 0.040)


def test_attentions_are_counted_by_the_step_and_not_between_far_products() -> None:
    b = TraceBuilder()
    attention(b)
    assert figure(found(b)["attention-written-out"], "attentions") == 1
    far = TraceBuilder()
    bmm = f'["{BF16}","{BF16}"]'
    op(far, "aten::bmm", 0, "[[8,512,64],[8,64,512]]", bmm, (GEMM, 20, 30, {}))
    op(far, "aten::_softmax", 20, "[[8,512,512]]", f'["{BF16}"]', (SOFTMAX, 30, 60, {}))
    for i in range(16):
        op(
            far,
            "aten::mul",
            40 + 20 * i,
            "[[8,512,512],[]]",
            f'["{BF16}",""]',
            (ADD, 60 + 20 * i, 80 + 20 * i, {}),
        )
    op(far, "aten::bmm", 400, "[[8,512,512],[8,512,64]]", bmm, (GEMM, 420, 460, {}))
    assert "attention-written-out" not in found(far)


def test_attention_is_found_after_other_work() -> None:
    b = TraceBuilder()
    bmm = f'["{BF16}","{BF16}"]'
    for i in range(12):
        product(b, 30 * i, "[1000,1000],[1000,1000]", BF16, GEMM, 20)
    op(b, "aten::bmm", 400, "[[8,512,64],[8,64,512]]", bmm, (GEMM, 420, 430, {}))
    op(b, "aten::_softmax", 420, "[[8,512,512]]", f'["{BF16}"]', (SOFTMAX, 430, 480, {}))
    op(b, "aten::bmm", 440, "[[8,512,512],[8,512,64]]", bmm, (GEMM, 480, 520, {}))
    draft = found(b)["attention-written-out"]
    assert figure(draft, "attentions") == 1
    assert draft.claim_ms == pytest.approx(0.05)
