"""Weights that each call casts to 16 bits, in a model that is not trained."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, within
from traceanalyzer.diagnosis.remedies.kernels import low_precision
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.changes.weights_cast import weights_cast_once
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

WEIGHTS = "[4096, 1024]"
BIAS = "[4096]"
CAST = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda>"
CALLS = 4
CAST_US = 80
PRODUCT_US = 30


def cast(p: Program, shape: str, us: float) -> None:
    columns = {"shapes": f"[{shape}, {shape}, []]"}
    columns["dtypes"] = p.code('["c10::BFloat16", "float", "Scalar"]')
    within(p, "aten::copy_", lambda p: p.spend(5).launch(CAST, us), **columns)


def called(p: Program, data: str, formats: str, learns: bool) -> None:
    def linear(p: Program) -> None:
        if formats == "float":
            cast(p, WEIGHTS, CAST_US)
            cast(p, BIAS, 2)
        cast(p, data, 5)
        within(p, "aten::addmm", lambda p: p.spend(5).launch(GEMM, PRODUCT_US))

    for _ in range(CALLS):
        columns = {"shapes": f"[{data}, {WEIGHTS}, {BIAS}]"}
        columns["dtypes"] = p.code(f'["float", "{formats}", "{formats}"]')
        within(p, "aten::linear", linear, **columns)
    if learns:
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        within(p, node, lambda p: p.spend(5).launch(GEMM, PRODUCT_US))


def answered(
    data: str = "[8, 1024]", formats: str = "float", *, learns: bool = False
) -> Measurements:
    return program(partial(called, data=data, formats=formats, learns=learns))


def test_casts_of_weights_are_gone_and_those_of_data_stay() -> None:
    m = answered()
    tape = make_tape(m.rated)
    assert tape is not None
    found = weights_cast_once(tape)
    assert found is not None
    left_us = float(found.duration.sum()) / found.steps / 1e3
    assert left_us == pytest.approx(CALLS * (PRODUCT_US + 5))
    assert low_precision.offer(m).action == words("low_precision", "weights")


@pytest.mark.parametrize(
    "m",
    [answered(formats="c10::BFloat16"), answered(learns=True), answered(data=WEIGHTS)],
    ids=["in 16 bits already", "trained", "data of their shape"],
)
def test_other_casts_stay(m: Measurements) -> None:
    tape = make_tape(m.rated)
    assert tape is not None
    assert weights_cast_once(tape) is None
