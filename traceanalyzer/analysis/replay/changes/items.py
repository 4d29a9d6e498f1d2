"""Loops over the items of a batch: where a program takes the first dimension of a tensor apart and works on each part.

Nothing else tells such calls from the layers of one model, which repeat alike: a model that is called for each of 24
texts launches what one of 24 times the layers would.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

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
TAKES = re.compile(r"^aten::unsqueeze$")
"""Makes a batch of one of an item."""
PICKS = re.compile(r"^aten::(select|slice|narrow)$")
"""Takes an item out of a batch by its number."""
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


def _batches(tape: Tape, least_dimensions: int) -> Iterator[list[int]]:
    """For each batch of a step that is taken apart, when the host takes its items, ns."""
    tree, trace, ranges = tape.source.tree, tape.source.trace, tape.source.trace.host_ranges
    outer = forward_operators(tape)
    step = np.searchsorted(tape.source.steps.host_start, tree.start[outer], side="right")
    here = np.isin(step, distinct(tape.step_of_op) + 1)
    outer, step = outer[here], step[here]
    row = tree.row[outer]
    name, shapes, concrete = ranges.name[row], ranges.shapes[row], ranges.concrete[row]
    apart, takes, picks = (texts_where(trace.strings, pattern.match)[name] for pattern in (APART, TAKES, PICKS))
    for one in distinct(step[apart | picks]).tolist():
        here = step == one
        for batch, count in _counted(shapes[here & apart]):
            shape = first_shape(tape, batch)
            items = here & takes & _of_shape(tape, shapes, shape[1:])
            if len(shape) > 1 and shape[0] >= FEWEST_ITEMS and items.sum() == shape[0] * count:
                yield tree.start[outer[items]].tolist()
        for batch, _ in _counted(shapes[here & picks]):
            shape, items = first_shape(tape, batch), np.flatnonzero(here & picks & (shapes == batch))
            if len(shape) >= least_dimensions and shape[0] >= FEWEST_ITEMS:
                yield tree.start[outer[items[_next_ones(tape, concrete[items], shape[0])]]].tolist()


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
