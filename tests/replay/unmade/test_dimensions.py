"""What goes with the batch in a model whose router sends rows to experts."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import GEMM, program, within
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade import work
from traceanalyzer.replay.unmade.dimensions import Dimensions, _parts, dimensions_of
from traceanalyzer.replay.unmade.larger_batch import with_larger_batch
from traceanalyzer.replay.unmade.made import RunPlan, planned
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.resized import Sizes

TOKENS = 8192
FLOATS = '["float","float","float"]'


def experts(p: Program, rows: int) -> None:
    """A layer of all tokens, then one of those that go to an expert."""
    for count, us in ((TOKENS, 20), (rows, 200)):
        shapes = f"[[1536],[{count},768],[768,1536]]"
        columns = {"shapes": shapes, "dtypes": p.code(FLOATS)}
        within(p, "aten::addmm", lambda p, us=us: p.spend(10).launch(GEMM, us), **columns)


def tape_of(rows: int) -> Tape:
    tape = make_tape(program(lambda p: experts(p, rows)).rated)
    assert tape is not None
    return tape


def doubled(tape: Tape) -> RunPlan:
    now = dimensions_of(tape.source)
    return RunPlan(Sizes(now, 2 * now.batch, None))


def test_rows_that_are_no_whole_number_of_samples_go_with_the_batch() -> None:
    tape = tape_of(1036)
    assert dimensions_of(tape.source) == Dimensions(
        TOKENS,
        None,
        basis=f"input [{TOKENS}, 768] of the first linear layer",
        routed=frozenset({1036}),
        rows=True,
    )
    part = planned(tape, doubled(tape))
    assert (part.tape.duration > 1.7 * tape.duration).all()


def test_a_batch_is_not_answered_where_most_products_stay() -> None:
    tape = tape_of(1536)  # as many rows as the layer has features
    with pytest.raises(QuestionError, match="say it with --batch-now"):
        planned(tape, doubled(tape))
    assert with_larger_batch(2)(tape) is None


def test_what_calls_have_to_do_is_asked_once_for_all_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    of_call = work.recorded_call
    monkeypatch.setattr(
        work, "recorded_call", lambda source, row: asked.append(row) or of_call(source, row)
    )
    tape = tape_of(TOKENS)
    larger = with_larger_batch(2)(tape)
    assert larger is not None
    calls = len(asked)
    assert calls > 0
    slow = with_larger_batch(2, full_cost=True)(tape.with_dispatch(tape.dispatch * 2))
    assert slow is not None
    assert len(asked) == calls


def test_what_convolutions_leave_of_a_length_and_its_chunks_are_parts_of_it() -> None:
    types = '["float","float"]'
    values = '["", "", "", "[5]", "[0]", "[1]", "1"]'
    line = Operator("aten::conv1d", ("[[8,1,16000],[64,1,10]]", types, values))
    chunks, heads = (
        Operator("aten::view", ("[[8,3199,64]]", types, f'["", "{sizes}"]'))
        for sizes in ("[8, 7, 457, 64]", "[8, 3199, 4, 16]")
    )
    assert _parts(16000, [line], [chunks, heads]) == {3199, 7}
