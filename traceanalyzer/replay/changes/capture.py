"""The step in a CUDA graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.time.launch_queue import UNEXPLAINED_NS
from traceanalyzer.replay.changes.edits import with_dispatch
from traceanalyzer.replay.changes.syncs.syncs import syncs_removed
from traceanalyzer.replay.changes.warmup import OWN_WORK_NS
from traceanalyzer.replay.on_tape import step_of_event
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64

GRAPH_GAP_NS = 400
"""Pause between dependent kernels of one CUDA graph (0.3 to 0.5 us in graphs recorded on an H200)."""
GRAPH_CALL_NS = 15_000
"""What the host takes to launch a graph."""


def in_graph(gap: I64) -> I64:
    """Pauses between kernels of one CUDA graph; an op that waited for what is not recorded waits in a graph, too."""
    return np.where(gap >= UNEXPLAINED_NS, gap, np.minimum(gap, GRAPH_GAP_NS))


def captured(tape: Tape) -> Tape:
    """Each step's launches are one CUDA graph: no dispatch, and none of the host's work between them."""
    first = where_changed(step_of_event(tape))
    outside = first | tape.waits | (tape.work > OWN_WORK_NS)
    graph = replace(
        tape,
        work=np.where(outside, tape.work, 0),
        tail=tape.tail._replace(dispatch=0),
        latency=np.where(first[tape.event], tape.latency, 0),
        gap=in_graph(tape.gap),
    )
    return with_dispatch(graph, np.where(first, GRAPH_CALL_NS, 0))


def captured_but_work(tape: Tape) -> Tape:
    """The same where the host's own work stays between the launches."""
    return replace(captured(tape), work=tape.work)


def captured_after_reads(tape: Tape) -> Tape | None:
    """The step without waits, in a CUDA graph."""
    found = syncs_removed(tape)
    return found and captured(found)
