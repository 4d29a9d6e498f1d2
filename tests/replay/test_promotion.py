"""What autocast leaves in fp32, and what its casts take on the device."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.base import NS_PER_S
from traceanalyzer.replay.changes.casts import (
    CAST_BYTES,
    NARROWS,
    WIDENS,
    added_casts,
    works_in_fp32,
)
from traceanalyzer.replay.changes.precision import SERVING_NORM, USUAL, in_16_bits
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape
    from traceanalyzer.trace import F64

MAPS = "[8, 64, 56, 56]"
NUMBERS = 8 * 64 * 56 * 56
WEIGHTS = 64 * 64 * 3 * 3
CHANNEL = "[1, 64, 1, 1]"
GATE = "[8, 64, 1, 1]"
KERNEL = "[64, 64, 3, 3]"
DEPTHWISE = "void at::native::conv_depthwise2d_forward_kernel<3, float, int>()"
LAYOUT = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>()"
CUDNN_NORM = "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>()"


def tape_of(*operators: tuple[str, ...], kernels: dict[str, str] | None = None) -> Tape:
    known = {"conv2d": GEMM, "linear": GEMM} | (kernels or {})

    def step(p: Program) -> None:
        for name, *shapes in operators:
            dtypes = p.code(json.dumps(["float"] * len(shapes)))
            call(p, name, *shapes, kernel=known.get(name, ADD), dtypes=dtypes)

    tape: Tape | None = make_tape(program(step).rated)
    assert tape is not None
    return tape


def stays(*operators: tuple[str, ...]) -> list[bool]:
    return works_in_fp32(tape_of(*operators))[-len(operators) :].tolist()


def cast_ns(*operators: tuple[str, ...]) -> F64:
    added = added_casts(tape_of(*operators))
    assert added is not None
    return added.device_ns[-len(operators) :]


def moved_ns(tape: Tape, numbers: int, how: tuple[int, float]) -> float:
    start, passes = how
    bandwidth = tape.source.linked.limit("bandwidth")[0]
    return start + float(numbers * CAST_BYTES * passes / bandwidth * NS_PER_S)


def test_a_frozen_norm_and_what_follows_it_stay_until_the_next_product() -> None:
    operators = (
        ("conv2d", MAPS, KERNEL),
        ("batch_norm", MAPS, *["[64]"] * 4),
        ("group_norm", MAPS, "[64]", "[64]"),
        ("add_", MAPS, MAPS),
        ("relu_", MAPS),
        ("conv2d", MAPS, KERNEL),
        ("relu_", MAPS),
    )
    assert stays(*operators) == [False, False, True, True, True, False, False]


def test_norms_softmaxes_and_losses_stay_in_fp32() -> None:
    rows = "[8, 196, 384]"
    for name, *others in (
        ("layer_norm", "[384]", "[384]"),
        ("softmax",),
        ("pow",),
        ("mse_loss", rows),
    ):
        assert stays(("linear", rows, "[384, 384]"), (name, rows, *others)) == [False, True]


@pytest.mark.parametrize(
    "operator",
    [("mul", MAPS, GATE), ("mul", MAPS, "[]"), ("add", MAPS, MAPS), ("gelu", MAPS)],
)
def test_what_products_give_and_numbers_widen_nothing(operator: tuple[str, ...]) -> None:
    assert stays(("conv2d", MAPS, KERNEL), operator, ("relu", operator[1])) == [False] * 3


def test_each_cast_takes_a_pass_over_its_numbers_and_to_fp32_a_slower_one() -> None:
    rows = "[8, 196, 384]"
    operators = (
        ("layer_norm", rows, "[384]", "[384]"),
        ("linear", rows, "[384, 384]"),
        ("layer_norm", rows, "[384]", "[384]"),
    )
    tape = tape_of(*operators)
    numbers = 8 * 196 * 384
    _, product, norm = cast_ns(*operators)
    of_data = moved_ns(tape, numbers, NARROWS)
    assert product == pytest.approx(of_data + moved_ns(tape, 384 * 384, NARROWS))
    assert norm == pytest.approx(moved_ns(tape, numbers, WIDENS))


def share_left(name: str, shapes: str, kernel: str) -> float:
    """Share of its time that a kernel of fp32 numbers keeps in 16 bits, beside a product."""

    def step(p: Program) -> None:
        dtypes = p.code('["float","float"]')
        product = "[[4096,1024],[1024,1024]]"
        for one, sizes, launched in (
            ("mm", product, "ampere_sgemm_128x64_nn"),
            (name, shapes, kernel),
        ):
            launch = partial(_launch, kernel=launched)
            within(p, f"aten::{one}", launch, shapes=sizes, dtypes=dtypes)

    tape = make_tape(program(step).rated)
    assert tape is not None
    found = in_16_bits(USUAL)(tape)
    assert found is not None
    assert found.duration[-2] < 0.3 * tape.duration[-2]
    return float(found.duration[-1] / tape.duration[-1])


def _launch(p: Program, kernel: str) -> None:
    p.spend(15).launch(kernel, 300)


def test_depthwise_convolutions_take_as_long_in_16_bits() -> None:
    left = share_left("conv2d", f"[{MAPS},[64,1,3,3]]", DEPTHWISE)
    assert 1.0 <= left < 1.1


def test_pytorchs_batch_norms_take_the_place_of_cudnns_in_16_bits() -> None:
    left = share_left("batch_norm", f"[{MAPS},[64],[64],[64],[64]]", CUDNN_NORM)
    assert left == pytest.approx(SERVING_NORM, abs=0.01)


def test_what_cudnn_moves_into_another_order_takes_as_long() -> None:
    assert share_left("conv2d", f"[{MAPS},{KERNEL}]", LAYOUT) >= 1.0
