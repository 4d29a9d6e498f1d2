"""Kernels on doubles as the same on fp32 numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import program, within
from tests.replay.changes.test_precision_by_names import tape_of
from traceanalyzer.diagnosis.remedies.kernels import IN_FP32, low_precision
from traceanalyzer.replay.changes.precision import HALF, in_32_bits, of_doubles
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

FFT = "void regular_fft<1024u, EPT<8u>, 8u, 1u, unsigned int, double, (inverse_t)0>"
ADAM = (
    "void multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>, float const*, double, double>"
)
MOMENTS_OF_DOUBLES = "void at::native::RowwiseMomentsCUDAKernel<double, double>"
NORM = "void at::native::LayerNormForwardCUDAKernel<double, double>"
MUL = "void at::native::elementwise_kernel<128, 2, BinaryFunctor<c10::complex<double>>>"


def test_doubles_are_told_by_names_where_nothing_else_tells() -> None:
    tape = tape_of(FFT, ADAM, MUL)
    assert of_doubles(tape)[:3].tolist() == [True, False, True]
    changed = in_32_bits(HALF)(tape)
    assert changed is not None
    assert changed.duration[:3].tolist() == [50_000, 100_000, 50_000]
    assert in_32_bits(HALF)(tape_of(ADAM)) is None


@pytest.mark.parametrize(("types", "offered"), [('["double"]', True), ('["float"]', False)])
def test_fp32_is_advised_where_operators_take_doubles(types: str, offered: bool) -> None:
    """By what operators take, whatever their kernels are called."""

    def step(p: Program) -> None:
        for _ in range(4):
            columns = {"shapes": "[[4096, 4096]]", "dtypes": p.code(types)}
            within(p, "aten::exp", lambda p: p.spend(20).launch("some_kernel", 200), **columns)

    m = program(step)
    assert (low_precision.offer(m).scenario is IN_FP32) == offered


@pytest.mark.parametrize(("width", "left_us"), [(128, 61.0), (127, 1000.0)])
def test_a_layer_norm_of_doubles_reads_rows_at_once_in_fp32(width: int, left_us: float) -> None:
    """175 MB in fp32 take 36 us at the memory's 4.8 TB/s, and 61 us at 60 % of it."""
    rows = 43_800_000 // width

    def step(p: Program) -> None:
        columns = {"shapes": f"[[{rows}, {width}]]", "dtypes": p.code('["double"]')}
        within(
            p,
            "aten::native_layer_norm",
            lambda p: p.spend(20).launch(MOMENTS_OF_DOUBLES, 2000).launch(NORM, 80),
            **columns,
        )

    m = program(step)
    tape = make_tape(m.rated)
    assert tape is not None
    changed = in_32_bits(HALF)(tape)
    assert changed is not None
    assert step_time_ns(changed) / 1e3 == pytest.approx(left_us + 40, rel=0.05)
