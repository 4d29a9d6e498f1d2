"""A loop over single numbers of a tensor with an `if` on each: the host reads a test of every number,
then changes that number by an operator of its own. `torch.where` takes all of them at once."""

import re
from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.syncs.answers import READS, TESTS
from traceanalyzer.replay.changes.syncs.syncs import syncs_removed
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.patterns.repeats import launching
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import Bool

FEWEST_BRANCHES = 16
"""Fewer tests in a row are of a few settings, which nobody puts into a tensor."""
LEAST_CHANGED = 0.5
"""Changes of single numbers for each test; with fewer the answers are only looked at."""
CHANGES = regex(r"^aten::(mul|div|add|sub|fill|clamp|copy|neg|zero|pow|exp|sqrt)_$")


def branched_items(tape: Tape) -> Bool:
    """Which ops belong to such a loop, but for its first turn."""
    return tape.memo(_branched_items)


@parametric
def branches_as_where(tape: Tape, reading: Reading) -> Tape | None:
    """One turn of each such loop is left, which takes all numbers, and no wait; None without one."""
    gone = branched_items(tape)
    left = syncs_removed(reading)(tape) if gone.any() else None
    return None if left is None else left.without_launches(gone)


def _branched_items(tape: Tape) -> Bool:
    calls = tape.memo(launching)
    known = operators(tape.source.linked).of_nodes(calls.node)
    reads, tests, changes = (_on_one_number(known, names) for names in (READS, TESTS, CHANGES))
    on_one = reads | tests | changes
    gone = np.zeros(len(known), bool)
    borders = where_changed(on_one) | where_changed(calls.step)
    begins = np.flatnonzero(borders)
    for own in np.split(np.arange(len(known)), begins[1:]):
        tested = own[tests[own]]
        branches = min(len(tested), int(reads[own].sum()))
        is_changed = changes[own].sum() >= LEAST_CHANGED * branches
        if branches >= FEWEST_BRANCHES and is_changed:
            gone[tested[1] : own[-1] + 1] = True
    return calls.of_ops(gone, len(tape.row))


def _on_one_number(known: Sequence[Operator], names: re.Pattern[str]) -> Bool:
    """Which of these operators are called so and take nothing that has dimensions."""
    chosen = [_takes_numbers(one) and one.named(names) for one in known]
    return np.array(chosen, bool)


def _takes_numbers(operator: Operator) -> bool:
    return bool(operator.inputs) and not operator.shapes and not operator.lists
