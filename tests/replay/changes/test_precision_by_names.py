"""Products in bf16 where only the names of kernels tell the format they have, as in exports of
Nsight Systems."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import program, within
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.changes.precision import (
    LEAST_OF_ORDINARY,
    USUAL,
    in_16_bits,
    in_tf32,
    wide_products,
)
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Device

TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_kernel"
ORDINARY = "ampere_sgemm_128x64_tn"
BF16 = "ampere_bf16_s16816gemm_bf16_128x64"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(...)>"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
TYPICAL = in_16_bits(USUAL)


def tape_of(*kernels: str, device: str = "NVIDIA H100 80GB HBM3") -> Tape:
    p = Program()
    for i in range(4):
        start = p.now
        for kernel in kernels:
            p.spend(5).launch(kernel, 100)
        p.sync()
        p.annotation(f"ProfilerStep#{i}", start, p.now)
    tape = make_tape(measure(p.build(devices=(Device(0, device),))).rated)
    assert tape is not None
    return tape


def left(tape: Tape) -> list[float]:
    """What each kernel of the first step takes in bf16, in shares of what it took."""
    changed = TYPICAL(tape)
    assert changed is not None
    shares = changed.duration / np.maximum(tape.duration, 1)
    return [round(float(share), 3) for share in shares[: len(tape.row) // tape.steps]]


def test_products_are_as_much_faster_as_the_peak_of_their_cores_and_data_is_half() -> None:
    tape = tape_of(TF32, ORDINARY, ADD, COPY)
    assert wide_products(tape).tolist()[:4] == [True, True, False, False]
    assert left(tape) == pytest.approx([0.55, 0.275, 0.6, 0.85], abs=0.002)


def test_beside_narrow_kernels_only_those_that_say_so_move_fp32() -> None:
    assert left(tape_of(TF32, BF16, ADD, COPY)) == pytest.approx([0.55, 1, 0.6, 1], abs=0.002)


def test_nothing_is_told_without_wide_products_or_peaks() -> None:
    assert TYPICAL(tape_of(BF16, ADD)) is None
    assert TYPICAL(tape_of(TF32, ADD, device="NVIDIA Nothing 1")) is None


def test_products_on_ordinary_cores_are_in_tf32_no_faster_than_their_traffic_may_allow() -> None:
    tape = tape_of(ORDINARY, TF32, BF16, ADD)
    changed = in_tf32(tape)
    assert changed is not None
    shares = (changed.duration / tape.duration)[:4]
    assert shares.tolist() == pytest.approx([LEAST_OF_ORDINARY, 1, 1, 1])
    assert in_tf32(tape_of(TF32, BF16, ADD)) is None


def beside_a_known_format(p: Program, *, kernel: str) -> None:
    """A sum whose operands' format is recorded, and a product whose own is not, as of a convolution
    whose strides nsys does not know."""
    floats = p.code('["float","float"]')
    rows = "[[32000,4096],[32000,4096]]"
    within(p, "aten::add", lambda p: p.spend(5).launch(ADD, 400), shapes=rows, dtypes=floats)
    within(p, "aten::cudnn_convolution", lambda p: p.spend(5).launch(kernel, 100))


@pytest.mark.parametrize(("kernel", "share"), [(TF32, 0.55), (ORDINARY, 0.275), (BF16, None)])
def test_a_product_is_told_by_its_name_beside_operators_with_formats(
    kernel: str, share: float | None
) -> None:
    tape = make_tape(program(partial(beside_a_known_format, kernel=kernel)).rated)
    assert tape is not None
    assert wide_products(tape).tolist()[:2] == [False, share is not None]
    if share is None:
        assert TYPICAL(tape) is None
    else:
        assert left(tape) == pytest.approx([0.6, share], abs=0.002)
