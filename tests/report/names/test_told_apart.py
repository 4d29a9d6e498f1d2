"""Names in a narrow column: different ones read differently."""

from __future__ import annotations

import dataclasses

from traceanalyzer.analysis.names.kernel_names import briefest_name
from traceanalyzer.base import metric
from traceanalyzer.report.format import shorten
from traceanalyzer.report.names.told_apart import told_apart
from traceanalyzer.report.printed import PrintedRows

GELU = "vectorized_elementwise_kernel<GeluCUDAKernelImpl>"
BACKWARD = "vectorized_elementwise_kernel<GeluBackwardCUDAKernelImpl>"
TILES = [
    f"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize{tile}_stage3_ffma_aligna4_alignc4_cublas"
    for tile in ("64x64x8", "32x32x8", "128x64x8")
]


def shown(names: list[str], width: int) -> list[str]:
    apart = told_apart(names, width, lambda name: shorten(name, width))
    return [apart[name] for name in names]


def test_names_that_would_read_alike_are_shown_from_where_they_differ() -> None:
    for width in (20, 28, 34, 50):
        texts = shown([GELU, BACKWARD, *TILES], width)
        assert len(set(texts)) == 5
        assert max(map(len, texts)) <= width
    assert shown(TILES, 34)[0] == "sm80_xmma_g…tilesize64x64x8_stage…"


def test_a_name_alone_loses_its_middle() -> None:
    assert shown([GELU], 20) == [shorten(GELU, 20)]


def test_what_many_kernels_names_hold_is_left_out_first() -> None:
    assert briefest_name(GELU) == "vectorized<Gelu>"
    assert briefest_name(BACKWARD) == "vectorized<GeluBackward>"
    assert briefest_name("aten::mm") == "aten::mm"


@dataclasses.dataclass(frozen=True)
class KernelRow:
    """A row of a table of kernels."""

    name: str = metric("kernel")
    calls: float = metric("calls a step")
    total_ms: float = metric("time a step")
    op: str = metric("operator")
    note: str = metric("what else there is")


def test_80_columns_hold_the_name_and_the_calls() -> None:
    rows = [
        KernelRow(name, 30.0, 1.5, "aten::gelu_backward", "some words " * 6)
        for name in (GELU, BACKWARD)
    ]
    lines = PrintedRows("kernels", rows, KernelRow).terminal(80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "calls" in "".join(lines[:3])
    assert len({line[:34] for line in lines if "gelu" in line.lower()}) == 2
