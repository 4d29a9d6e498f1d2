"""Fewer launches: runs of elementwise kernels as one kernel each, the optimizer's step as one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.intervals import measure, union
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64, Bool

OPTIMIZER_PREFIX = "Optimizer.step#"
"""What PyTorch calls the range around an optimizer's step; the optimizer's class follows."""
ADAM_PASSES = 7 / 20
"""Traffic of a fused Adam over that of its foreach form: parameter, gradient and two moments read, all but the
gradient written, against eight operators that read and write them in turn (2+3+2+3+2+2+2+4 tensors)."""
TENSORS_A_LAUNCH = 36
"""Tensors that one launch of a fused Adam takes (four lists)."""
LEAST_KERNEL_NS = 1_500
"""A kernel takes at least this long, whatever it does."""


def elementwise_fused(tape: Tape) -> Tape | None:
    """Each run of elementwise kernels is one that takes as long as the longest of them; None without any."""
    run = _runs(tape)
    first = np.flatnonzero(~run)
    if run.any():
        return _collapsed(tape, run, np.maximum.reduceat(tape.duration, first))
    return None


def launches_fused(tape: Tape) -> Tape | None:
    """The same where one kernel takes as long as all of the run: only launches are saved."""
    run = _runs(tape)
    if run.any():
        return _collapsed(tape, run, np.add.reduceat(tape.duration, np.flatnonzero(~run)))
    return None


def _runs(tape: Tape) -> Bool:
    """Which ops continue a run: elementwise as the op before, launched next in the same step and on the same stream,
    without a wait or other work of the host between them, and waiting for nothing else."""
    ctx = tape.ctx
    elementwise = (ctx.op_class == ctx.classes.index("elementwise"))[tape.row]
    step = np.diff(tape.event, prepend=-2)
    first = tape.event
    follows = (step <= 1) & ~tape.waits[first] & (tape.work[first] == 0) & (tape.loading[first] == 0)
    follows[1:] &= (tape.stream[1:] == tape.stream[:-1]) & elementwise[:-1]
    of_step = ctx.steps.of_op[tape.row]
    follows[1:] &= of_step[1:] == of_step[:-1]
    follows[:1] = False
    result: Bool = follows & elementwise & (tape.dependencies.on < 0) & (tape.dependencies.on_communication < 0)
    return result


def _collapsed(tape: Tape, gone: Bool, duration: I64) -> Tape:
    """Without some ops and their launches; the others take these times."""
    longer = np.zeros_like(tape.duration)
    longer[~gone] = duration
    launching = np.unique(tape.event[gone])
    launching = np.setdiff1d(launching, tape.event[~gone])
    dispatch = tape.dispatch.copy()
    dispatch[launching] = 0
    return replace(
        tape,
        dispatch=dispatch,
        reading=np.minimum(tape.reading, dispatch),
        duration=longer,
        alone=longer,
        gap=np.where(gone, 0, tape.gap),
        latency=np.where(gone, 0, tape.latency),
    )


def optimizer_fused(tape: Tape) -> Tape | None:
    """Adam's step as one pass over all parameters, in as few launches as that takes; None without an Adam whose step
    is not one already."""
    instance = _optimizer_steps(tape)
    chosen = np.flatnonzero(instance >= 0)
    if not len(chosen):
        return None
    gone = np.zeros(len(tape.row), bool)
    duration = tape.duration.copy()
    for one in np.unique(instance[chosen]).tolist():
        mine = chosen[instance[chosen] == one]
        kept = mine[: _launches(tape, mine)]
        total = max(int(tape.duration[mine].sum() * ADAM_PASSES), LEAST_KERNEL_NS * len(kept))
        gone[mine] = True
        gone[kept] = False
        duration[kept] = total // len(kept)
    return _collapsed(tape, gone, duration[~gone])


def _launches(tape: Tape, ops: I64) -> int:
    """How many launches a fused step needs: as many as each of the passes has, or, where those go from tensor to
    tensor, one for every few of them."""
    ctx = tape.ctx
    names, counts = np.unique(ctx.trace.device_ops.name[tape.row[ops]], return_counts=True)
    most = int(counts.argmax())
    many = "multi_tensor" in (ctx.trace.text(int(names[most])) or "")
    return int(counts[most]) if many else -(-int(counts[most]) // TENSORS_A_LAUNCH)


def _optimizer_steps(tape: Tape) -> I64:
    """For each op the step of an Adam that launched it (row of the host range), -1: none, or fused already."""
    ctx = tape.ctx
    ranges, ops = ctx.trace.host_ranges, ctx.trace.device_ops
    adam = [i for i, text in enumerate(ctx.trace.strings) if text.startswith(OPTIMIZER_PREFIX + "Adam")]
    rows = np.flatnonzero(np.isin(ranges.name, adam) & (ranges.kind == RangeKind.ANNOTATION))
    result = np.full(len(tape.row), -1, np.int64)
    if not len(rows):
        return result
    rows = rows[np.argsort(ranges.start[rows], kind="stable")]
    launched = ctx.launch_time[tape.row]
    inside = measure(union(ranges.start[rows], ranges.end[rows]), launched, launched + 1) > 0
    inside &= ctx.is_kernel[tape.row]
    at = np.searchsorted(ranges.start[rows], launched, side="right") - 1
    fused = [i for i, text in enumerate(ctx.trace.strings) if "FusedAdam" in text or "fused_adam" in text]
    done = np.unique(at[inside & np.isin(ops.name[tape.row], fused)])
    inside &= ~np.isin(at, done)
    result[inside] = rows[at[inside]]
    return result
