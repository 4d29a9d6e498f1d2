"""What is launched around a wait: masks that are written by, sizes that are counted, and indices that
are made again of the same integers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, copy, program, step_us, within
from tests.replay.test_answers import FLOATS, call
from traceanalyzer.diagnosis.remedies.host import remove_syncs
from traceanalyzer.diagnosis.remedies.remedy import text
from traceanalyzer.replay.changes.syncs.indices import (
    indices_again,
    picks_again,
    searches_in_backward,
)
from traceanalyzer.replay.changes.syncs.sizes import sizes_read
from traceanalyzer.replay.changes.syncs.values import masks_spread
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

    Turn = Callable[[Program], object]

LAYERS = 4
DISPATCH_US = 24.0
LINEAR = ("aten::linear", '["float", "float"]', FLOATS, "[8, 8]")


def tape_of(step: Turn) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def in_turns(turn: Turn) -> Turn:
    """A step of so many turns."""

    def step(p: Program) -> None:
        for _ in range(LAYERS):
            turn(p)

    return step


def read(p: Program) -> None:
    columns = {"shapes": "[[]]", "dtypes": p.code('["long int"]')}
    within(
        p,
        "aten::item",
        lambda p: copy(p.spend(20), 2, CopyKind.DEVICE_TO_HOST, 8).sync(),
        **columns,
    )


def search(p: Program) -> None:
    """What `nonzero` does: it counts the values of a mask, and waits for the number."""
    p.spend(20).launch(ADD, 2)
    copy(p.spend(5), 2, CopyKind.DEVICE_TO_HOST, 8).sync()


def masked(p: Program, name: str, shapes: str, **more: int) -> None:
    def searched(p: Program) -> None:
        within(p, "aten::nonzero", search)
        p.spend(20).launch(ADD, 2)

    within(p, name, searched, shapes=shapes, dtypes=p.code('["float", "", "float"]'), **more)


def reset(p: Program) -> None:
    """`if down.any(): state[down] = begin(int(down.sum()))`, without the test."""
    call(p, *LINEAR)
    call(p, "aten::gt", '["float", "Scalar"]', FLOATS, "[]")
    call(p, "aten::sum", '["bool"]', "[64]")
    read(p)
    call(p, "aten::randn", '["ScalarList"]', "[]")
    masked(p, "aten::index_put_", "[[64, 8], [], [5, 8], []]")


def test_a_write_by_a_mask_is_a_choice_between_all_values() -> None:
    tape = tape_of(in_turns(reset))
    sized = sizes_read(tape)
    # Gone are the sum, the read and its wait; the test of each value and the random ones stay.
    assert int(sized.sum()) == 3 * LAYERS * tape.steps
    spread = masks_spread(tape)
    assert spread is not None
    assert int(spread.waits.sum()) == LAYERS * tape.steps  # those for the size
    m = program(in_turns(reset))
    offer = remove_syncs.offer(m)
    assert offer is not None
    assert offer.action.pytorch == text("remove_syncs", "of_masks")
    # linear, gt, randn, and the write, whose first launch began 4 us after the operator did.
    assert step_us(m, "remove_syncs") == pytest.approx(LAYERS * 4 * DISPATCH_US, rel=0.1)


def test_rows_that_a_product_worked_on_are_written_as_few() -> None:
    def turn(p: Program) -> None:
        masked(p, "aten::index", "[[64, 8], []]")
        call(p, *LINEAR)
        masked(p, "aten::index_put_", "[[64, 8], [], [5, 8], []]")

    assert masks_spread(tape_of(in_turns(turn))) is None


def test_a_number_that_is_only_logged_is_still_counted() -> None:
    def turn(p: Program) -> None:
        call(p, *LINEAR)
        call(p, "aten::sum", '["bool"]', "[64]")
        read(p)

    assert not sizes_read(tape_of(in_turns(turn))).any()


def filled_up(p: Program, largest: str = "39") -> None:
    """What `to_dense_batch` does in short: the largest molecule is read, and makes indices."""
    call(p, "aten::scatter_add_", '["long int", "long int", "long int"]', "[5]", "[64]", "[64]")
    call(p, "aten::max", '["long int"]', "[5]")
    read(p)
    columns = {"shapes": "[[64], []]", "dtypes": p.code('["long int", "Scalar"]')}
    values = p.code(f'["", "{largest}"]')
    within(p, "aten::mul", lambda p: p.spend(20).launch(ADD, 2), **columns, concrete=values)


def layer(p: Program, number: int, between: Turn, *, other_size: bool) -> None:
    filled_up(p, str(number) if other_size else "39")
    call(p, *LINEAR)
    between(p)


def nothing(_: Program) -> None:
    pass


def routed(p: Program) -> None:
    call(p, "aten::argmax", '["float", "Scalar"]', FLOATS, "[]")


def counted_on(p: Program) -> None:
    call(p, "aten::add_", '["long int", "Scalar"]', "[64]", "[]")


def counted(p: Program) -> None:
    call(p, "aten::add_", '["long int", "Scalar"]', "[]", "[]")


def layers(p: Program, between: Turn, *, other_size: bool) -> None:
    for number in range(LAYERS):
        layer(p, number, between, other_size=other_size)


@pytest.mark.parametrize(
    ("between", "other_size", "again"),
    [
        (nothing, False, True),
        (counted, False, True),
        (routed, False, False),
        (counted_on, False, False),
        (nothing, True, False),
    ],
)
def test_indices_of_the_same_integers_are_made_once(
    between: Turn, *, other_size: bool, again: bool
) -> None:
    """Not where a layer finds other integers in what the network says, counts on, or read another
    size."""
    tape = tape_of(partial(layers, between=between, other_size=other_size))
    events = 5  # scatter_add_, max, the read and its wait, mul
    gone = events * (LAYERS - 1) * tape.steps
    assert int(indices_again(tape).sum()) == (gone if again else 0)


def read_of_no_type(p: Program) -> None:
    """As nsys records it: a number has no sizes, and a copy tells no type."""

    def copied(p: Program) -> None:
        copy(p.spend(20), 2, CopyKind.DEVICE_TO_HOST, 8).sync()

    within(p, "aten::item", copied, shapes="[[]]")


@pytest.mark.parametrize(
    ("before", "again"), [('["long int"]', True), ('["float"]', False)], ids=["counts", "a loss"]
)
def test_a_read_of_no_type_is_of_what_was_made_before_it(before: str, *, again: bool) -> None:
    def turn(p: Program) -> None:
        call(p, "aten::max", before, "[64]")
        read_of_no_type(p)
        call(p, *LINEAR)

    tape = tape_of(in_turns(turn))
    gone = 3 * (LAYERS - 1) * tape.steps  # max, the read and its wait
    assert int(indices_again(tape).sum()) == (gone if again else 0)


def test_a_mask_is_searched_once_where_as_many_rows_are_picked_again() -> None:
    def step(p: Program) -> None:
        for _ in range(LAYERS):
            filled_up(p)
            masked(p, "aten::index", "[[128, 39, 8], []]")
            call(p, *LINEAR)

    tape = tape_of(step)
    picks = {node for node in picks_again(tape).tolist() if node >= 0}
    assert len(picks) == (LAYERS - 1) * tape.steps
    m = program(step)
    offer = remove_syncs.offer(m)
    assert offer is not None
    assert offer.action.pytorch == text("remove_syncs", "indices_once")
    first = 3 + 2 + 1  # scatter_add_, max, mul; both launches of the pick; linear
    later = (LAYERS - 1) * (2 + 1)  # up to the pick's first launch, and to its last; linear
    expected = (first + later) * DISPATCH_US
    assert step_us(m, "remove_syncs") == pytest.approx(expected, rel=0.05)


def test_rows_that_are_known_are_not_searched_on_the_way_back() -> None:
    def step(p: Program) -> None:
        for number in range(LAYERS):
            filled_up(p)
            masked(p, "aten::index", "[[128, 39, 8], []]", sequence=number + 1)
            call(p, *LINEAR)
        for number in reversed(range(LAYERS)):
            full = "autograd::engine::evaluate_function: IndexBackward0"
            masked(p, full, "[]", sequence=number + 1, forward_thread=1)

    tape = tape_of(step)
    # Each search is a launch, and a copy with its wait; the rows are put back by another launch.
    assert int(searches_in_backward(tape).sum()) == 3 * LAYERS * tape.steps


def test_masks_of_several_experts_are_several() -> None:
    """Each compares with its own number, also where it has as many rows."""

    def step(p: Program) -> None:
        for number in range(LAYERS):
            columns = {"shapes": "[[64], []]", "dtypes": p.code('["long int", "Scalar"]')}
            values = p.code(f'["", "{number}"]')
            within(p, "aten::eq", lambda p: p.spend(20).launch(ADD, 2), **columns, concrete=values)
            masked(p, "aten::index", "[[64, 8], []]")
            call(p, *LINEAR)

    assert (picks_again(tape_of(step)) < 0).all()
