"""What goes with the batch in a model whose router sends rows to experts."""

from __future__ import annotations

import math

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import GEMM, program, within
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, Tensor
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.patterns.parameters import Parameters
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade import work
from traceanalyzer.replay.unmade.dimensions import _parts, dimensions_of
from traceanalyzer.replay.unmade.folded import unfolded
from traceanalyzer.replay.unmade.larger_batch import with_larger_batch
from traceanalyzer.replay.unmade.made import RunPlan, planned
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.replay.unmade.resized import Resizer, Sizes

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


NO_PARAMETERS = Parameters(frozenset(), frozenset())
SERIES = Operator("aten::mean", ("[[16,321,512]]", '["float"]', None))
FRAMES = Operator("aten::reshape", ("[[8,16,3,64,64]]", '["float"]', None))
GRAPHS = Operator("aten::cross_entropy_loss", ("[[2048,12],[2048]]", '["float","long"]', None))


def test_series_that_are_folded_into_rows_leave_the_batch() -> None:
    patches = Dimensions(5136, 64, basis="patches")
    found = unfolded(patches, [SERIES], [], NO_PARAMETERS)
    assert (found.batch, found.length) == (16, 512)
    assert (found.folds, found.parts) == ({5136}, {64})
    assert found.basis == "[16, 321, 512], folded into patches"


def test_frames_that_are_folded_into_images_leave_the_clips() -> None:
    found = unfolded(Dimensions(128, None, basis="frames"), [FRAMES], [], NO_PARAMETERS)
    assert (found.batch, found.length, found.parts) == (8, None, frozenset())


def test_rows_of_the_loss_are_the_batch_of_nodes() -> None:
    nodes = Dimensions(61440, None, basis="nodes", rows=True)
    found = unfolded(nodes, [], [GRAPHS], NO_PARAMETERS)
    assert (found.batch, found.rows) == (2048, False)
    assert found.basis == "the 2048 rows of the loss, 30 each in nodes"


@pytest.mark.parametrize(
    ("root", "before"),
    [
        (Dimensions(2048, None, basis="as many rows as the loss has"), []),
        (Dimensions(3000, None, basis="no whole number of them"), []),
        (Dimensions(1024, None, basis="fewer"), []),
        (Dimensions(4096, 64, basis="sequences, of which a loss may take some"), []),
        (
            Dimensions(
                128, None, basis="rows of a layer, tokens first or samples first", rows=True
            ),
            [FRAMES],
        ),
    ],
)
def test_what_does_not_tell_leaves_the_root(root: Dimensions, before: list[Operator]) -> None:
    assert unfolded(root, before, [GRAPHS], NO_PARAMETERS) == root


def test_tensors_of_folded_samples_go_with_the_batch_wherever_it_stands() -> None:
    now = Dimensions(16, 512, parts=frozenset({64}), folds=frozenset({5136}))
    more = Resizer(Sizes(now, 24, 512), NO_PARAMETERS)
    shapes = [(5136, 64, 128), (64, 5136, 128), (3, 64, 5136, 128), (64, 82176, 8), (328704, 128)]
    larger = [more.tensor(_floats(shape)).shape for shape in shapes]
    assert larger == [
        (7704, 64, 128),
        (64, 7704, 128),
        (3, 64, 7704, 128),
        (64, 123264, 8),
        (493056, 128),
    ]


def test_patches_of_a_shorter_length_are_fewer() -> None:
    now = Dimensions(16, 512, parts=frozenset({64}), folds=frozenset({5136}))
    shorter = Resizer(Sizes(now, 16, 256), NO_PARAMETERS)
    assert shorter.tensor(_floats((5136, 64, 128))).shape == (5136, 32, 128)
    assert shorter.tensor(_floats((328704, 128))).shape == (164352, 128)


def _floats(shape: tuple[int, ...]) -> Tensor:
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Tensor(shape, FLOAT, strides)


def test_a_view_tells_more_once_another_length_is_known() -> None:
    types = '["float","float"]'
    halves, thirds = (
        Operator("aten::view", (f"[[{taken}]]", types, f'["", "{given}"]'))
        for taken, given in (("8,24,64", "[8, 12, 2, 64]"), ("8,12,64", "[8, 3, 4, 64]"))
    )
    assert _parts(24, [], [thirds, thirds]) == set()
    assert _parts(24, [], [thirds, halves, halves, thirds]) == {12, 3}
