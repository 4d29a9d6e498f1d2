"""Loops whose turns count: each takes the next part of the same tensors by its number (`x[:, k]`,
k + 1, ...), and nothing of another turn but a sum to which all add.

A recording names no tensors, only their shapes. So a turn may need the one before it where it takes
a tensor of a size that a turn gives and that it has not given itself before, or has given less
often than it is taken: the state of a scan, a residual, too. Where what an operator gives is not
known, what is taken alike in all turns may be that. A turn whose values the program reads may
steer the next one. All these are left alone. A sum to which rows are added (`index_add`) is no
state, though what it adds may be gathered from a tensor of its shape: messages of a graph."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.ensemble_members import share_weights
from traceanalyzer.replay.patterns.independent import data_and_weights, has_weights
from traceanalyzer.replay.patterns.item_turns import ItemTurns
from traceanalyzer.replay.patterns.operators import JOINING, Operator, operators, output_shape
from traceanalyzer.replay.patterns.repeats import Loop, Repeat, codes, forward_of_steps
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, CopyKind, distinct

FEWEST_TURNS = 6
LONGEST_TURN_OPERATORS = 64
PICKS = regex(r"^aten::(select|slice|narrow)$")
"""Takes a part of a tensor by its number: after the dimension."""
VIEWS = regex(
    r"^aten::(view|reshape|_unsafe_view|t|transpose|permute|unsqueeze|squeeze|expand|expand_as"
    r"|flatten|detach|alias|unflatten)$"
)
"""Gives the same numbers."""
MAKES = regex(r"^aten::(full|zeros|ones|empty|arange|new_\w+|scalar_tensor)$")
SCATTERS = regex(r"^aten::(index_add|scatter_add|index_put|scatter_reduce|index_reduce)_?$")
"""Adds rows to those of its first tensor."""
GATHERS = regex(r"^aten::(index|index_select|gather|embedding|take_along_dim)$")
LOSSES = regex(r"(_loss|cross_entropy)$")
"""Gives one number."""
STATEFUL = regex(r"(lstm|gru|rnn)")
COUNTS = regex(
    r"(index|nonzero|masked_select|nms|unique(?:(?!unique)\w)*|repeat_interleave|_put_?)$"
)
"""Reads how many values there are, for itself."""


def counted_turns(tape: Tape) -> list[ItemTurns]:
    """The loops of all steps on a tape."""
    read = _read(tape)
    return [turns for nodes in forward_of_steps(tape) for turns in _of_step(tape, nodes, read)]


def _of_step(tape: Tape, nodes: I64, read: set[int]) -> Iterator[ItemTurns]:
    run_of = operators(tape.source.linked).of_nodes(nodes)
    ranges = tape.source.trace.host_ranges
    code = codes(ranges.name[tape.source.linked.tree.row[nodes]])
    loop = Loop(FEWEST_TURNS, LONGEST_TURN_OPERATORS, _may_count)
    for found in loop.find(tape, nodes.astype(np.int64), code):
        run = _from_counter(run_of, found)
        if run is None:
            continue
        starts = range(run.first, run.stop, run.period)
        turns = [run_of[at : at + run.period] for at in starts]
        is_read = not read.isdisjoint(nodes[run.first : run.stop].tolist())
        if is_read or may_need_each_other(turns):
            continue
        yield ItemTurns(
            first=tuple(nodes[run.first : run.first + run.period].tolist()),
            others=tuple(nodes[run.first + run.period : run.stop].tolist()),
            count=run.times,
            shared=(),
            own_weights=any(map(has_weights, turns[0]))
            and not share_weights(tape, turns[0], run.times),
        )


def _read(tape: Tape) -> set[int]:
    """The outermost operators whose values the program reads."""
    outer = tape.of_launches(tape.source.linked.tree.outer_operator)
    reads = distinct(outer[tape.copies_of(CopyKind.DEVICE_TO_HOST)])
    named = operators(tape.source.linked).of_nodes(reads)
    pairs = zip(reads.tolist(), named, strict=True)
    return {node for node, operator in pairs if not operator.named(COUNTS)}


def _may_count(turn: Sequence[Operator]) -> bool:
    """Whether a turn takes a part of a tensor, and does something with it."""
    works = [one for one in turn if not one.named(PICKS, VIEWS)]
    return bool(works) and any(one.named(PICKS) for one in turn)


def _from_counter(run_of: Sequence[Operator], run: Repeat) -> Repeat | None:
    """The loop from where a turn takes the first part whose number rises by as much from turn to
    turn; None where none does."""
    for place in range(run.period):
        picks = run_of[run.first + place : run.stop : run.period]
        if picks[0].named(PICKS) and _rises(picks):
            first = run.first + place
            return Repeat(first, run.period, run.times - (place > 0))
    return None


def _rises(picks: Sequence[Operator]) -> bool:
    """Whether these take the next part each, along one dimension of tensors of one shape."""
    along = {(one.first, one.values[1:2]) for one in picks}
    numbers = [_number(one) for one in picks]
    known = [number for number in numbers if number is not None]
    if len(along) > 1 or len(known) < len(numbers):
        return False
    apart = {after - before for before, after in pairwise(known)}
    return len(apart) == 1 and apart != {0}


def _number(pick: Operator) -> int | None:
    text = pick.values[2] if len(pick.values) > 2 else ""
    return int(text) if text.lstrip("-").isdecimal() else None


Place = tuple[int, int]
"""Of an operator in a turn, and of a tensor among those that it takes."""


@dataclass(frozen=True)
class _Turn:
    """What a turn gives, and what it takes that an earlier one may have given."""

    given: frozenset[int]
    """How many numbers its results have."""
    taken: dict[Place, int]
    """How many numbers there are in what it may not have given itself."""
    is_told: bool
    """Whether all that it gives is known."""


def may_need_each_other(turns: Sequence[Sequence[Operator]]) -> bool:
    """Whether the same operand of each turn may be what the turn before it gave."""
    if any(one.named(STATEFUL) for one in turns[0]):
        return True
    told = list(map(_told, turns))
    places = set.intersection(*(set(turn.taken) for turn in told))
    return any(_may_be_state(told, place) for place in places)


def _may_be_state(turns: Sequence[_Turn], place: Place) -> bool:
    sizes = [turn.taken[place] for turn in turns]
    if all(size in before.given for before, size in zip(turns, sizes[1:], strict=False)):
        return True
    # A state keeps its size, or grows: those of items go up and down.
    steady = sizes in (sorted(sizes), sorted(sizes, reverse=True))
    return steady and not all(turn.is_told for turn in turns)


def _told(turn: Sequence[Operator]) -> _Turn:
    working = {at: one for at, one in enumerate(turn) if not one.named(VIEWS)}
    last = max(working)
    sums_rows = working[last].named(SCATTERS)
    results = _Results()
    taken = dict[Place, int]()
    for at, operator in working.items():
        is_of_sum = sums_rows and (at == last or operator.named(GATHERS))
        for operand, size in _sizes(operator):
            if not (is_of_sum and operand == 0) and not results.took(size):
                taken[at, operand] = size
        results.gives(_gives(operator))
    return _Turn(frozenset(results.given), taken, results.unknown == 0)


class _Results:
    """What the operators of a turn have given so far."""

    def __init__(self) -> None:
        self.given = set[int]()
        """How many numbers they have."""
        self.unknown = 0
        """Those whose size is not known."""
        self._left = Counter[int]()
        """Those that nothing has taken."""

    def took(self, size: int) -> bool:
        """Whether a result of this size, which nothing has taken, can be what is taken now. One of
        unknown size is known then."""
        if self._left[size]:
            self._left[size] -= 1
            return True
        if not self.unknown or size in self.given:
            return False
        self.unknown -= 1
        self.given.add(size)
        return True

    def gives(self, shape: Shape | None) -> None:
        """An operator gives this; None where that is not known."""
        if shape is None:
            self.unknown += 1
        else:
            self._left[math.prod(shape)] += 1
            self.given.add(math.prod(shape))


def _sizes(operator: Operator) -> Iterator[tuple[int, int]]:
    """The place of each tensor that an operator takes, and how many numbers it has. Weights are
    left out, what parts are taken of, and single numbers, which are recorded like none."""
    if operator.named(PICKS):
        return
    for place, shape in enumerate(data_and_weights(operator)[0]):
        if shape:
            yield place, math.prod(shape)


def _gives(operator: Operator) -> Shape | None:
    """The shape of what an operator gives; None where it is not known."""
    if operator.named(PICKS):
        return _part(operator)
    if operator.named(MAKES):
        return _made(operator)
    if operator.named(SCATTERS):
        return operator.first
    if operator.named(LOSSES) or not (operator.shapes or operator.listed):
        return ()  # what takes single numbers gives one
    if operator.named(JOINING):
        return _joint(operator)
    return output_shape(operator)


def _part(pick: Operator) -> Shape | None:
    shape = pick.first
    values = pick.values
    if not shape or len(values) < 2 or not values[1].lstrip("-").isdecimal():
        return None
    dimension = int(values[1]) % len(shape)
    before = shape[:dimension]
    after = shape[dimension + 1 :]
    if pick.name.endswith("select"):
        return before + after
    numbers = [int(text) for text in values[2:4] if text.lstrip("-").isdecimal()]
    if len(numbers) < 2:
        return None
    length = numbers[1] if pick.name.endswith("narrow") else numbers[1] - numbers[0]
    length = min(max(length, 0), shape[dimension])
    return (*before, length, *after)


def _made(operator: Operator) -> Shape | None:
    text = operator.values[0] if operator.values else ""
    numbers = re.findall(r"(?<!\d)\d{1,18}(?!\d)", text)
    return tuple(map(int, numbers)) if text.startswith("[") else None


def _joint(operator: Operator) -> Shape | None:
    """The size of what several tensors are together."""
    return (sum(map(math.prod, operator.listed)),) if operator.listed else None
