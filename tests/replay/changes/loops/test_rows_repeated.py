"""Rows that are repeated item by item: told by what follows what, and by the width of the rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, Program, copy, program, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.diagnosis.remedies.host import REPEATED, remove_syncs
from traceanalyzer.replay.changes.loops.rows_sorted import rows_repeated
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Step = Callable[[Program], object]

TEXTS = 12


def repeated(p: Program) -> None:
    p.spend(30).launch("scan", 3).spend(30).launch("repeat", 3)
    copy(p.spend(30), 2, CopyKind.DEVICE_TO_HOST, 8).sync()
    p.spend(30).launch("take", 3)


def put_together(p: Program) -> None:
    for _ in range(TEXTS):
        p.spend(30).launch("pad", 3)


def texts(
    p: Program,
    *,
    widths: Sequence[int] = (64,) * TEXTS,
    counts: str = ", [20]",
    between: Sequence[str] = ("select",),
    joined_by: str = "aten::pad_sequence",
) -> None:
    for _ in range(4):
        call(p, "linear", "[240, 64]", "[64, 64]", kernel=GEMM)
    for width in widths:
        for name in between:
            call(p, name, f"[{TEXTS}, 20, {width}]")
        within(p, "aten::repeat_interleave", repeated, shapes=f"[[20, {width}]{counts}, []]")
    within(p, joined_by, put_together)
    call(p, "linear", "[1440, 64]", "[64, 64]", kernel=GEMM)


def test_the_rows_of_all_texts_are_repeated_at_once_without_a_wait() -> None:
    tape = tape_of(texts)
    at_once = rows_repeated(tape)
    assert at_once is not None
    assert not at_once.waits.any()
    products = tape.source.linked.is_matrix[tape.row]
    assert (at_once.duration[products] == tape.duration[products]).all()
    assert step_time_ns(at_once) < 0.5 * step_time_ns(tape)


def test_what_puts_them_together_is_not_needed() -> None:
    def spared(joined_by: str) -> float:
        tape = tape_of(partial(texts, joined_by=joined_by))
        at_once = rows_repeated(tape)
        assert at_once is not None
        return step_time_ns(tape) - step_time_ns(at_once)

    assert spared("aten::pad_sequence") > spared("aten::relu") + 1000 * 30 * (TEXTS - 1)


def test_it_is_offered_with_what_to_write_instead() -> None:
    offer = remove_syncs.offer(program(texts))
    assert offer is not None
    assert offer.scenario is REPEATED
    assert "Repeat the rows of all items at once" in offer.action.pytorch


@pytest.mark.parametrize(
    "step",
    [
        partial(texts, widths=(64,) * 3),
        partial(texts, widths=(64, 32) * (TEXTS // 2)),
        partial(texts, counts=""),
        partial(texts, between=("relu",)),
    ],
    ids=["few", "other widths", "a number for all rows", "something is done between"],
)
def test_other_loops_stay(step: Step) -> None:
    assert rows_repeated(tape_of(step)) is None
