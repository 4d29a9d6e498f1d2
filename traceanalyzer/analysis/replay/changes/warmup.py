"""Kernels that are loaded or compiled when they are first launched: without that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import join, union
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import before_events
from traceanalyzer.trace import OverheadKind, RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.algebra.intervals import IntervalSet
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.time.timed import Timed

LOADING = re.compile(r"(Module|Library)LoadData|ModuleLoad|LinkCreate|nvrtcCompile|FatBinary")
"""API calls that load or compile device code."""

FIRST_LAUNCH_NS = 100_000
"""An operator launches in some microseconds; one that loads its kernel's code first takes hundreds."""


def warmed_up(tape: Tape) -> Tape | None:
    """All device code is loaded before the steps; None where none is loaded within them."""
    time = before_events(tape, code_loading(tape.source))
    from_work = np.minimum(time, tape.work)
    from_dispatch = np.minimum(time - from_work, tape.dispatch)
    if not (from_work + from_dispatch).any():
        return None
    dispatch = tape.dispatch - from_dispatch
    return replace(tape, work=tape.work - from_work, dispatch=dispatch, reading=np.minimum(tape.reading, dispatch))


def code_loading(timed: Timed) -> IntervalSet:
    """When the driver loads or compiles device code."""
    overheads, calls = timed.trace.overheads, timed.trace.api_calls
    driver = overheads.kind == OverheadKind.DRIVER
    loading = texts_where(timed.trace.strings, LOADING.search)[calls.name]
    start, end = (np.concatenate((getattr(overheads, e)[driver], getattr(calls, e)[loading])) for e in ("start", "end"))
    return join(union(start, end), first_launches(timed))


def first_launches(timed: Timed) -> IntervalSet:
    """When operators prepare and launch kernels of one step alone and take far longer than a launch: the kernels' code
    is loaded then."""
    calls, ops, tree = timed.trace.api_calls, timed.trace.device_ops, timed.tree
    launched = np.flatnonzero((timed.launch >= 0) & timed.is_kernel)
    step = timed.steps.of_op[launched]
    kinds, at = np.unique(ops.name[launched], return_inverse=True)
    first, last = np.full(len(kinds), np.iinfo(np.int64).max), np.full(len(kinds), -1)
    np.minimum.at(first, at, step)
    np.maximum.at(last, at, step)
    call = timed.launch[launched[(first == last)[at]]]
    operator = tree.outermost(tree.kind == RangeKind.OP)[tree.node_of_call[call]]
    begin = np.where(operator >= 0, tree.start[operator], calls.start[call])
    long = calls.end[call] - begin >= FIRST_LAUNCH_NS
    return union(begin[long], calls.end[call][long])
