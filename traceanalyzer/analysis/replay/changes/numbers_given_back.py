"""Values that the program reads and gives back to the GPU as numbers: how far a search goes next, a scale.

In Python their arithmetic costs next to nothing. Kept on the GPU each is a tensor, which takes a launch or more; and
what leads to it is still calculated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.changes.edits import with_dispatch
from traceanalyzer.analysis.replay.on_tape import events_of, nodes, usual_dispatch_ns
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64, Bool

NEAR = 4
"""Operators after a read among which the first that launches anything is looked for."""
FEWEST_READS = 4
"""With fewer reads a step it is not told whether their numbers come back."""
MOST_OF_READS = 0.5
"""Share of a step's reads whose numbers come back: then all are taken to, in one form or another."""
NUMBER = re.compile(r"\d\.\d")
"""A number with decimals among the values of an operator's arguments."""


def given_back(tape: Tape) -> Bool:
    """Which events read a value that the next operator takes as a number; none where most reads are only looked at."""
    result = np.zeros(len(tape.dispatch), bool)
    first, after = _reads(tape)
    if len(first) < FEWEST_READS * tape.steps:
        return result
    told = _other_numbers(tape, after) | _plain_numbers(tape, after)
    if told.mean() >= MOST_OF_READS:
        result[first] = True
    return result


def kept_as_tensors(tape: Tape, events: Bool, launches: float) -> Tape:
    """For each of these reads the host launches so many kernels more, each as costly as usual."""
    more = round(launches * usual_dispatch_ns(tape, tape.compute))
    return with_dispatch(tape, np.where(events, tape.dispatch + more, tape.dispatch))


def _reads(tape: Tape) -> tuple[I64, I64]:
    """The first event of each read, and the row of `Trace.host_ranges` of the operator that launches something next,
    -1 where that is not near."""
    tree = tape.source.tree
    outer, operator = tree.outermost_operators, tree.outer_operator[nodes(tape)]
    begins = tape.reads & (operator >= 0) & (np.append(-1, operator[:-1]) != operator)
    first = np.flatnonzero(begins)
    launching = distinct(operator[events_of(tape, tape.compute) & (operator >= 0)])
    place = np.searchsorted(launching, operator[first], side="right")
    known = place < len(launching)
    following = launching[np.minimum(place, len(launching) - 1)] if len(launching) else np.zeros(len(first), np.int64)
    apart = np.searchsorted(outer, following) - np.searchsorted(outer, operator[first])
    return first, np.where(known & (apart <= NEAR), tree.row[following], -1)


def _other_numbers(tape: Tape, rows: I64) -> Bool:
    """Which of these operators take a number that is another one almost each time."""
    ranges, strings = tape.source.trace.host_ranges, tape.source.trace
    result = np.zeros(len(rows), bool)
    known = rows >= 0
    name, code = ranges.name[rows], ranges.concrete[rows]
    for one in distinct(name[known]).tolist():
        here = known & (name == one)
        codes = distinct(code[here])
        decimals = sum(bool(NUMBER.search(strings.text(int(c)) or "")) for c in codes.tolist() if c >= 0)
        result |= here & (2 * decimals > here.sum())
    return result


def _plain_numbers(tape: Tape, rows: I64) -> Bool:
    """Which of these operators take a number of Python's beside a tensor: without a size, and of another format."""
    trace = tape.source.trace
    pairs = np.stack((trace.host_ranges.shapes[rows], trace.host_ranges.dtypes[rows]))
    kinds, at = np.unique(pairs, axis=1, return_inverse=True)
    found = [_plain(trace.text(int(shapes)), trace.text(int(types))) for shapes, types in kinds.T.tolist()]
    return np.array(found, bool)[at.reshape(-1)] & (rows >= 0)


def _plain(shapes: str | None, types: str | None) -> bool:
    inputs = parse_inputs(shapes or "", types, None) if shapes else None
    tensors = [one for one in inputs or () if isinstance(one, Tensor)]
    return (
        len(tensors) == 2 and tensors[0].shape != () and tensors[1].shape == () and len({t.dtype for t in tensors}) > 1
    )
