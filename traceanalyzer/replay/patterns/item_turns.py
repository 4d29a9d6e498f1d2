"""Loops whose turns each take an item of their own out of tensors, and nothing of another turn.

Shapes alone do not tell such turns from layers or time steps. Three things together do: a tensor is
taken apart into as many items as there are turns; within a turn each operator takes what the one
before it gives, and beside it only items, or tensors of sizes that no turn gives; and the results
of all turns are put together."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.independent import is_collected
from traceanalyzer.replay.patterns.named import are_named
from traceanalyzer.replay.patterns.operators import LARGER, Operator, operators, output_shape
from traceanalyzer.replay.patterns.repeats import Loop, codes, forward_of_steps
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64

FEWEST_TURNS = 4
LONGEST_TURN_OPERATORS = 32
APART = regex(r"^aten::(unbind|split|chunk)$")
"""Takes a tensor apart into equal items."""
PART_OF_TURN = regex(
    r"^aten::(select|slice|narrow|unbind|split|split_with_sizes|chunk|cat|stack|concat)$"
)
"""In a turn, sizes no longer say what is taken of what."""
ALIKE = regex(r"^aten::(view|reshape|_unsafe_view|t|transpose|permute|unsqueeze|squeeze)$")
"""Gives the same numbers, launching nothing."""
VECTOR = regex(r"^aten::(matmul|mv)$")
BATCHES = regex(r"^aten::(matmul|bmm)$")
PICKS_FEWER = regex(
    r"^aten::(topk|sum|mean|amax|amin|max|min|prod|norm|linalg_vector_norm|logsumexp|argmax|argmin)$"
)
"""Gives fewer numbers than it takes."""


@dataclass(frozen=True)
class Shared:
    """A tensor that all turns take alike."""

    operator: int
    """Of the first turn, which takes it: a node of the host tree."""
    share: float
    """Of the numbers that the operator takes and gives, those that are its."""


@dataclass(frozen=True)
class ItemTurns:
    """The turns of one loop."""

    first: tuple[int, ...]
    """Operators of its first turn, nodes of the host tree."""
    others: tuple[int, ...]
    count: int
    shared: tuple[Shared, ...]
    """What is no item, and not what the operator before gives."""
    own_weights: bool
    """Whether a turn takes several items: weights of its own."""


def item_turns(tape: Tape) -> list[ItemTurns]:
    """The loops of all steps on a tape."""
    return [turns for nodes in forward_of_steps(tape) for turns in _of_step(tape, nodes)]


def _of_step(tape: Tape, nodes: I64) -> Iterator[ItemTurns]:
    if not are_named(tape.source.linked, nodes, APART).any():
        return
    run_of = operators(tape.source.linked).of_nodes(nodes)
    ranges = tape.source.trace.host_ranges
    row = tape.source.linked.tree.row[nodes]
    code = codes(ranges.name[row], ranges.shapes[row])
    loop = Loop(FEWEST_TURNS, LONGEST_TURN_OPERATORS, lambda run: _taken(run, None) is not None)
    step = np.zeros(len(nodes), np.int32)
    for run in loop.find(tape, nodes.astype(np.int64), code):
        turn = run_of[run.first : run.first + run.period]
        items = _items(run_of[: run.first], run.times)
        taken = _taken(turn, items)
        if taken is None or not is_collected(run_of, step, run):
            continue
        yield ItemTurns(
            first=tuple(nodes[run.first : run.first + run.period].tolist()),
            others=tuple(nodes[run.first + run.period : run.stop].tolist()),
            count=run.times,
            shared=tuple(
                Shared(int(nodes[run.first + i]), _share(turn[i], size)) for i, size in taken.shared
            ),
            own_weights=taken.items > 1,
        )


def _share(operator: Operator, numbers: int) -> float:
    moved = sum(map(_size, operator.shapes)) + (_gives(operator) or 0)
    return numbers / max(moved, 1)


def _items(before: Sequence[Operator], count: int) -> Counter[int]:
    """Sizes of the items into which tensors were taken apart, so many each."""
    taken_apart = (one for one in before if one.named(APART) and _parts(one) == count)
    return Counter(_size(one.first) // count for one in taken_apart)


def _parts(operator: Operator) -> int:
    """Into how many equal items an operator takes a tensor apart; 0 where that is not told."""
    shape = operator.first
    numbers = [int(text) for text in operator.values[1:3] if text.lstrip("-").isdecimal()]
    is_unbind = operator.name.endswith("unbind")
    if not shape or len(numbers) < (1 if is_unbind else 2):
        return 0
    dimension = numbers[0] if is_unbind else numbers[1]
    if not -len(shape) <= dimension < len(shape):
        return 0
    length = shape[dimension]
    if is_unbind:
        return length
    number = numbers[0]
    if number <= 0 or length % number:
        return 0
    return number if operator.name.endswith("chunk") else length // number


@dataclass(frozen=True)
class _Taken:
    """What a turn takes beside what it gives itself."""

    items: int
    shared: tuple[tuple[int, int], ...]
    """Place of an operator in the turn, and the size of a tensor that it takes."""


def _taken(turn: Sequence[Operator], items: Counter[int] | None) -> _Taken | None:
    """What a turn takes; None where it may take something of another turn. Without `items` (which
    are not known yet) only whether it is a chain."""
    places = [i for i, one in enumerate(turn) if not one.named(ALIKE)]
    steps = [turn[i] for i in places]
    if not steps or any(one.named(PART_OF_TURN) for one in steps):
        return None
    gives = list(map(_gives, steps))
    if None in gives[:-1] or (gives[-1] is None and not _picks_fewer(steps)):
        return None
    if items is None:
        return _Taken(0, ())
    found = _walked(zip(places, steps, gives, strict=True), Counter(items))
    if found is None or not found.items or found.items < sum(items.values()):
        return None
    return found if _is_clear(found, gives, items) else None


def _is_clear(found: _Taken, gives: Sequence[int | None], items: Counter[int]) -> bool:
    """Whether nothing that a turn shares with others has the size of what it gives itself."""
    given_by_turn = {size for size in gives if size is not None} | items.keys()
    # Where the last result's size is not known it is less than what it is made of.
    least = gives[-2] if gives[-1] is None and len(gives) > 1 else 0
    return all(size not in given_by_turn and size > (least or 0) for _, size in found.shared)


def _walked(steps: Iterable[tuple[int, Operator, int | None]], left: Counter[int]) -> _Taken | None:
    """What operators (place, operator, how many numbers it gives) take besides what the one before
    each gives; None where one does not take that. `left` are the items to be taken."""
    taken = 0
    shared = list[tuple[int, int]]()
    before: int | None = None
    for place, operator, given in steps:
        sizes = list(map(_size, operator.shapes))
        if before is not None and before not in sizes:
            return None
        if before is not None:
            sizes.remove(before)
        for size in sizes:
            if left[size] > 0:
                left[size] -= 1
                taken += 1
            else:
                shared.append((place, size))
        before = given
    return _Taken(taken, tuple(shared))


def _picks_fewer(steps: Sequence[Operator]) -> bool:
    """Whether a turn ends with a choice or a sum, and no operator may take that of another turn: a
    single number among operands is recorded like none."""
    return steps[-1].named(PICKS_FEWER) and not any(one.named(LARGER) for one in steps)


def _gives(operator: Operator) -> int | None:
    """How many numbers an operator gives; None where that is not known."""
    shapes = operator.shapes
    if len(shapes) == 2 and operator.named(VECTOR) and len(shapes[1]) == 1 and shapes[0]:
        return _size(shapes[0][:-1])
    if len(shapes) == 2 and operator.named(BATCHES) and 2 < len(shapes[0]) == len(shapes[1]):
        return _size((*shapes[0][:-1], shapes[1][-1]))
    given = output_shape(operator)
    return None if given is None else _size(given)


def _size(shape: Shape) -> int:
    return math.prod(shape)
