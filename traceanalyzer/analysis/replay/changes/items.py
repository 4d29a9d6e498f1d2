"""Loops over the items of a batch: where a program takes the first dimension of a tensor apart and works on each part.

Nothing else tells such calls from the layers of one model, which repeat alike: a model that is called for each of 24
texts launches what one of 24 times the layers would.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.lookup import at
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.on_tape import forward_operators, in_backward
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs, parse_values
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, I64, Bool

APART = re.compile(r"^aten::unbind$")
"""Iterating over a tensor."""
SPLITS = re.compile(r"^aten::(unbind|split|split_with_sizes)$")
"""Takes a tensor apart: into its items, into parts of so many, or of these numbers of them."""
TAKES = re.compile(r"^aten::unsqueeze$")
"""Makes a batch of one of an item."""
PICKS = re.compile(r"^aten::(select|slice|narrow)$")
"""Takes an item out of a batch by its number."""
WRITES = re.compile(r"^aten::(copy_|fill_|zero_)$")
"""Writes to what was picked right before it."""
WORDS = re.compile(r"^aten::embedding$")
"""Looks tokens up; its second operand is a batch of texts."""
FEWEST_ITEMS = 4
NUMBER = 2
"""Place of an item's number among such an operator's values, after the dimension."""


def item_starts(tape: Tape) -> Bool:
    """The ops with which work on the next item of a batch begins; where there is a backward pass only if each item has
    one of its own: of several items together, those of a sequence may depend on each other."""
    called = tape.source.trace.api_calls.start[tape.call][tape.event]
    backward = in_backward(tape)
    learns = bool(backward.any())
    result = np.zeros(len(tape.row), bool)
    for times in _batches(tape, least_dimensions=1 if learns else 2):
        first = np.searchsorted(called, np.array(times, np.int64))
        first = first[first < len(called)]
        if learns and (not len(first) or result[first[0] : first[-1] + 1].any() or not _each_learns(first, backward)):
            continue
        result[first] = True
    return result


def _each_learns(first: I64, backward: Bool) -> bool:
    """Whether there is a backward pass between any two of the ops with which items begin, and after the last."""
    passed = np.append(np.cumsum(backward)[np.maximum(first - 1, 0)], backward.sum())
    return bool((np.diff(passed) > 0).all())


class _Operators(NamedTuple):
    """The outermost operators of a step's forward pass."""

    start: I64
    """When the host calls them, ns."""
    shapes: I32
    concrete: I32
    """Codes of texts, -1 where there is none."""
    apart: Bool
    splits: Bool
    takes: Bool
    """Whether they are called like `APART`, `SPLITS`, `TAKES`."""
    picks: Bool
    """Whether they take a part of a tensor by its number, but not to write to it."""


def _of_steps(tape: Tape) -> list[_Operators]:
    """Those of each step on the tape."""
    tree, trace, ranges = tape.source.tree, tape.source.trace, tape.source.trace.host_ranges
    outer = forward_operators(tape)
    step = np.searchsorted(tape.source.steps.host_start, tree.start[outer], side="right") - 1
    here = np.isin(step, tape.step_of_op)
    outer, step = outer[here], step[here]
    row = tree.row[outer]
    apart, splits, takes, picks, written = (
        texts_where(trace.strings, pattern.match)[ranges.name[row]] for pattern in (APART, SPLITS, TAKES, PICKS, WRITES)
    )
    for i in np.flatnonzero(picks[:-1])[::-1].tolist():  # a part of a part, too
        written[i] |= written[i + 1]
    columns = (tree.start[outer], ranges.shapes[row], ranges.concrete[row], apart, splits, takes, picks & ~written)
    steps = [step == one for one in distinct(tape.step_of_op).tolist()]
    return [_Operators(*(column[mine] for column in columns)) for mine in steps]


def takes_items(tape: Tape, calls: Bool) -> bool:
    """Whether each step takes several items out of a tensor, in whatever way, or makes batches of one of them, before
    the last of these ops. Calls that need each other, as iterations of a solver or moves of a game, do neither."""
    called, step = tape.source.trace.api_calls.start[tape.call][tape.event], tape.step_of_op
    ends = [called[calls & (step == one)].max(initial=0) for one in distinct(step).tolist()]
    return all(_takes_items(tape, operators, end) for operators, end in zip(tape.once(_of_steps), ends, strict=True))


def _takes_items(tape: Tape, operators: _Operators, end: int) -> bool:
    usable = (operators.splits | operators.takes | operators.picks) & (operators.start < end)
    singles, numbers = 0, dict[tuple[int, str], list[int]]()
    for i in np.flatnonzero(usable).tolist():
        values = parse_values(tape.source.trace.text(int(operators.concrete[i])))
        shape = first_shape(tape, int(operators.shapes[i]))
        if operators.picks[i]:
            dimension, number = (*values, "", "", "")[NUMBER - 1 : NUMBER + 1]
            if number.isdecimal():
                numbers.setdefault((int(operators.shapes[i]), dimension), []).append(int(number))
        elif values[-1:] in ((), ("0",)) and len(shape) > 1:
            singles += operators.takes[i]
            if operators.splits[i] and _parts(shape[0], values) >= FEWEST_ITEMS:
                return True
    return singles >= FEWEST_ITEMS or any(_of_items(of, dimension) for (_, dimension), of in numbers.items())


def _parts(items: int, values: tuple[str, ...]) -> int:
    """Into how many parts so many items are taken."""
    size = values[1] if len(values) > NUMBER else "1"
    return items // max(int(size), 1) if size.isdecimal() else size.count(",") + 1


def _of_items(numbers: list[int], dimension: str) -> bool:
    """Whether these are numbers of items: other dimensions, such as time, are gone through in order."""
    several = len(set(numbers)) >= FEWEST_ITEMS
    in_order = all(a <= b for a, b in pairwise(numbers)) or all(a >= b for a, b in pairwise(numbers))
    return several and (dimension == "0" or not in_order)


def _batches(tape: Tape, least_dimensions: int) -> Iterator[list[int]]:
    """For each batch of a step that is taken apart, when the host takes its items, ns."""
    for operators in tape.once(_of_steps):
        start, shapes, picks = operators.start, operators.shapes, operators.picks
        for batch, count in _counted(shapes[operators.apart]):
            shape = first_shape(tape, batch)
            items = operators.takes & _of_shape(tape, shapes, shape[1:])
            if len(shape) > 1 and shape[0] >= FEWEST_ITEMS and items.sum() == shape[0] * count:
                yield start[items].tolist()
        for batch, _ in _counted(shapes[picks]):
            shape, picked = first_shape(tape, batch), np.flatnonzero(picks & (shapes == batch))
            if len(shape) >= least_dimensions and shape[0] >= FEWEST_ITEMS:
                yield start[picked[_next_ones(tape, operators.concrete[picked], shape[0])]].tolist()


def _next_ones(tape: Tape, codes: I32, count: int) -> Bool:
    """Which of these operators take the next one of so many items along the first dimension, by their values; none if
    they do not take all of them in turn."""
    values = [parse_values(tape.source.trace.text(code)) for code in codes.tolist()]
    along = all(len(one) > NUMBER and one[NUMBER - 1] == "0" for one in values)
    numbers = [one[NUMBER] if along else "" for one in values]
    new = np.array([a != b for a, b in pairwise(["", *numbers])], bool)
    return new & (along and len(set(numbers)) == count and int(new.sum()) % count == 0)


def single_tokens(tape: Tape) -> Bool:
    """The ops that look up one token of each text: a decoder that goes on from what it has just said."""
    ranges = tape.source.trace.host_ranges
    words = texts_where(tape.source.trace.strings, WORDS.match)[ranges.name]
    code, index = np.unique(ranges.shapes[words], return_inverse=True)
    words[words] = np.array([_one_token(tape, one) for one in code.tolist()], bool)[index]
    result: Bool = tape.around.inside(at(words, tape.around.row, False))[tape.event]
    return result


def _one_token(tape: Tape, code: int) -> bool:
    inputs = parse_inputs(tape.source.trace.text(code) or "", None, None) if code >= 0 else None
    texts = inputs[1] if inputs and len(inputs) > 1 else None
    return isinstance(texts, Tensor) and len(texts.shape) > 1 and texts.shape[-1] == 1


def _counted(codes: I32) -> list[tuple[int, int]]:
    values, counts = np.unique(codes, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def first_shape(tape: Tape, code: int) -> tuple[int, ...]:
    """The shape of the first operand that this text of shapes has; () where that is none."""
    inputs = parse_inputs(tape.source.trace.text(code) or "", None, None) if code >= 0 else None
    return inputs[0].shape if inputs and isinstance(inputs[0], Tensor) else ()


def _of_shape(tape: Tape, codes: I32, shape: tuple[int, ...]) -> Bool:
    """Which of these texts of shapes begin with this one."""
    known = distinct(codes)
    alike = np.array([first_shape(tape, code) == shape for code in known.tolist()], bool)
    result: Bool = alike[np.searchsorted(known, codes)]
    return result
