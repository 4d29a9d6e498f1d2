"""Ids made unique before they are looked up (`torch.unique`, a table's rows, and each row put where its
id stood): the host waits for how many there are. Looked up as they are they give the same."""

import math
from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import Outermost, are_named
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

UNIQUE = regex(r"^aten::(_unique2?|unique_dim|unique_consecutive)$")
LOOKUP = regex(r"^aten::(embedding|index_select|index)$")
BY_LIST = regex(r"^aten::index$")
"""Its ids are a list, whose shapes are not recorded."""
WITHIN = 12
"""So many operators after `unique` are searched for lookups, and for what puts their rows back."""


def made_unique(tape: Tape) -> Bool:
    """Which events make ids unique for a lookup, or put the rows that were found where their ids
    stood, forward and backward."""
    return tape.memo(_made_unique)


def _made_unique(tape: Tape) -> Bool:
    linked = tape.source.linked
    outermost = Outermost(tape)
    gone = np.zeros(len(linked.tree.start), bool)
    for place in np.flatnonzero(are_named(linked, outermost.nodes, UNIQUE)).tolist():
        after = [one for one in outermost.at(place + 1, place + 1 + WITHIN) if one.launches]
        unique = next(outermost.follow(place, 1))
        back = _putting_back(unique, [one.operator for one in after])
        for i in back:
            gone[[outermost.nodes[place], after[i].node]] = True
    outer = linked.tree.outer_operator
    forward = (outer >= 0) & gone[outer]
    return (forward | made_by(linked, forward))[tape.nodes]


def _putting_back(unique: Operator, after: Sequence[Operator]) -> list[int]:
    """The places, among the operators that launch something after `unique`, of those that put the
    rows of lookups back: each right after its lookup, and of no more rows than there were ids."""
    found = []
    for i in range(0, len(after) - 1, 2):
        lookup, back = after[i : i + 2]
        if not lookup.named(LOOKUP) or not back.named(LOOKUP):
            break
        same_rows = lookup.first_tensor[1:] == back.first_tensor[1:]
        rows = back.first_tensor[:1]
        ids = lookup.shapes[1:2]  # not recorded of `aten::index`
        fits = not ids or ids[0] == rows or lookup.named(BY_LIST)
        if not same_rows or not fits or not rows or rows[0] > math.prod(unique.first):
            break
        found.append(i + 1)
    return found
