"""Values that the program reads and gives back to the GPU as numbers: how far a search goes next, a scale.

In Python their arithmetic costs next to nothing. Kept on the GPU each is a tensor, which takes a launch or more; and
what leads to it is still calculated.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor
from traceanalyzer.replay.changes.edits import with_dispatch
from traceanalyzer.replay.on_tape import events_of, nodes, usual_dispatch_ns
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool
from traceanalyzer.trace.distinct import distinct

OPERATORS_AFTER = 4
"""So many after a read are searched for the first that launches anything."""
FEWEST_READS = 4
"""With fewer reads a step it is not told whether their numbers come back."""
MOST_OF_READS = 0.5
"""Share of a step's reads whose numbers come back: then all are taken to, in one form or another."""
NUMBER = re.compile(r"\d\.\d")
"""A number with decimals among the values of an operator's arguments."""


def scalars_reuploaded(tape: Tape) -> Bool:
    """Which events read a value that the next operator takes as a number; none where most reads are only looked at."""
    result = np.zeros(len(tape.dispatch), bool)
    first, after = _reads(tape)
    if len(first) < FEWEST_READS * tape.steps:
        return result
    uses = operators(tape.source.linked).of_nodes(after)
    numbers = np.array(_other_numbers(uses), bool) | np.array([_plain(one) for one in uses], bool)
    if numbers.mean() >= MOST_OF_READS:
        result[first] = True
    return result


def kept_as_tensors(tape: Tape, events: Bool, launches: float) -> Tape:
    """For each of these reads the host launches so many kernels more, each as costly as usual."""
    more = round(launches * usual_dispatch_ns(tape, tape.compute))
    return with_dispatch(tape, np.where(events, tape.dispatch + more, tape.dispatch))


def _reads(tape: Tape) -> tuple[I64, I64]:
    """The first event of each read, and the operator (node of the host tree) that launches something next, -1 where
    that is not near."""
    tree = tape.source.linked.tree
    outer, operator = tree.outermost_operators, tree.outer_operator[nodes(tape)]
    first = np.flatnonzero(tape.reads & (operator >= 0) & where_changed(operator))
    launching = np.append(distinct(operator[events_of(tape, tape.compute) & (operator >= 0)]), -1)
    following = launching[np.searchsorted(launching[:-1], operator[first], side="right")]
    apart = np.searchsorted(outer, following) - np.searchsorted(outer, operator[first])
    return first, np.where(apart <= OPERATORS_AFTER, following, -1)


def _other_numbers(uses: list[Operator]) -> list[bool]:
    """Which of these operators take a number that is another one almost each time."""
    often = Counter(one.name for one in uses)
    values = {(one.name, one.texts[2]) for one in uses if NUMBER.search(one.texts[2] or "")}
    decimals = Counter(name for name, _ in values)
    return [2 * decimals[one.name] > often[one.name] for one in uses]


def _plain(one: Operator) -> bool:
    """Whether an operator takes a number of Python's beside a tensor: without a size, and of another format."""
    tensors = [found for found in one.typed if isinstance(found, Tensor)]
    formats = {found.dtype for found in tensors}
    return len(tensors) == 2 and tensors[0].shape != () and tensors[1].shape == () and len(formats) > 1
