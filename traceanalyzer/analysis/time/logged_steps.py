"""The steps of a recording that is a timing log."""

import numpy as np

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.time.step_evidence import HostSteps


def logged_steps(linked: Linked) -> HostSteps | None:
    """The steps of a recording that is a timing log; None where a profiler recorded."""
    trace, log = linked.trace, linked.trace.step_timings
    rows = np.flatnonzero(log.duration > 0)
    if not len(rows) or not trace.only_step_times:
        return None
    names = tuple(
        f"step {n}" if n >= 0 else f"line {i}" for i, n in zip(rows.tolist(), log.step[rows].tolist(), strict=True)
    )
    return HostSteps("timing_log", names, log.start[rows], log.start[rows] + log.duration[rows])
