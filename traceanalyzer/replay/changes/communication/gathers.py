"""Parameters that are spread over ranks and gathered before they are needed: how often, and when."""

import re

import numpy as np

from traceanalyzer.replay.changes.communication.collectives import REDUCTIONS, of_kind, removed, sizes
from traceanalyzer.replay.patterns.named import nodes_named, texts
from traceanalyzer.replay.patterns.repeats import each_step
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool

GATHERING = re.compile(r"^FSDP::(all_gather|backward_prefetch)")
"""What FSDP calls its gathers, the copies into and out of their messages, and those made early."""
UNIT = re.compile(r"^FSDP::all_gather(_copy_out)? \(.+\)$")
"""The same where it names the module whose parameters are gathered."""


def parameters_kept(tape: Tape) -> Tape | None:
    """Parameters gathered once stay for the rest of the step, and what the host and the device do to gather them again
    is not done; where nothing is learnt they stay for good. None where none are gathered again."""
    again = gathered_again(tape)
    left = removed(tape, again)
    if left is None or (of_kind(tape, "all_gather") & tape.in_backward & ~again).any():
        return left
    # Ranges of gathers, and of the copies around them, that are of the backward pass, or of modules gathered before.
    source, ranges, tree = tape.source, tape.source.trace.host_ranges, tape.source.linked.tree
    gone = np.zeros(len(ranges), bool)
    gone[tree.row[~tree.is_call]] = source.joined.in_backward[~tree.is_call]
    gone &= texts(source.linked, GATHERING)[ranges.name]
    rows = np.flatnonzero(texts(source.linked, UNIT)[ranges.name])
    rows = rows[np.argsort(ranges.start[rows], kind="stable")]
    step = np.searchsorted(source.timed.steps.host_start, ranges.start[rows], side="right")
    gone[rows] |= _again(tape, step, ranges.name[rows])
    left = left.without_launches(tape.of_launches(tree.innermost(tree.of_ranges(gone, False)) >= 0))
    return left.with_dispatch(left.dispatch * (1.0 - tape.share_within_ranges(gone)))


def gathered_again(tape: Tape) -> Bool:
    """Gathers of a module's parameters that its step has gathered before; where modules are not named those within the
    backward pass of messages as large as some of the forward pass."""
    size, step = sizes(tape), tape.step_of_op
    gathering, tree = of_kind(tape, "all_gather") & (size > 0), tape.source.linked.tree
    nearest = tree.innermost(nodes_named(tape.source.linked, UNIT))
    unit = tape.of_launches(np.where(nearest >= 0, tree.names(np.maximum(nearest, 0)), -1).astype(np.int64))
    result = np.zeros(len(size), bool)
    if gathering.any() and (unit[gathering] >= 0).all():
        result[gathering] = _again(tape, step[gathering], unit[gathering])
        return result
    backward = tape.in_backward
    for rows in each_step(step, gathering):
        result[rows] = backward[rows] & np.isin(size[rows], size[rows[~backward[rows]]])
    return result


def _again(tape: Tape, step: I32 | I64, unit: I32 | I64) -> Bool:
    """Which of these, in order, are not the first of their step and unit; all, where nothing is learnt: what has been
    gathered once is right for good."""
    result = np.ones(len(step), bool)
    if of_kind(tape, *REDUCTIONS).any() or tape.in_backward.any():
        result[np.unique(np.stack((step, unit)), axis=1, return_index=True)[1]] = False
    return result


def prefetched(tape: Tape) -> Tape | None:
    """Parameters are gathered one layer ahead, on a stream of their own: nothing waits for them but the order of their
    stream; None without gathers."""
    gathering = of_kind(tape, "all_gather")
    return tape.on_own_stream(gathering) if gathering.any() else None
