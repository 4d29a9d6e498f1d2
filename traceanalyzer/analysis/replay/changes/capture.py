"""The step in a CUDA graph, and the model compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.groups.passes import FUSIBLE
from traceanalyzer.analysis.replay.changes.edits import step_of_event
from traceanalyzer.analysis.replay.changes.fusion import Reading, fused
from traceanalyzer.analysis.replay.changes.syncs import syncs_removed
from traceanalyzer.analysis.replay.changes.warmup import OWN_WORK_NS

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import Bool

GRAPH_GAP_NS = 400
"""Pause between dependent kernels of one CUDA graph (0.3 to 0.5 us in graphs recorded on an H200)."""
GRAPH_CALL_NS = 15_000
"""What the host takes to launch a graph."""
COMPILED_CALL_NS = 70_000
"""What a compiled function's guards and its call cost the host, once a step: 70 to 90 us measured with PyTorch 2.11 for
one kernel. What is left to launch costs about as much as in eager mode (57 and 55 us each, profiled)."""
COMPILED_DISPATCH_SHARE = 0.75
"""Share of the dispatch of what is left that compiled code needs in the best case."""


def captured(tape: Tape) -> Tape:
    """Each step's launches are one CUDA graph: no dispatch, and none of the host's work between them."""
    first = _first_of_step(tape)
    outside = first | tape.waits | (tape.work > OWN_WORK_NS)
    dispatch = np.where(first, GRAPH_CALL_NS, 0)
    return replace(
        tape,
        dispatch=dispatch,
        reading=np.minimum(tape.reading, dispatch),
        work=np.where(outside, tape.work, 0),
        tail=(0, *tape.tail[1:]),
        latency=np.where(first[tape.event], tape.latency, 0),
        gap=np.minimum(tape.gap, GRAPH_GAP_NS),
    )


def captured_but_work(tape: Tape) -> Tape:
    """The same where the host's own work stays between the launches."""
    return replace(captured(tape), work=tape.work)


def captured_after_reads(tape: Tape) -> Tape | None:
    """The step without waits, in a CUDA graph."""
    found = syncs_removed(tape)
    return found and captured(found)


def compiled(tape: Tape) -> Tape | None:
    """What torch.compile makes of the model: runs of fusible kernels are one each, with what that costs a step."""
    return _compiled(tape, Reading.USUAL)


def compiled_well(tape: Tape) -> Tape | None:
    """The same where compiled code also launches the rest faster."""
    found = _compiled(tape, Reading.HOPEFUL)
    return found and replace(found, dispatch=np.rint(found.dispatch * COMPILED_DISPATCH_SHARE).astype(np.int64))


def compiled_badly(tape: Tape) -> Tape | None:
    """The same where fused kernels are no faster than the longest of them."""
    return _compiled(tape, Reading.CAUTIOUS)


def _compiled(tape: Tape, reading: Reading) -> Tape | None:
    found = fused(tape, FUSIBLE, reading)
    return found and with_compiled_calls(found)


def with_compiled_calls(tape: Tape) -> Tape:
    """A compiled function is called once a step."""
    return replace(tape, dispatch=tape.dispatch + _first_of_step(tape) * COMPILED_CALL_NS)


def _first_of_step(tape: Tape) -> Bool:
    """The first event of each step."""
    step = step_of_event(tape)
    result: Bool = np.diff(step, prepend=step[:1] - 1) != 0
    return result
