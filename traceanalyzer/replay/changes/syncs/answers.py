"""Tests whose answer the host reads: checks of arguments (`torch.distributions`), of finite values, of
what has converged. What was calculated for the answer is of no use without it.

A test is read as a truth value. Before it stand comparisons and reductions of truth values, and before
those what measures numbers for a comparison. A result that something else takes later stays.

Where element types were not recorded (Nsight Systems) the names tell them: a test gives truth values,
and what is not a comparison of numbers may take them."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.algebra import at
from traceanalyzer.analysis.joined.backward import forward_makers
from traceanalyzer.analysis.roofline.op_models.tensors import ElementKind, Input, Shape, Tensor
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import OperatorPlace, Outermost, are_named
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool, distinct

READS = regex(r"^aten::(is_nonzero|item|_local_scalar_dense)$")
TESTS_AND_READS = regex(r"^aten::(equal|allclose)$")
"""Operators that test, and bring the answer to the host themselves."""
TESTS = regex(
    r"^aten::(all|any|_is_all_true|_is_any_true|eq|ne|gt|lt|ge|le|greater|less|greater_equal|less_equal|not_equal"
    r"|isnan|isinf|isfinite|isclose|isin|signbit|logical_\w+|bitwise_(and|or|xor|not)|__(and|or|xor)__)$"
)
"""Operators that give truth values."""
COMPARES = regex(
    r"^aten::(eq|ne|gt|lt|ge|le|greater|less|greater_equal|less_equal|not_equal|isnan|isinf|isfinite|isclose|isin"
    r"|signbit)$"
)
"""Tests of numbers; the others are of truth values."""
REDUCES = regex(r"_?(all|any)(_true)?$")
MEASURES = regex(
    r"^aten::(abs|sum|mean|max|min|amax|amin|norm|linalg_vector_norm|count_nonzero|remainder|std|var|numel)$"
)
"""Operators that give numbers which a comparison then looks at."""
SUBTRACTS = regex(r"^aten::sub$")
ABSOLUTE = regex(r"^aten::(abs|norm|linalg_vector_norm)$")
"""What is asked of a difference in a comparison with a tolerance."""
LONGEST_TEST = 16
"""Operators before a read that are looked at, views among them."""
USED_WITHIN = 24
"""So many operators after a read are searched for one that takes what was tested."""


def answers(tape: Tape) -> Bool:
    """Which events belong to operators that lead to such an answer and to nothing else, the reads
    among them."""
    return tape.memo(_answers)


def _answers(tape: Tape) -> Bool:
    tree = tape.source.linked.tree
    outer = tree.outer_operator[tape.nodes]
    known = outer >= 0
    linked = tape.source.linked
    read = distinct(outer[tape.reads & known])
    reads = read[are_named(linked, read, READS) | are_named(linked, read, TESTS_AND_READS)]
    gone = [node for place in _places(tape, reads) for node in place]
    return known & np.isin(outer, np.array(gone, np.int64))


def _places(tape: Tape, reads: I64) -> Iterator[list[int]]:
    """The operators that lead to each of these reads, nodes of the host tree."""
    if not len(reads):
        return
    linked = tape.source.linked
    outermost = Outermost(tape)
    makers = distinct(forward_makers(linked))
    learned = frozenset(at(linked.tree.outer_operator, makers, -1).tolist())
    for place in np.searchsorted(outermost.nodes, reads).tolist():
        last = outermost.at(place, place + 1)[0]
        if last.operator.named(TESTS_AND_READS):
            yield [last.node]
            continue
        before = outermost.at(place - LONGEST_TEST, place)
        if _is_answer(last.operator, before):
            after = [one.operator for one in outermost.at(place + 1, place + 1 + USED_WITHIN)]
            yield [last.node, *_leading(before, after, learned)]


def _is_answer(read: Operator, before: Sequence[OperatorPlace]) -> bool:
    """Whether what is read is one truth value; where its type is not recorded, whether the last
    operator before it that launches anything is a test of one answer."""
    if not read.typed or math.prod(read.first) != 1:
        return False
    if _has_types(read):
        return _is_truth(read.typed[0])
    launching = [one.operator for one in before if one.launches and not one.operator.named(READS)]
    return bool(launching) and _gives_one_answer(launching[-1])


def _gives_one_answer(operator: Operator) -> bool:
    """Whether an operator is a test whose result is one truth value, or may be."""
    return operator.named(TESTS) and (operator.named(REDUCES) or math.prod(_given(operator)) == 1)


def _has_types(operator: Operator) -> bool:
    """Whether the element types of what an operator takes were recorded."""
    return operator.texts[1] is not None


def _is_truth(taken: Input) -> bool:
    return isinstance(taken, Tensor) and taken.dtype.kind is ElementKind.BOOL


def _takes_truth(operator: Operator, taken: Sequence[Input]) -> bool:
    """Whether there are truth values among these that an operator takes, or may be where types were
    not recorded."""
    if _has_types(operator):
        return any(map(_is_truth, taken))
    return bool(taken) and not operator.named(COMPARES)


def _leading(
    before: Sequence[OperatorPlace], after: Sequence[Operator], learned: frozenset[int]
) -> Iterator[int]:
    """The operators right before a read that lead to it alone, the nearest first. What launches
    nothing (a view) lies between them."""
    measured = False
    following = None
    for node, operator, launches in reversed(before):
        if not launches and not operator.named(READS):
            continue
        if operator.named(TESTS):
            if _taken_later(operator, after):
                return
            measured = not _takes_truth(operator, operator.typed)
        elif not measured or node in learned or not _measures(operator, following, after):
            return
        following = operator
        yield node


def _measures(operator: Operator, following: Operator | None, after: Sequence[Operator]) -> bool:
    """Whether an operator gives numbers to be compared by the `following` one, and nothing `after`
    takes a single number that could be its."""
    if any(_takes_number(one) for one in after):
        return False
    apart = operator.named(SUBTRACTS) and following is not None and following.named(ABSOLUTE)
    return apart or operator.named(MEASURES)


def _taken_later(test: Operator, after: Sequence[Operator]) -> bool:
    """Whether one of these operators takes the truth values of a test, before another test gives
    as many."""
    shape = _given(test)
    if test.named(REDUCES) or math.prod(shape) == 1:
        return False
    for operator in after:
        taken = [one for one in _tensors(operator) if one.shape == shape]
        if _takes_truth(operator, taken):
            return True
        if operator.named(TESTS) and _given(operator) == shape:
            return False
    return False


def _given(test: Operator) -> Shape:
    """The shape of an elementwise test's result: the largest of its tensors'."""
    return max(test.shapes, key=math.prod, default=())


def _takes_number(operator: Operator) -> bool:
    """Whether an operator takes one number that is on the GPU, or may where types were not recorded:
    without them such a number looks like no tensor."""
    if not _has_types(operator):
        return bool(operator.typed) and not operator.named(READS)
    return any(
        one.shape == () and one.dtype.bytes <= 4 and one.dtype.kind is ElementKind.FLOAT
        for one in _tensors(operator)
    )


def _tensors(operator: Operator) -> Iterator[Tensor]:
    """The tensors that an operator takes, those in lists, too."""
    for taken in operator.typed:
        if isinstance(taken, Tensor):
            yield taken
        elif isinstance(taken, tuple):
            yield from (tensor for tensor in taken if isinstance(tensor, Tensor))
