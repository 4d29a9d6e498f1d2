"""Tokens that a convolution cuts and that keep its layout: copies that bring them into rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from traceanalyzer.diagnosis.remedies.kernels import channels_last
from traceanalyzer.replay.patterns.tokens import tokens_turned
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

LAYERS = 4
CHANNELS = 768
TOKENS = 196


def cut(channels: int, apart: bool) -> Measurements:
    """A convolution of so many channels, then layers that bring tokens into rows."""
    rows = [TOKENS * CHANNELS, CHANNELS, 1]
    taken = [TOKENS * CHANNELS, 1, TOKENS] if apart else rows

    def step(p: Program) -> None:
        shapes = json.dumps([[32, 3, 224, 224], [channels, 3, 16, 16]])
        within(p, "aten::conv2d", lambda p: p.launch(GEMM, 400), shapes=shapes)
        columns = {
            "shapes": json.dumps([[32, TOKENS, CHANNELS]] * 2),
            "dtypes": p.code('["float", "float"]'),
            "strides": p.code(json.dumps([rows, taken])),
        }
        for _ in range(LAYERS):
            within(p, "aten::copy_", lambda p: p.spend(10).launch(ADD, 100), **columns)

    return program(step)


@pytest.mark.parametrize(
    ("channels", "apart", "copies"),
    [(CHANNELS, True, LAYERS), (CHANNELS, False, 0), (CHANNELS // 2, True, 0)],
)
def test_copies_of_what_a_convolution_cut_are_told(channels: int, apart: bool, copies: int) -> None:
    m = cut(channels, apart)
    tape = make_tape(m.rated)
    assert tape is not None
    assert int(tokens_turned(tape).sum()) == copies * tape.steps
    assert (channels_last.offer(m) is not None) == (copies > 0)
