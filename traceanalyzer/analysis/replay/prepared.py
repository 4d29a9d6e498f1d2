"""Operators that prepare themselves within the step (a library's search for an algorithm, its plan): without that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.scenarios import without
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.replay.scenarios import Change
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64, Bool


def prepared_before(pattern: str) -> Change:
    """Operators with such a name (regular expression) are ready when they are called: no long work of the host within
    them, and nothing of what they do up to their last wait for the device, which is how algorithms are tried."""

    def change(tape: Tape) -> Tape:
        call = _calls_of_events(tape, _calls(tape.source, pattern)[tape.row])
        tried = _up_to_last_wait(tape, call)
        shorter = without(tape, tried[tape.event])
        return replace(
            shorter,
            dispatch=np.where(tried, 0, tape.dispatch),
            work=np.where(call >= 0, 0, tape.work),
            waits=tape.waits & ~tried,
        )

    return change


def _calls(linked: Linked, pattern: str) -> I64:
    """For each device op the node of the outermost operator with such a name around its launch, -1 without one."""
    tree = linked.tree
    named = texts_where(linked.trace.strings, re.compile(pattern).search)
    wanted = tree.kind == RangeKind.OP
    wanted[wanted] = named[linked.trace.host_ranges.name[tree.row[wanted]]]
    result = np.full(len(linked.launch), -1, np.int64)
    launched = np.flatnonzero(linked.launch >= 0)
    result[launched] = tree.outermost(wanted)[tree.node_of_call[linked.launch[launched]]]
    return result


def _calls_of_events(tape: Tape, call: I64) -> I64:
    """For each host event the call (of those of the tape's ops) that it belongs to, -1 to none: events that launch, and
    events between two launches of the same call."""
    of_event = np.full(len(tape.work), -1, np.int64)
    of_event[tape.event] = call
    launching, events = np.unique(tape.event), np.arange(len(tape.work))
    before = of_event[launching[np.maximum(np.searchsorted(launching, events, side="right") - 1, 0)]]
    after = of_event[launching[np.minimum(np.searchsorted(launching, events), len(launching) - 1)]]
    return np.where(before == after, before, -1)


def _up_to_last_wait(tape: Tape, call: I64) -> Bool:
    """Events of a call that come before its last wait for the device, and that wait."""
    waits = np.flatnonzero(tape.waits & (call >= 0))
    last = np.full(int(call.max(initial=-1)) + 2, -1, np.int64)
    last[call[waits]] = waits
    return np.arange(len(call)) <= last[call]
