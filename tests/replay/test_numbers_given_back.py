"""Reads whose values go back to the GPU as numbers, told from values that are only looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, copy, program, step_us, within
from traceanalyzer.diagnosis.remedies.host import remove_syncs
from traceanalyzer.diagnosis.remedies.remedy import text
from traceanalyzer.replay.changes.syncs.values import scalars_reuploaded
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

ROUNDS = 8
DISPATCH_US = 24.0
CALL_US = 4.0
"""Of an operator here: what comes before its launch, and the launch. And the call of a copy, which
is gone."""


def operator(
    p: Program,
    name: str,
    shapes: str = "[[64, 64]]",
    types: str = '["float"]',
    values: str = '[""]',
) -> None:
    columns = {"shapes": shapes, "dtypes": p.code(types), "concrete": p.code(values)}
    within(p, name, lambda p: p.spend(20).launch(GEMM, 5), **columns)


def read(p: Program) -> None:
    within(p, "aten::item", lambda p: copy(p.spend(20), 2, CopyKind.DEVICE_TO_HOST, 4).sync())


def searching(p: Program) -> None:
    """Each round's share is another number; the next one is a plain number beside a tensor."""
    for number in range(ROUNDS):
        operator(p, "aten::dot")
        read(p)
        share = f'["", "", "0.{p.launched}{number}"]'
        operator(p, "aten::add_", "[[64, 64], [64, 64], []]", '["float", "float", "Scalar"]', share)
        operator(p, "aten::dot")
        read(p)
        operator(p, "aten::mul_", "[[64, 64], []]", '["float", "double"]', '["", ""]')


def looking(p: Program, values: str = '["", "", "1"]') -> None:
    """What follows a read takes the same numbers each time."""
    for _ in range(ROUNDS):
        operator(p, "aten::abs")
        operator(p, "aten::max")
        read(p)
        operator(
            p, "aten::add_", "[[64, 64], [64, 64], []]", '["float", "float", "Scalar"]', values
        )


def scaled_by_tensor(p: Program) -> None:
    for _ in range(ROUNDS):
        operator(p, "aten::dot")
        read(p)
        operator(p, "aten::mul_", "[[64, 64], []]", '["float", "float"]', '["", ""]')


def lossy(p: Program) -> None:
    """One read a step, before a number of Python's."""
    for _ in range(ROUNDS):
        operator(p, "aten::mm")
    read(p)
    operator(p, "aten::mul_", "[[64, 64], []]", '["float", "double"]', '["", ""]')


@pytest.mark.parametrize(
    ("step", "back"),
    [
        (searching, True),
        (looking, False),
        (lambda p: looking(p, '["", "", "0.5"]'), False),
        (scaled_by_tensor, False),
        (lossy, False),
    ],
)
def test_numbers_that_come_back_are_told_by_what_follows_a_read(step: object, back: bool) -> None:
    tape = make_tape(program(step))  # type: ignore[arg-type]
    assert tape is not None
    assert scalars_reuploaded(tape).any() == back


def test_what_comes_back_as_a_number_costs_a_launch_and_is_still_calculated() -> None:
    m = program(searching)
    offer = remove_syncs.offer(m)
    assert offer is not None
    assert offer.action.pytorch == text("remove_syncs", "as_tensors")
    operators = 4 * ROUNDS
    reads = 2 * ROUNDS
    assert step_us(m, "remove_syncs") == pytest.approx(
        (operators + reads) * DISPATCH_US - reads * CALL_US, rel=0.01
    )


def test_what_is_only_looked_at_is_gone_with_what_leads_to_it() -> None:
    assert step_us(program(looking), "remove_syncs") == pytest.approx(ROUNDS * DISPATCH_US, rel=0.1)
