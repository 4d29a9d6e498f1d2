"""The optimizer's step in fewer launches and passes: fused, or by lists of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import contains, union
from traceanalyzer.analysis.replay.changes.edits import retimed, without_launches
from traceanalyzer.analysis.replay.changes.fusion import LEAST_KERNEL_NS
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, I64

OPTIMIZER_PREFIX = "Optimizer.step#"
"""What PyTorch calls the range around an optimizer's step; the optimizer's class follows."""
FUSED_PASS_RATIO = 7 / 4
"""A fused Adam touches seven tensors (parameter, gradient and two moments read, all but the gradient written), its
longest operator four: fused it takes so many times as long as that."""
TENSORS_A_LAUNCH = 36
"""Tensors that one launch of a fused Adam takes (four lists)."""


def optimizer_fused(tape: Tape) -> Tape | None:
    """Adam's step as one pass over all parameters, in as few launches as that takes; None without an Adam whose step
    is not one already."""
    return _optimizer_changed(tape, "Adam", _in_one_pass)


def optimizer_by_lists(tape: Tape) -> Tape | None:
    """The optimizer's operators on lists of tensors (foreach) instead of one tensor after the other; None without an
    optimizer that goes from tensor to tensor."""
    return _optimizer_changed(tape, "", _by_lists)


def _optimizer_changed(tape: Tape, name: str, left: Callable[[Tape, I64], tuple[I64, int] | None]) -> Tape | None:
    """The tape where of each optimizer step those ops are left that `left` says, with that time in total, ns."""
    instance = _optimizer_steps(tape, name)
    gone, duration = np.zeros(len(tape.row), bool), tape.duration.copy()
    for one in np.unique(instance[instance >= 0]).tolist():
        mine = np.flatnonzero(instance == one)
        found = left(tape, mine)
        if found is not None:
            kept, total = found
            gone[mine], gone[kept] = True, False
            duration[kept] = total // len(kept)
    if not gone.any():
        return None
    return without_launches(retimed(tape, duration), gone)


def _in_one_pass(tape: Tape, ops: I64) -> tuple[I64, int] | None:
    """As many launches as each of the passes has, or, where those go from tensor to tensor, one for every few."""
    names, of, counts = np.unique(_names(tape, ops), return_inverse=True, return_counts=True)
    longest = np.bincount(of, weights=_beyond_floor(tape, ops)).max()
    most = int(counts.argmax())
    count = int(counts[most]) if _is_list_op(tape, names[most]) else -(-int(counts[most]) // TENSORS_A_LAUNCH)
    return ops[:count], int(longest * FUSED_PASS_RATIO) + LEAST_KERNEL_NS * count


def _by_lists(tape: Tape, ops: I64) -> tuple[I64, int] | None:
    """The first of every few launches of each kernel."""
    names = _names(tape, ops)
    if any(_is_list_op(tape, name) for name in np.unique(names)):
        return None
    order = np.argsort(names, kind="stable")
    first = np.searchsorted(names[order], names[order])
    nth = np.empty(len(ops), np.int64)
    nth[order] = np.arange(len(ops)) - first
    kept = ops[nth % TENSORS_A_LAUNCH == 0]
    if len(kept) == len(ops):
        return None
    return kept, int(_beyond_floor(tape, ops).sum()) + LEAST_KERNEL_NS * len(kept)


def _beyond_floor(tape: Tape, ops: I64) -> I64:
    """What the ops take beyond what any kernel takes, ns."""
    time: I64 = (tape.duration[ops] - LEAST_KERNEL_NS).clip(0)
    return time


def _names(tape: Tape, ops: I64) -> I32:
    return tape.source.trace.device_ops.name[tape.row[ops]]


def _is_list_op(tape: Tape, name: int) -> bool:
    return "multi_tensor" in (tape.source.trace.text(int(name)) or "")


def _optimizer_steps(tape: Tape, name: str) -> I64:
    """For each op the step of an optimizer of such a name that launched it (row of the host range), -1: none, or fused
    already."""
    source = tape.source
    ranges, ops = source.trace.host_ranges, source.trace.device_ops
    named = [i for i, text in enumerate(source.trace.strings) if text.startswith(OPTIMIZER_PREFIX + name)]
    rows = np.flatnonzero(np.isin(ranges.name, named) & (ranges.kind == RangeKind.ANNOTATION))
    result = np.full(len(tape.row), -1, np.int64)
    if not len(rows):
        return result
    rows = rows[np.argsort(ranges.start[rows], kind="stable")]
    launched = source.launch_time[tape.row]
    inside = contains(union(ranges.start[rows], ranges.end[rows]), launched)
    inside &= source.is_kernel[tape.row]
    at = np.searchsorted(ranges.start[rows], launched, side="right") - 1
    fused = [i for i, text in enumerate(source.trace.strings) if "FusedAdam" in text or "fused_adam" in text]
    done = np.unique(at[inside & np.isin(ops.name[tape.row], fused)])
    inside &= ~np.isin(at, done)
    result[inside] = rows[at[inside]]
    return result
