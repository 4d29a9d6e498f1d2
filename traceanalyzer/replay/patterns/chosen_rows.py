"""Loops whose turns each look for the rows that are theirs: experts that go through all tokens by
`torch.where(chosen == number)`.

Told by what is compared (one tensor, with one number after another), by the rows being looked for
right after it, and by results being added to rows of one tensor at each turn's end."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.independent import has_weights
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, distinct

FEWEST_TURNS = 4
LONGEST_TURN_OPERATORS = 64
EQUALS = regex(r"^aten::eq$")
LOOKS_FOR = regex(r"^aten::(where|nonzero|nonzero_numpy|argwhere)$")
NUMBER = 1
"""Place of the number among the values of a comparison."""
ADDS_ROWS = regex(r"^aten::(index_add_?|index_put_?|scatter_add_?)$")


@dataclass(frozen=True)
class ChosenRows:
    """The turns of one loop, by operators: nodes of the host tree."""

    count: int
    around_first: tuple[int, ...]
    """Of the first turn what is not its network: it looks for rows, takes and adds them."""
    around_others: tuple[int, ...]
    """Of all later ones."""


def chosen_rows(tape: Tape) -> list[ChosenRows]:
    """The loops of all steps on a tape."""
    if not texts_where(tape.source.trace.strings, LOOKS_FOR.search).any():
        return []
    steps = tape.source.timed.steps
    tree = tape.source.linked.tree
    outer = tape.forward_operators
    found = list[ChosenRows]()
    for step in distinct(steps.of_op[tape.row]).tolist():
        in_step = tree.start[outer] >= steps.host_start[step]
        in_step &= tree.start[outer] < steps.host_end[step]
        nodes = outer[in_step]
        found += _of_step(nodes, operators(tape.source.linked).of_nodes(nodes))
    return found


def _of_step(nodes: I64, run: Sequence[Operator]) -> Iterator[ChosenRows]:
    begins = [i for i, (one, after) in enumerate(pairwise(run)) if _begins(one, after)]
    loop = list[int]()
    for begin in begins:
        if loop and not _follows(run, loop[-1], begin):
            yield from _made(nodes, run, loop)
            loop = []
        loop.append(begin)
    yield from _made(nodes, run, loop)


def _begins(operator: Operator, after: Operator) -> bool:
    """Whether a turn begins here: a tensor is compared with a number, and where it is that is looked
    for."""
    compares = operator.named(EQUALS) and len(operator.shapes) == 1
    looks = after.named(LOOKS_FOR) and after.shapes == operator.shapes
    return compares and looks and _number(operator) is not None


def _number(operator: Operator) -> int | None:
    text = operator.values[NUMBER] if len(operator.values) > NUMBER else ""
    return int(text) if text.isdecimal() else None


def _follows(run: Sequence[Operator], before: int, begin: int) -> bool:
    """Whether a turn is the next of its loop: the same tensor, and a larger number."""
    numbers = _number(run[before]), _number(run[begin])
    rises = None not in numbers and (numbers[0] or 0) < (numbers[1] or 0)
    near = begin - before <= LONGEST_TURN_OPERATORS
    return near and rises and run[before].shapes == run[begin].shapes


def _made(nodes: I64, run: Sequence[Operator], begins: Sequence[int]) -> Iterator[ChosenRows]:
    """The loop with turns from these places on, where each has a network of the same weights'
    shapes and adds what it gives to rows."""
    turns = [_turn(run, begin) for begin in begins]
    if len(turns) < FEWEST_TURNS or not all(turns):
        return
    weights = [_weights(run, turn) for turn in turns]
    if not weights[0] or weights.count(weights[0]) < len(turns):
        return
    around = [[int(nodes[i]) for i in _around(run, turn)] for turn in turns]
    others = [node for turn in around[1:] for node in turn]
    yield ChosenRows(len(turns), tuple(around[0]), tuple(others))


def _weights(run: Sequence[Operator], turn: range) -> list[list[Shape]]:
    return [run[i].shapes[1:] for i in turn if has_weights(run[i])]


def _turn(run: Sequence[Operator], begin: int) -> range:
    """The places of a turn, up to the operator that adds its rows; empty without one."""
    places = range(begin, min(begin + LONGEST_TURN_OPERATORS, len(run)))
    last = next((i for i in places if run[i].named(ADDS_ROWS)), None)
    return range(0) if last is None else range(begin, last + 1)


def _around(run: Sequence[Operator], turn: range) -> Iterator[int]:
    """Places of a turn before its first operator with weights and after its last one."""
    inner = [i for i in turn if has_weights(run[i])]
    return (i for i in turn if i < inner[0] or i > inner[-1])
