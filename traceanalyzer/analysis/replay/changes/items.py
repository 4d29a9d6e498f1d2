"""Loops over the items of a batch: where a program takes the first dimension of a tensor apart and works on each part.

Nothing else tells such calls from the layers of one model, which repeat alike: a model that is called for each of 24
texts launches what one of 24 times the layers would.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import nodes
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs, parse_values

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, Bool

APART = re.compile(r"^aten::unbind$")
"""Iterating over a tensor."""
TAKES = re.compile(r"^aten::unsqueeze$")
"""Makes a batch of one of an item."""
PICKS = re.compile(r"^aten::(select|slice|narrow)$")
"""Takes an item out of a batch by its number."""
WORDS = re.compile(r"^aten::embedding$")
"""Looks tokens up; its second operand is a batch of texts."""
FEWEST_ITEMS = 4


def item_starts(tape: Tape) -> Bool:
    """The ops with which work on the next item of a batch begins; where there is a backward pass only if each item has
    one of its own: of several items together, those of a sequence may depend on each other."""
    result = np.zeros(len(tape.row), bool)
    called = tape.source.trace.api_calls.start[tape.call][tape.event]
    first = np.searchsorted(called, np.array(_times(tape), np.int64))
    result[first[first < len(called)]] = True
    backward = tape.source.in_backward[nodes(tape)][tape.event]
    if not backward.any():
        return result
    item = np.cumsum(result) - 1
    learned = np.isin(np.arange(int(result.sum())), item[backward])
    return result if learned.all() else np.zeros(len(tape.row), bool)


def _times(tape: Tape) -> list[int]:
    """When the host takes the items, ns."""
    tree, trace = tape.source.tree, tape.source.trace
    outer = np.flatnonzero(tree.outer_operator == np.arange(len(tree.start)))
    row = tree.row[outer]
    name, shapes, concrete = (column[row] for column in _columns(tape))
    apart, takes, picks = (texts_where(trace.strings, pattern.match)[name] for pattern in (APART, TAKES, PICKS))
    step = np.searchsorted(tape.source.steps.host_start, tree.start[outer], side="right")
    found: list[int] = []
    for one in np.unique(step[apart | picks]).tolist():
        here = step == one
        for batch, count in _counted(shapes[here & apart]):
            shape = first_shape(tape, batch)
            items = here & takes & _of_shape(tape, shapes, shape[1:])
            if len(shape) > 1 and shape[0] >= FEWEST_ITEMS and items.sum() == shape[0] * count:
                found += tree.start[outer[items]].tolist()
        for batch, count in _counted(shapes[here & picks]):
            shape = first_shape(tape, batch)
            items = here & picks & (shapes == batch)
            if len(shape) > 1 and FEWEST_ITEMS <= shape[0] == count and _along_first(tape, concrete[items]):
                found += tree.start[outer[items]].tolist()
    return sorted(found)


def single_tokens(tape: Tape) -> Bool:
    """The ops that look up one token of each text: a decoder that goes on from what it has just said."""
    tree, ranges = tape.source.tree, tape.source.trace.host_ranges
    words = texts_where(tape.source.trace.strings, WORDS.match)[ranges.name]
    code, index = np.unique(ranges.shapes[words], return_inverse=True)
    words[words] = np.array([_one_token(tape, one) for one in code.tolist()], bool)[index]
    result: Bool = (tree.innermost(tree.of_ranges(words, False)) >= 0)[nodes(tape)][tape.event]
    return result


def _one_token(tape: Tape, code: int) -> bool:
    inputs = parse_inputs(tape.source.trace.text(code) or "", None, None) if code >= 0 else None
    texts = inputs[1] if inputs and len(inputs) > 1 else None
    return isinstance(texts, Tensor) and len(texts.shape) > 1 and texts.shape[-1] == 1


def _columns(tape: Tape) -> tuple[I32, I32, I32]:
    ranges = tape.source.trace.host_ranges
    return ranges.name, ranges.shapes, ranges.concrete


def _counted(codes: I32) -> list[tuple[int, int]]:
    values, counts = np.unique(codes, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def first_shape(tape: Tape, code: int) -> tuple[int, ...]:
    """The shape of the first operand that this text of shapes has; () where that is none."""
    inputs = parse_inputs(tape.source.trace.text(code) or "", None, None) if code >= 0 else None
    return inputs[0].shape if inputs and isinstance(inputs[0], Tensor) else ()


def _of_shape(tape: Tape, codes: I32, shape: tuple[int, ...]) -> Bool:
    """Which of these texts of shapes begin with this one."""
    known = np.unique(codes)
    alike = np.array([first_shape(tape, code) == shape for code in known.tolist()], bool)
    result: Bool = alike[np.searchsorted(known, codes)]
    return result


def _along_first(tape: Tape, codes: I32) -> bool:
    """Whether operators with these values take parts of the first dimension."""
    values = [parse_values(tape.source.trace.text(code)) for code in np.unique(codes).tolist() if code >= 0]
    return bool(values) and all(len(one) > 1 and one[1] == "0" for one in values)
