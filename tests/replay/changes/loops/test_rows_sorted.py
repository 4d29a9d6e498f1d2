"""Experts that each look for their tokens: told by what is compared, looked for and added."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import GEMM, Program, copy, program, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.diagnosis.remedies.host import SORTED, remove_syncs
from traceanalyzer.replay.changes.loops.rows_sorted import rows_sorted
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Step = Callable[[Program], object]

EXPERTS = 8


def looked_for(p: Program) -> None:
    copy(p.spend(40), 2, CopyKind.DEVICE_TO_HOST, 8).sync()


def experts(
    p: Program,
    *,
    numbers: Sequence[int] = range(EXPERTS),
    widths: Sequence[int] = (256,) * EXPERTS,
    adds: bool = True,
) -> None:
    for i, width in zip(numbers, widths, strict=True):
        rows = 100 + 7 * (i % 3)
        call(p, "eq", "[1024, 2]", "[]", concrete=p.code(f'["", "{i}"]'))
        within(p, "aten::where", looked_for, shapes="[[1024, 2]]")
        call(p, "index", "[1024, 64]", "[]")
        call(p, "linear", f"[{rows}, 64]", f"[{width}, 64]", kernel=GEMM)
        call(p, "silu", f"[{rows}, {width}]")
        call(p, "linear", f"[{rows}, {width}]", f"[64, {width}]", kernel=GEMM)
        call(p, "mul", f"[{rows}, 64]", f"[{rows}, 1]")
        if adds:
            call(p, "index_add_", "[1024, 64]", "[]", f"[{rows}]", f"[{rows}, 64]")


def test_rows_are_looked_for_once_and_networks_stay() -> None:
    tape = tape_of(experts)
    one = rows_sorted(tape)
    assert one is not None
    assert int((one.waits & tape.waits).sum()) == int(tape.waits.sum()) / EXPERTS
    assert int((one.dispatch > 0).sum()) < 0.6 * int((tape.dispatch > 0).sum())
    products = tape.source.linked.is_matrix[tape.row]
    assert np.array_equal(one.duration[products], tape.duration[products])
    assert step_time_ns(one) < 0.6 * step_time_ns(tape)


def test_it_is_offered_with_what_to_write_instead() -> None:
    offer = remove_syncs.offer(program(experts))
    assert offer is not None
    assert offer.scenario is SORTED
    assert "Sort the rows by who works on them once" in offer.action.pytorch


@pytest.mark.parametrize(
    "step",
    [
        partial(experts, numbers=range(3), widths=(256,) * 3),
        partial(experts, numbers=(5,) * EXPERTS),
        partial(experts, widths=(256, 128) * (EXPERTS // 2)),
        partial(experts, adds=False),
    ],
    ids=["few", "always the same number", "other networks", "nothing is added to rows"],
)
def test_other_searches_stay(step: Step) -> None:
    assert rows_sorted(tape_of(step)) is None
