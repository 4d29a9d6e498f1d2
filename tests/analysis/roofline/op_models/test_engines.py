"""Operators of serving engines: figures by hand, and attention by what the iteration's marker
says."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.roofline.op_models import MODELS, model_ops
from traceanalyzer.analysis.roofline.op_models.call import Call
from traceanalyzer.analysis.roofline.op_models.tensors import DTYPES, Tensor
from traceanalyzer.diagnosis.measurements import measure

BF16 = DTYPES["c10::BFloat16"]
FP8 = DTYPES["c10::Float8_e4m3fn"]


def given(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(Tensor(shape, BF16) for shape in shapes)


@pytest.mark.parametrize(
    ("name", "inputs", "flops", "moved"),
    [
        (
            "sgl_kernel::silu_and_mul",
            given((64, 2304), (64, 4608)),
            5 * 64 * 2304,
            3 * 2 * 64 * 2304,
        ),
        ("_C::silu_and_mul", given((64, 2304), (64, 4608)), 5 * 64 * 2304, 3 * 2 * 64 * 2304),
        ("_C::rms_norm", given((8, 100), (8, 100), (100,)), 4 * 800, 2 * (2 * 800 + 100)),
        ("aiter::rmsnorm", given((8, 100), (8, 100), (100,)), 4 * 800, 2 * (2 * 800 + 100)),
        ("_C::fused_add_rms_norm", given((8, 100), (8, 100), (100,)), 5 * 800, 2 * (4 * 800 + 100)),
        ("aiter::add_rmsnorm", given(*[(8, 100)] * 4, (100,)), 5 * 800, 2 * (4 * 800 + 100)),
        ("aiter::_groupnorm_run", given((2, 32, 64), (32,), (32,)), 8 * 4096, 2 * (2 * 4096 + 64)),
        (
            "sgl_kernel::rotary_embedding",
            given((8,), (8, 512), (8, 64)),
            3 * 8 * 576,
            2 * 2 * 8 * 576,
        ),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            given(*[(8, 2, 64)] * 2, (9, 16, 2, 64)),
            0,
            2 * 2 * 2 * 1024,
        ),
        (
            "_C::static_scaled_fp8_quant",
            (Tensor((8, 512), FP8), *given((8, 512))),
            8 * 512,
            3 * 8 * 512,
        ),
    ],
)
def test_what_they_do_and_move(
    name: str, inputs: tuple[Tensor, ...], flops: float, moved: float
) -> None:
    work = MODELS.working[name](Call(name, inputs))
    assert (work.flops, work.bytes) == (flops, moved)


@pytest.mark.parametrize(
    ("marker", "flops", "moved"),
    [
        # 8 heads of 64 and 64, 1 head in the cache: 256 FLOPs a pair and head.
        (
            "execute_context_1(10_100)_generation_0(0)",
            55 * 8 * 256,
            2 * 10 * 8 * 128 + 2 * 10 * 128,
        ),
        (
            "step[DECODE bs=10 g_sqsq=10 g_sqsk=500 g_sk=500]",
            500 * 8 * 256,
            2 * 10 * 8 * 128 + 2 * 500 * 128,
        ),
        ("step[DECODE bs=10]", None, None),
        ("forward", None, None),
    ],
)
def test_attention_over_a_cache(marker: str, flops: float | None, moved: float | None) -> None:
    b = TraceBuilder().annotation(marker, 0, 100)
    types = b.code('["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]')
    shapes = "[[10, 8, 64], [10, 1, 64], [10, 1, 64]]"
    b.op("vllm::unified_attention_with_output", 10, 50, shapes=shapes, dtypes=types)
    b.call("cudaLaunchKernel", 20, 30, 1).kernel("attention", 40, 60, 1)
    work = model_ops(measure(b.build()).joined)
    row = work.of_device_op[0]
    assert (row >= 0) == (flops is not None)
    if flops is not None:
        assert (work.flops[row], work.bytes[row]) == (flops, moved)
