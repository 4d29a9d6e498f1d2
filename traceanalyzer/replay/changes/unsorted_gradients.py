"""Gradients of rows that are looked up, added up as they come with atomic operations, as compiled code
does: PyTorch's own operators sort the indices first."""

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import kernels_named, operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I32, Bool

OF_INDEXING = regex(r"^aten::_index_put_impl_$")
GRADIENTS = regex(r"^aten::(_index_put_impl_|embedding_dense_backward)$")
ADDS_UP = regex(r"(compute_grad_weight|sum_and_scatter|indexing_backward_kernel\w*)<float\b")
"""Kernels that add up sorted rows of fp32: in 16 bits compiled code adds at a fifth of the rate, or
leaves it to PyTorch."""
STAYS = ("fill", "memset")
"""Gradients of the table are zeros to begin with either way."""


class Sorted(NamedTuple):
    """What gradients whose indices are sorted are made of."""

    ops: Bool  # all that is not needed without sorting, and what adds up
    added: F64  # numbers that each op adds up, 0 of others: one of each gradient's
    gradient: I32  # the gradient that each op is part of, as a node of the host tree; -1: of none

    def of_sizes(self, numbers: Collection[int]) -> "Sorted":
        """Those that add up so many numbers each."""
        added = np.where(np.isin(self.added, list(numbers)), self.added, 0.0)
        ops = self.ops & np.isin(self.gradient, self.gradient[added > 0])
        return Sorted(ops, added, self.gradient)


def sorted_gradients(tape: Tape) -> Sorted:
    """The ops of gradients in fp32 that sort first, and how much they add up."""
    linked = tape.source.linked
    gradient = tape.of_launches(linked.tree.outermost(operators_named(linked, GRADIENTS)))
    adding = np.flatnonzero(kernels_named(tape, ADDS_UP) & (gradient >= 0))
    added = np.zeros(len(gradient))
    _, first = np.unique(gradient[adding], return_index=True)
    one_of_each = adding[first]
    added[one_of_each] = operators(linked).tell(gradient[one_of_each], _numbers)
    known = np.isin(gradient, gradient[added > 0])
    return Sorted(known & ~tape.of_classes(*STAYS), added, gradient)


def _numbers(operator: Operator) -> int:
    """How many numbers a gradient adds up; 0 where that was not recorded."""
    rows = operator.shapes[1:2] if operator.named(OF_INDEXING) else operator.shapes[:1]
    return sum(map(math.prod, rows))


def added_as_they_come(
    tape: Tape, atomic_bytes: float, numbers: Collection[int] | None = None
) -> Tape:
    """The tape without what sorts: a number that is added takes as long as moving so many bytes, and
    all of them no longer than what adds up now. `numbers`: only gradients that add up so many."""
    found = tape.memo(sorted_gradients)
    found = found if numbers is None else found.of_sizes(numbers)
    adds = found.added > 0
    least = np.minimum(tape.moving_ns(found.added, atomic_bytes), tape.duration)
    return tape.retimed(np.where(adds, least, tape.duration)).without_launches(found.ops & ~adds)
