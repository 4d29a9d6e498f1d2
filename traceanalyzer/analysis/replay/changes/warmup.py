"""Kernels that are loaded or compiled when they are first launched: without that."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import union
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import before_events
from traceanalyzer.trace import OverheadKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.algebra.intervals import IntervalSet
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.replay.tape import Tape

LOADING = re.compile(r"(Module|Library)LoadData|ModuleLoad|LinkCreate|nvrtcCompile|FatBinary")
"""API calls that load or compile device code."""


def warmed_up(tape: Tape) -> Tape | None:
    """All device code is loaded before the steps; None where none is loaded within them."""
    time = before_events(tape, code_loading(tape.source))
    from_work = np.minimum(time, tape.work)
    from_dispatch = np.minimum(time - from_work, tape.dispatch)
    if not (from_work + from_dispatch).any():
        return None
    dispatch = tape.dispatch - from_dispatch
    return replace(tape, work=tape.work - from_work, dispatch=dispatch, reading=np.minimum(tape.reading, dispatch))


def code_loading(linked: Linked) -> IntervalSet:
    """When the driver loads or compiles device code."""
    overheads, calls = linked.trace.overheads, linked.trace.api_calls
    driver = overheads.kind == OverheadKind.DRIVER
    loading = texts_where(linked.trace.strings, LOADING.search)[calls.name]
    start, end = (np.concatenate((getattr(overheads, e)[driver], getattr(calls, e)[loading])) for e in ("start", "end"))
    return union(start, end)
