"""Several ranks whose hosts keep the others waiting: all of them at once, or by turns, at one
collective this one and at the next another.

By turns each works as long as the others over a few steps, so that none has more to do; what tells
is the work before each collective beside that of the middle rank."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64, Bool, distinct

LEAST_TURN_SHARE = 0.05
"""Of a step that a rank works longer than the middle one before a collective, for that to count:
hosts that do the same differ by 2 %."""
LEAST_STEPS_SHARE = 0.5
"""Of the steps that must have such a turn: a pause of Python's comes now and then."""
MOST_OF_ONE_RANK = 0.75
"""Of all turns' time, from which on one rank is late and not several by turns."""
AT_ONCE_SHARE = 0.25
"""Of the turns' time, from which on that of ranks beside the one that works longest is more than
chance."""
LEAST_WAITED_SHARE = 0.25
"""Of the turns' time that another rank must have waited in the collectives themselves: hosts that
run ahead of their GPUs keep nobody waiting."""


@dataclass(frozen=True)
class WorkLonger:
    """How much longer than the middle rank some work before collectives."""

    ranks: tuple[int, ...]
    """Positions of the ranks that do so, the one that does so most first."""
    more_ms: float
    """A step, of all ranks together: more than the step may have, as their hosts work at one time."""
    most_ms: float
    """A step, of the rank that does so most."""
    at_once: bool
    """Whether they do so at the same collectives, not by turns."""
    kept: tuple[F64, ...]
    """For each rank the share of its host's work before each event that is left where it works as
    long as the middle rank."""


def ranks_that_work_longer(tapes: Sequence[Tape]) -> WorkLonger | None:
    """Which ranks keep the others waiting; None where nobody does, or one rank does alone."""
    last = (int(tape.meeting.max(initial=-1)) for tape in tapes)
    meetings = max(last, default=-1) + 1
    if len(tapes) < 2 or not meetings:
        return None
    worked = np.stack([_worked_ns(tape, meetings) for tape in tapes])
    excess = _excess_ns(worked, tapes[0])
    of_rank = excess.sum(axis=1)
    total = float(of_rank.sum())
    if not total or of_rank.max() > MOST_OF_ONE_RANK * total:
        return None
    turns = excess.max(axis=0) > 0
    waited = np.max([_waited_ns(tape, meetings) for tape in tapes], axis=0)
    is_regular = _steps_with(turns, tapes[0]) >= LEAST_STEPS_SHARE * tapes[0].steps
    if not is_regular or waited[turns].sum() < LEAST_WAITED_SHARE * total:
        return None
    left = 1.0 - np.divide(excess, worked, out=np.zeros_like(excess), where=excess > 0)
    order = np.argsort(-of_rank, kind="stable")
    pairs = zip(tapes, left, strict=True)
    return WorkLonger(
        ranks=tuple(int(rank) for rank in order if of_rank[rank] > 0),
        more_ms=total / tapes[0].steps / NS_PER_MS,
        most_ms=float(of_rank.max()) / tapes[0].steps / NS_PER_MS,
        at_once=total - float(excess.max(axis=0).sum()) > AT_ONCE_SHARE * total,
        kept=tuple(_of_events(tape, of_meetings) for tape, of_meetings in pairs),
    )


def _excess_ns(worked: F64, first: Tape) -> F64:
    """By rank and meeting what a host works longer than the middle one, where it is much."""
    shared = np.isfinite(worked).all(axis=0)
    middle = np.sort(worked, axis=0)[(len(worked) - 1) // 2]
    excess: F64 = np.where(shared, worked - middle, 0.0)
    least_ns = LEAST_TURN_SHARE * float(first.source.timed.steps.duration.mean())
    return np.where(excess < least_ns, 0.0, excess)


def _steps_with(meetings: Bool, first: Tape) -> int:
    """In how many steps any of these meetings are."""
    rows = np.flatnonzero(first.meeting >= 0)
    chosen = rows[meetings[first.meeting[rows]]]
    return len(distinct(first.step_of_op[chosen]))


def _worked_ns(tape: Tape, meetings: int) -> F64:
    """Work of the host since the meeting before each; NaN where it does not take part."""
    result = np.full(meetings, np.nan)
    rows = np.flatnonzero(tape.meeting >= 0)
    done = np.cumsum(tape.work + tape.loading)[tape.event[rows]]
    result[tape.meeting[rows]] = np.diff(done, prepend=0)
    return result


def _waited_ns(tape: Tape, meetings: int) -> I64:
    """How much longer than its transfer each meeting was recorded on a rank."""
    result = np.zeros(meetings, np.int64)
    rows = np.flatnonzero(tape.meeting >= 0)
    ops = tape.source.trace.device_ops
    recorded = (ops.end - ops.start)[tape.row[rows]]
    result[tape.meeting[rows]] = np.maximum(recorded - tape.duration[rows], 0)
    return result


def _of_events(tape: Tape, of_meetings: F64) -> F64:
    """The value of the next meeting for each event; 1 after the last."""
    rows = np.flatnonzero(tape.meeting >= 0)
    following = np.searchsorted(tape.event[rows], np.arange(len(tape.dispatch)))
    return np.append(of_meetings[tape.meeting[rows]], 1.0)[following]
