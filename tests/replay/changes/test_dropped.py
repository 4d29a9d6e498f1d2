"""Gradients that are dropped instead of filled with zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, step_us, within
from tests.replay.changes.test_weights_passed import added_up
from traceanalyzer.diagnosis.remedies.loops import fused_optimizer
from traceanalyzer.replay.changes.gradients.dropped import gradients_dropped
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_times_ns

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

SIZES = ("[64, 64]", "[64]", "[256, 64]", "[256]")
TENSORS = 40
ZERO_US = 10
FILL = "void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>"


def zeroed(p: Program) -> None:
    for i in range(TENSORS):
        shapes = f"[{SIZES[i % 4]}]"
        within(p, "aten::zero_", lambda p: p.spend(ZERO_US).launch(FILL, 2), shapes=shapes)


def learned(passes: int, *, adds: bool = True) -> Measurements:
    def step(p: Program) -> None:
        zeroed(p)
        for _ in range(passes):
            within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, 5))
            for i in range(TENSORS if adds else 0):
                added_up(p, SIZES[i % 4])

    return program(step)


def saved_us(m: Measurements) -> float:
    tape = make_tape(m.rated)
    assert tape is not None
    left = step_us(m, "fused_optimizer")
    assert left is not None
    return step_times_ns([tape])[0] / 1e3 - left


def test_neither_zeros_are_written_nor_gradients_added_to_them() -> None:
    m = learned(1)
    offer = fused_optimizer.offer(m)
    assert offer is not None
    assert "set_to_none" in (offer.action.pytorch or "")
    left = step_us(m, "fused_optimizer")
    assert left is not None
    assert left < 3 * ZERO_US  # of which the product takes 15


def test_what_other_micro_batches_add_stays() -> None:
    assert saved_us(learned(3)) == pytest.approx(saved_us(learned(1)), rel=0.1)


def test_zeros_that_nothing_is_added_to_are_no_gradients() -> None:
    tape = make_tape(learned(1, adds=False).rated)
    assert tape is not None
    assert gradients_dropped(tape) is None
