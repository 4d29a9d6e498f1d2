"""Loops whose turns each repeat the rows of an item (`repeat_interleave`), and wait to know how many
there are.

Told by such operators that follow each other with nothing but views between, on rows of one width."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.chosen_rows import ChosenRows
from traceanalyzer.replay.patterns.counted_turns import PICKS, VIEWS
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.patterns.repeats import forward_of_steps
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64

REPEATS = regex(r"^aten::repeat_interleave$")
JOINS = regex(r"^aten::(pad_sequence|cat|stack)$")
FEWEST_TURNS = 4


def repeated_rows(tape: Tape) -> list[ChosenRows]:
    """The loops of all steps on a tape."""
    linked = tape.source.linked
    if not texts_where(tape.source.trace.strings, REPEATS.search).any():
        return []
    return [
        loop
        for nodes in forward_of_steps(tape)
        for loop in _of_step(nodes, operators(linked).of_nodes(nodes))
    ]


def _of_step(nodes: I64, run: Sequence[Operator]) -> Iterator[ChosenRows]:
    working = [place for place, one in enumerate(run) if not one.named(PICKS, VIEWS)]
    end = 0
    for width, places in groupby(working, key=lambda place: _width(run[place])):
        turns = list(places)
        end += len(turns)
        if len(turns) < FEWEST_TURNS or width is None:
            continue
        joint = [place for place in working[end : end + 1] if run[place].named(JOINS)]
        # Rows that are repeated at once are put together so already.
        first, *others = nodes[[*turns, *joint]].tolist()
        yield ChosenRows(len(turns), (first,), tuple(others))


def _width(operator: Operator) -> Shape | None:
    """The shape of each row that is repeated, so often as a second tensor says; None where nothing
    is."""
    repeats = operator.named(REPEATS) and len(list(filter(None, operator.shapes))) > 1
    return operator.first[1:] if repeats else None
