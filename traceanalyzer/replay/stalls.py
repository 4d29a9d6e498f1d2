"""Stalls of the host: long stretches without any event at a place where the other recorded steps
have none. The recorder writes its buffers there, or something else had the processor. A stopwatch's
median step has none of them."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.time.host_timeline import LONG_STRETCH_NS
from traceanalyzer.replay.tape import Tape

LEAST_STEPS = 3  # of two steps nothing says which one is as usual


def without_stalls(tape: Tape) -> Tape:
    """The tape without long work of the host before events that most of its steps have none before,
    as far as the host came to the event by `LONG_STRETCH_NS` later than in their median; as it is
    where its steps do not make the same calls in the same order."""
    calls = tape.source.trace.api_calls
    begins = tape.source.timed.steps.host_start
    per_step = np.bincount(np.searchsorted(begins, calls.start[tape.call], side="right"))
    per_step = per_step[per_step > 0]
    if len(per_step) < LEAST_STEPS or (per_step != per_step[0]).any():
        return tape
    names = calls.name[tape.call].reshape(len(per_step), -1)
    if (names != names[0]).any():
        return tape
    work = tape.work.reshape(names.shape)
    spent = work + tape.dispatch.reshape(names.shape)
    beyond = spent - np.median(spent, axis=0).astype(np.int64)
    stalled = (np.median(work, axis=0) == 0) & (beyond >= LONG_STRETCH_NS)
    left = np.where(stalled, np.maximum(work - beyond, 0), work)
    return replace(tape, work=left.ravel())
