"""Values that a loop reads one by one, as one read of all of them."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, copy, program, step_us, within
from tests.replay.test_stretches import tape_of
from traceanalyzer.diagnosis.remedies.host import remove_syncs
from traceanalyzer.diagnosis.remedies.remedy import text
from traceanalyzer.replay.changes.syncs.syncs import read_at_once
from traceanalyzer.replay.changes.syncs.values import FEWEST_READS_OF_LOOP, read_at_the_end
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind, MemoryKind

ITEMS = 40


def read(p: Program) -> None:
    """One value goes to the host."""

    def item(p: Program) -> None:
        copy(p.spend(8), 2, CopyKind.DEVICE_TO_HOST, 4, MemoryKind.PINNED).sync()

    within(p, "aten::item", item)


def test_what_a_loop_reads_item_by_item_is_read_once() -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 300)
        for _ in range(ITEMS):
            within(p, "aten::gt", lambda p: p.spend(10).launch(ADD, 2))
            read(p)
            read(p)

    m = program(step)
    tape = make_tape(m.rated)
    offer = remove_syncs.offer(m)
    assert tape is not None
    assert read_at_the_end(tape) is not None
    assert offer.action.pytorch == text("remove_syncs", "read_together")
    found = step_us(m, "remove_syncs")
    assert found is not None
    assert found == pytest.approx(301, rel=0.2), "neither reads nor tests of single values are left"


@pytest.mark.parametrize("between", ["a model", "a few reads", "long work"])
def test_other_reads_stay_single(between: str) -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 300)
        for _ in range(FEWEST_READS_OF_LOOP - 1 if between == "a few reads" else ITEMS):
            if between == "a model":
                within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, 2))
            if between == "long work":
                within(p, "aten::index", lambda p: p.spend(10).launch(ADD, 60))
            read(p)

    m = program(step)
    tape = make_tape(m.rated)
    assert tape is not None
    assert read_at_the_end(tape) is None
    assert remove_syncs.offer(m).action.pytorch == text("remove_syncs", "keep_values")


def test_what_the_host_waits_for_at_once() -> None:
    """In the call that launches it, or in one right after it that launches nothing."""
    waits = (True, False, True, False, True, True, False)
    launching = (0, 1, 3, 4, 6)
    tape = tape_of(
        [(1, one) for one in waits], [(event, 0, 1, 0, 0, 0, 0, 0) for event in launching]
    )
    assert read_at_once(tape).tolist() == [True, True, False, False, True, False, False]
