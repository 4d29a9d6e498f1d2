"""Stretches that each have an item of a batch: a program takes the first dimension of a tensor
apart and works on each.

Nothing else tells such calls from the layers of one model, which repeat alike: a model that is
called for each of 24 texts launches what one of 24 times the layers would."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import are_named, nodes_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, distinct

APART = regex(r"^aten::unbind$")  # iterating over a tensor
SPLITS = regex(r"^aten::(unbind|split|split_with_sizes)$")
"""Takes a tensor apart: into its items, into parts of so many, or of these numbers of them."""
TAKES = regex(r"^aten::unsqueeze$")  # makes a batch of one of an item
PICKS = regex(r"^aten::(select|slice|narrow)$")  # takes an item out of a batch by its number
WRITES = regex(r"^aten::(copy_|fill_|zero_)$")  # writes to what was picked right before it
WORDS = regex(r"^aten::embedding$")  # looks tokens up; its second operand is a batch of texts
FEWEST_ITEMS = 4
NUMBER = 2  # place of an item's number among such an operator's values, after the dimension


class _Forward(NamedTuple):
    """The outermost operators of a step's forward pass."""

    operator: list[Operator]
    start: I64  # when the host calls them, ns
    shapes: I32  # codes of texts, -1 where there is none
    apart: Bool
    splits: Bool
    takes: Bool  # these three: whether they are called like `APART`, `SPLITS`, `TAKES`
    picks: Bool  # whether they take a part of a tensor by its number, but not to write to it


def _of_steps(tape: Tape) -> list[_Forward]:
    """The forward operators of each step on the tape."""
    linked = tape.source.linked
    tree = tape.source.linked.tree
    outer = tape.forward_operators
    step = np.searchsorted(tape.source.timed.steps.host_start, tree.start[outer], side="right") - 1
    on_tape = np.isin(step, tape.step_of_op)
    outer = outer[on_tape]
    step = step[on_tape]
    known = operators(linked)
    columns = (
        tree.start[outer],
        linked.trace.host_ranges.shapes[tree.row[outer]],
        are_named(linked, outer, APART),
        are_named(linked, outer, SPLITS),
        are_named(linked, outer, TAKES),
        are_named(linked, outer, PICKS) & ~_written_to(linked, outer),
    )
    in_step = (step == one for one in distinct(tape.step_of_op))
    return [
        _Forward(known.of_nodes(outer[here]), *(column[here] for column in columns))
        for here in in_step
    ]


def _written_to(linked: Linked, outer: I32 | I64) -> Bool:
    """Which of these operators write, or take a part of a tensor that the next one writes to; a
    part of a part, too."""
    picks = are_named(linked, outer, PICKS)
    written = are_named(linked, outer, WRITES)
    for i in np.flatnonzero(picks[:-1])[::-1].tolist():
        written[i] |= written[i + 1]
    return written


def item_starts(tape: Tape) -> Bool:
    """The ops with which work on the next item of a batch begins; where there is a backward pass
    only if each item has one of its own: of several items together, those of a sequence may depend
    on each other."""
    called = tape.source.trace.api_calls.start[tape.call][tape.event]
    backward = tape.in_backward
    learns = bool(backward.any())
    result = np.zeros(len(tape.row), bool)
    for times in _batches(tape, least_dimensions=1 if learns else 2):
        first = np.searchsorted(called, np.array(times, np.int64))
        first = first[first < len(called)]
        if learns and not len(first):
            continue
        if learns and result[first[0] : first[-1] + 1].any():
            continue
        # Each learns: there is a backward pass between any two ops with which items begin, and
        # after the last.
        passed_before = np.cumsum(backward)[np.maximum(first - 1, 0)]
        passed = np.append(passed_before, backward.sum())
        result[first] |= not learns or (np.diff(passed) > 0).all()
    return result


def takes_items(tape: Tape, calls: Bool) -> bool:
    """Whether each step takes several items out of a tensor, in whatever way, or makes batches of
    one of them, before the last of these ops. Calls that need each other, as iterations of a solver
    or moves of a game, do neither."""
    called = tape.source.trace.api_calls.start[tape.call][tape.event]
    step = tape.step_of_op
    chosen = (calls & (step == one) for one in distinct(step).tolist())
    ends = [called[here].max(initial=0) for here in chosen]
    forwards = zip(tape.memo(_of_steps), ends, strict=True)
    return all(_takes_items(one, end) for one, end in forwards)


def _takes_items(forward: _Forward, end: int) -> bool:
    before = forward.start < end
    splits, singles = (
        _along_first(forward, chosen & before) for chosen in (forward.splits, forward.takes)
    )
    if max([len(singles), *map(_parts, splits)]) >= FEWEST_ITEMS:
        return True
    numbers = defaultdict[tuple[int, str], list[int]](list)
    for i in np.flatnonzero(forward.picks & before).tolist():
        values = (*forward.operator[i].values, "", "", "")
        dimension, number = values[NUMBER - 1 : NUMBER + 1]
        if number.isdecimal():
            numbers[int(forward.shapes[i]), dimension].append(int(number))
    several = [
        (dimension, picked)
        for (_, dimension), picked in numbers.items()
        if len(set(picked)) >= FEWEST_ITEMS
    ]
    # Other dimensions than the first, such as time, are gone through in order.
    return any(
        along == "0" or one not in (sorted(one), sorted(one, reverse=True))
        for along, one in several
    )


def _along_first(forward: _Forward, chosen: Bool) -> list[Operator]:
    """The chosen operators that work along the first of several dimensions."""
    found = (forward.operator[i] for i in np.flatnonzero(chosen).tolist())
    several = (one for one in found if len(one.first) > 1)
    return [one for one in several if one.values[-1:] in ((), ("0",))]


def _parts(operator: Operator) -> int:
    """Into how many parts an operator takes the first dimension of a tensor."""
    size = operator.values[1] if len(operator.values) > NUMBER else "1"
    if size.isdecimal():
        return operator.first[0] // max(int(size), 1)
    return size.count(",") + 1


def _batches(tape: Tape, least_dimensions: int) -> Iterator[list[int]]:
    """For each batch of a step that is taken apart, when the host takes its items, ns."""
    for forward in tape.memo(_of_steps):
        yield from _taken_apart(forward)
        yield from _picked_by_number(forward, least_dimensions)


def _taken_apart(forward: _Forward) -> Iterator[list[int]]:
    """Batches that one operator splits into their items."""
    takes = np.flatnonzero(forward.takes).tolist()
    for batch, count in sorted(Counter(forward.shapes[forward.apart].tolist()).items()):
        shape = _shape(forward, batch)
        items = [i for i in takes if forward.operator[i].first == shape[1:]]
        if len(shape) > 1 and len(items) == shape[0] * count >= FEWEST_ITEMS * count:
            yield forward.start[items].tolist()


def _picked_by_number(forward: _Forward, least_dimensions: int) -> Iterator[list[int]]:
    """Batches whose items are picked one by one."""
    for batch in distinct(forward.shapes[forward.picks]).tolist():
        shape = _shape(forward, batch)
        picked = np.flatnonzero(forward.picks & (forward.shapes == batch))
        if len(shape) >= least_dimensions and shape[0] >= FEWEST_ITEMS:
            yield forward.start[picked[_next_ones(forward, picked, shape[0])]].tolist()


def _shape(forward: _Forward, batch: int) -> tuple[int, ...]:
    """The shape of the first operand of what has this text of shapes."""
    return forward.operator[int((forward.shapes == batch).argmax())].first


def _next_ones(forward: _Forward, picked: I64, count: int) -> Bool:
    """Which of these take the next of so many items along the first dimension; none unless all are
    taken in turn."""
    picks = [forward.operator[i] for i in picked.tolist()]
    along = all(len(one.values) > NUMBER and one.values[NUMBER - 1] == "0" for one in picks)
    numbers = [one.values[NUMBER] if along else "" for one in picks]
    new = np.array([a != b for a, b in pairwise(["", *numbers])], bool)
    return new & (along and len(set(numbers)) == count and int(new.sum()) % count == 0)


def single_tokens(tape: Tape) -> Bool:
    """The ops that look up one token of each text: a decoder that goes on from what it has just
    said."""
    tree = tape.source.linked.tree
    words = nodes_named(tape.source.linked, WORDS)
    words[words] = operators(tape.source.linked).tell(np.flatnonzero(words), _one_token)
    return tape.of_launches(tree.innermost(words) >= 0)


def _one_token(lookup: Operator) -> bool:
    texts = lookup.inputs[1] if len(lookup.inputs) > 1 else None
    return isinstance(texts, Tensor) and len(texts.shape) > 1 and texts.shape[-1] == 1
