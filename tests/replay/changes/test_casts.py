"""Casts on the host: where they are launched, what one costs, and what is left where none is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from traceanalyzer.replay.changes.casts import OF_USUAL, with_casts, without_casts
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"
ROWS = "[4096,1024]"
WEIGHT = "[1024,1024]"
PYTHON_US = 40
CAST_US = 10
CALL_US = 4  # of a launch


def tape_of(step: Callable[[Program], None]) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def launched(p: Program, name: str, kernel: str, shapes: str, types: str = "") -> None:
    columns = {"shapes": shapes, **({"dtypes": p.code(types)} if types else {})}
    within(p, name, lambda p: p.spend(CAST_US).launch(kernel, 5), **columns)


def served_in_fp32(p: Program) -> None:
    p.spend(PYTHON_US)
    linear = partial(launched, p, "aten::linear", GEMM, f"[{ROWS},{WEIGHT},[1024]]")
    linear('["float","float","float"]')
    launched(p, "aten::relu", ADD, f"[{ROWS}]", '["float"]')
    linear('["float","float","float"]')


def under_autocast(p: Program) -> None:
    def casts(p: Program) -> None:
        both = '["c10::BFloat16","float","Scalar"]'
        copy = partial(launched, name="aten::copy_", kernel=COPY, types=both)
        shapes = f"[{WEIGHT},{WEIGHT},[]]"
        within(p, "aten::to", lambda p: copy(p.spend(5), shapes=shapes))
        launched(p, "aten::mm", GEMM, f"[{ROWS},{WEIGHT}]", '["c10::BFloat16","c10::BFloat16"]')

    types = p.code('["float","float"]')
    within(p.spend(PYTHON_US), "aten::linear", casts, shapes=f"[{ROWS},{WEIGHT}]", dtypes=types)


def test_casts_are_launched_before_the_operator_that_they_are_for() -> None:
    tape = tape_of(served_in_fp32)
    usual = np.median(tape.dispatch[tape.dispatch > 0])
    more = with_casts(tape, tape.compute).dispatch - tape.dispatch
    of_kernels = more[tape.event].reshape(-1, 3)
    # Input, weight and bias; nothing for what a product gave; weight and bias.
    assert of_kernels == pytest.approx(np.tile([3, 0, 2], (6, 1)) * OF_USUAL * usual, abs=1)


def test_what_was_recorded_with_its_casts_is_not_cast_again() -> None:
    tape = tape_of(under_autocast)
    nothing = np.zeros(len(tape.row), bool)
    assert (with_casts(tape, nothing).dispatch == tape.dispatch).all()


def test_the_lines_that_call_an_operator_stay_where_its_casts_go() -> None:
    tape = tape_of(under_autocast)
    wide = without_casts(tape)
    before = tape.dispatch[tape.event].reshape(-1, 2)
    after = wide.dispatch[wide.event].reshape(-1, 2)
    # The rest of the call that launches a cast is time before the next event.
    gone_us = [5 + CAST_US, CALL_US]
    assert (before - after)[1:] / 1e3 == pytest.approx(np.tile(gone_us, (5, 1)), abs=0.1)
    assert after[1:, 0] / 1e3 == pytest.approx(np.full(5, CALL_US + PYTHON_US), abs=0.1)
    assert (wide.duration.reshape(-1, 2) > 0).tolist() == [[False, True]] * 6
