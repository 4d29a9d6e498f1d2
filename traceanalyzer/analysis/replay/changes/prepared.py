"""Operators that prepare themselves within the step (a library's search for an algorithm, its plan): without that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import with_dispatch, without
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.changes.edits import Change
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, Bool


def prepared_before(pattern: str) -> Change:
    """Operators with such a name (regular expression) are ready when they are called: no long work of the host within
    them, and nothing of what they do up to their last wait for the device, which is how algorithms are tried."""

    def change(tape: Tape) -> Tape:
        operator = _operators(tape, pattern)
        tried = _up_to_last_wait(tape, operator)
        work = np.where(operator >= 0, 0, tape.work)
        shorter = replace(without(tape, tried[tape.event]), work=work, waits=tape.waits & ~tried)
        return with_dispatch(shorter, np.where(tried, 0, tape.dispatch))

    return change


def _operators(tape: Tape, pattern: str) -> I32:
    """For each host event the node of the outermost operator with such a name around its call, -1 without one."""
    source = tape.source
    tree, named = source.tree, texts_where(source.trace.strings, re.compile(pattern).search)
    wanted = (tree.kind == RangeKind.OP) & tree.named(named)
    result: I32 = tree.outermost(wanted)[tree.node_of_call[tape.call]]
    return result


def _up_to_last_wait(tape: Tape, call: I32) -> Bool:
    """Events of a call that come before its last wait for the device, and that wait."""
    waits = np.flatnonzero(tape.waits & (call >= 0))
    last = np.full(int(call.max(initial=-1)) + 2, -1, np.int64)
    last[call[waits]] = waits
    return np.arange(len(call)) <= last[call]
