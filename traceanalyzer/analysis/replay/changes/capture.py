"""The step in a CUDA graph, and the model compiled."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.groups.passes import FUSIBLE
from traceanalyzer.analysis.replay.changes.edits import events_of, in_optimizer, launched_within, retimed, step_of_event
from traceanalyzer.analysis.replay.changes.fusion import Reading, fused
from traceanalyzer.analysis.replay.changes.kernels import odd_padded
from traceanalyzer.analysis.replay.changes.syncs import syncs_removed
from traceanalyzer.analysis.replay.changes.warmup import OWN_WORK_NS
from traceanalyzer.figures import NS_PER_S

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import Bool

GRAPH_GAP_NS = 400
"""Pause between dependent kernels of one CUDA graph (0.3 to 0.5 us in graphs recorded on an H200)."""
GRAPH_CALL_NS = 15_000
"""What the host takes to launch a graph."""
COMPILED_CALL_NS = 70_000
"""What a compiled function's guards and its call cost the host, once a step: 70 to 90 us measured with PyTorch 2.11 for
one kernel."""
COMPILED_LAUNCH = 1.8
"""What compiled code takes to launch a kernel, over what an eager operator usually takes: its wrapper is Python, makes
the result first, and hands each of the parameters to autograd and back ..."""
SLOWEST_COMPILED_LAUNCH_NS = 40_000
"""... but no more than this, however slow the program's own Python is. Of 19 programs that the host limits, compiled
and timed on H100s, half took 35 to 55 us a kernel; in six the step became longer."""
FAST_LAUNCH, SLOW_LAUNCH = 0.6, 1.25
"""A hopeful and a cautious reading of it. Eight of the 19 took longer than the cautious one has it at most."""
REDUCTION_EFFICIENCY = 0.7
"""Share of the memory's bandwidth that a compiler's reductions reach; PyTorch's reach 0.2 to 0.9."""
SPLIT_REDUCTION_NS = 5_000
"""Its two kernels take at least this long."""
IN_STAGES = re.compile(r"^aten::(native_)?(cudnn_|miopen_)?(batch_norm|group_norm)")
"""Operators that reduce over more than rows: a compiler also has a kernel for each stage."""


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
    """What torch.compile makes of the model: runs of fusible kernels are one each, launched by compiled code."""
    return _compiled(tape, Reading.USUAL, 1.0)


def compiled_well(tape: Tape) -> Tape | None:
    """The same where compiled code launches fast."""
    return _compiled(tape, Reading.HOPEFUL, FAST_LAUNCH)


def compiled_badly(tape: Tape) -> Tape | None:
    """The same where fused kernels are no faster than the longest of them, and compiled code launches slowly."""
    return _compiled(tape, Reading.CAUTIOUS, SLOW_LAUNCH)


def _compiled(tape: Tape, reading: Reading, launch: float) -> Tape | None:
    padded = (odd_padded(tape) if reading is Reading.HOPEFUL else None) or tape
    tuned = padded if reading is Reading.CAUTIOUS else _reductions_tuned(padded)
    found = fused(tuned, FUSIBLE, reading)
    return found and _launched_by_compiled_code(tape, found, launch)


def _reductions_tuned(tape: Tape) -> Tape:
    """Reductions, those over columns above all, as fast as a compiler's: it splits them over all of the GPU."""
    source, row = tape.source, tape.row
    reducing = (source.op_class[row] == source.classes.index("reduction")) & ~in_optimizer(tape)
    moved = source.roofline.expected[row] / (source.limit("bandwidth")[row] * REDUCTION_EFFICIENCY) * NS_PER_S
    least = np.maximum(moved, SPLIT_REDUCTION_NS)
    return retimed(tape, np.where(reducing & (least < tape.duration), least, tape.duration))


def _launched_by_compiled_code(eager: Tape, left: Tape, launch: float) -> Tape:
    """A compiled function is called once a step, and launches what is left outside of the optimizer at its own pace."""
    updates = in_optimizer(eager)
    launching = events_of(eager, ~updates) & ~events_of(eager, updates)
    if not launching.any():
        return left
    stages = launched_within(eager, texts_where(eager.source.trace.strings, IN_STAGES.match))
    kept = events_of(eager, (left.duration > 0) | stages) & launching
    each = min(COMPILED_LAUNCH * float(np.median(eager.dispatch[launching])), SLOWEST_COMPILED_LAUNCH_NS) * launch
    dispatch = np.where(kept, np.rint(each).astype(np.int64), left.dispatch) + _first_of_step(left) * COMPILED_CALL_NS
    return replace(left, dispatch=dispatch, reading=np.minimum(left.reading, dispatch))


def _first_of_step(tape: Tape) -> Bool:
    """The first event of each step."""
    step = step_of_event(tape)
    result: Bool = np.diff(step, prepend=step[:1] - 1) != 0
    return result
