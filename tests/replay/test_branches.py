"""An `if` on each number of a tensor, in a loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import program, step_us
from tests.replay.test_answers import call, decide
from traceanalyzer.diagnosis.remedies.host import remove_syncs
from traceanalyzer.replay.changes.syncs.branches import branched_items
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

NUMBERS = 30
TURN_US = 100
"""A turn takes longer: a test, a read with its wait, and a change."""
FLOATS = '["float", "Scalar"]'


def penalized(p: Program, *, tested: str = "[]", changed: bool = True) -> None:
    call(p, "aten::mm", '["float", "float"]', "[64, 8]", "[8, 8]")
    for i in range(NUMBERS):
        call(p, "aten::lt", FLOATS, tested, "[]")
        decide(p)
        if changed:
            call(p, "aten::mul_" if i % 3 else "aten::div_", FLOATS, "[]", "[]")


def test_an_if_on_each_number_is_where_on_all() -> None:
    m = program(penalized)
    offer = remove_syncs.offer(m)
    assert offer is not None
    assert "torch.where" in (offer.action.pytorch or "")
    left = step_us(m, "remove_syncs")
    assert left is not None
    assert left < TURN_US


@pytest.mark.parametrize(
    "step",
    [partial(penalized, changed=False), partial(penalized, tested="[64]")],
    ids=["answers that are only looked at", "tests of whole tensors"],
)
def test_tests_that_lead_to_no_change_of_a_number_are_none(step: partial[None]) -> None:
    m = program(step)
    tape = make_tape(m.rated)
    assert tape is not None
    assert not branched_items(tape).any()
    offer = remove_syncs.offer(m)
    assert offer is not None
    assert "torch.where(x" not in (offer.action.pytorch or "")
