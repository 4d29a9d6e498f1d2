"""Waits that are not the program's reading of values: sparse matrices, a library that tries its
algorithms."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import GEMM, program, within
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.gaps import find_gaps
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import measure


def test_a_sparse_matrix_that_is_sorted_in_each_operator() -> None:
    def step(p: Program) -> None:
        for _ in range(20):
            within(
                p,
                "aten::_sparse_addmm",
                lambda p: within(
                    p, "aten::_coalesce", lambda p: p.spend(5).launch("sort", 20).sync()
                ),
            )
            p.spend(40).launch(GEMM, 20)

    advice = " ".join(r.action for r in diagnose(program(step)).recommendations)
    assert "Coalesce the sparse matrix once" in advice
    assert ".item()" not in advice


def test_values_that_are_read_keep_their_advice() -> None:
    def step(p: Program) -> None:
        for _ in range(20):
            within(p, "aten::item", lambda p: p.spend(5).launch("copy", 20).sync())
            p.spend(40).launch(GEMM, 20)

    advice = " ".join(r.action for r in diagnose(program(step)).recommendations)
    assert "Coalesce" not in advice
    assert ".item()" in advice


@pytest.mark.parametrize(
    ("around", "call", "searches"),
    [
        ("aten::cudnn_convolution", "cudaEventSynchronize", True),
        ("torch.nn.functional.conv2d", "cudaEventSynchronize", True),
        ("aten::miopen_convolution", "hipEventSynchronize", True),
        ("aten::cudnn_convolution", "cudaStreamSynchronize", False),
        ("aten::item", "cudaEventSynchronize", False),
        ("converter", "cudaEventSynchronize", False),
    ],
)
def test_a_library_that_tries_its_algorithms_is_first_use(
    around: str, call: str, searches: bool
) -> None:
    p = Program()
    for _ in range(15):
        begin = p.now
        p.spend(60).launch("try_algorithm", 30).sync(call)
        p.annotation(around, begin, p.now)
    gaps = find_gaps(measure(p.build()).started)
    waited = gaps.cause[gaps.sync >= 0]
    assert (len(waited) == 0) == searches
    assert (IdleDetail.LOADING in gaps.detail.tolist()) == searches
