"""What stands before and after an operator, up to what launches something."""

from __future__ import annotations

from tests.diagnosis.test_remedies import GEMM, Program, copy, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.replay.patterns.named import Outermost, movers
from traceanalyzer.trace import CopyKind


def step(p: Program) -> None:
    for name in ("index", "view"):
        within(p, f"aten::{name}", lambda p: p.spend(2))
    within(p, "aten::to", lambda p: copy(p.spend(10), 20, CopyKind.HOST_TO_DEVICE, 1 << 20))
    for name in ("t", "detach"):
        within(p, f"aten::{name}", lambda p: p.spend(2))
    call(p, "mm", "[4, 4]", kernel=GEMM)
    within(p, "aten::alias", lambda p: p.spend(2))


def test_neighbours_end_at_what_launches() -> None:
    tape = tape_of(step)
    around = Outermost(tape)
    copies = tape.copies_of(CopyKind.HOST_TO_DEVICE)
    found = list(movers(tape, copies))
    assert len(found) == int(copies.sum())
    for op, place in found:
        assert copies[op]
        assert around.at(place, place + 1)[0].operator.name == "aten::to"
        assert [one.operator.name for one in around.after(place, 9)] == ["aten::t", "aten::detach"]
        assert [one.operator.name for one in around.after(place, 1)] == ["aten::t"]
        assert [one.operator.name for one in around.before(place, 2)] == [
            "aten::view",
            "aten::index",
        ]
        assert [one.name for one in around.follow(place, 4)] == [
            "aten::to",
            "aten::t",
            "aten::detach",
            "aten::mm",
        ]
    place = found[0][1]
    assert [one.operator.name for one in around.before(place + 4, 4)] == ["aten::detach", "aten::t"]
    assert [one.name for one in around.follow(len(around.nodes) - 1, 300)] == ["aten::alias"]
    assert list(around.before(0, 5)) == []
