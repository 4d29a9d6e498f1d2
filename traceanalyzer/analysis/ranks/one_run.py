"""Refuses recordings that are not ranks of one run: figures of one of them would be taken for those
of all."""

import re
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.analysis.ranks.compare import why_not_one_run
from traceanalyzer.analysis.ranks.digested import claim_of
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.trace import Trace

_OF_A_RANK = re.compile(
    r"\.(?:part|pid)\d+"
)  # what `collect` adds to the name of a rank's second recording
NAMED = 4


def refuse_several_runs(traces: Sequence[Trace]) -> None:
    """Raises SeveralRunsError where several files are no ranks of one run, saying why and what to
    do.

    Processes in one file belong together, and so do a rank's recordings in one capture."""
    paths = [Path(trace.path) for trace in traces]
    if len({path.parent / _OF_A_RANK.sub("", path.name) for path in paths}) < 2:
        return
    if doubt := why_not_one_run(list(map(claim_of, traces))) or _unranked(traces):
        names = list(dict.fromkeys(trace.path for trace in traces))
        shown = ", ".join(names[:NAMED]) + (
            f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        )
        raise SeveralRunsError(
            f"{len(names)} recordings that are not one run ({doubt}): {shown}; "
            f"name the files of one run, or compare two: traceanalyzer compare {names[0]} {names[1]}"
        )


def _unranked(traces: Sequence[Trace]) -> str:
    """What tells that recordings without a rank are no processes of one run: they ran one after the
    other."""
    if any(trace.rank is not None for trace in traces):
        return ""
    if all(trace.is_companion for trace in traces):
        return "neither says its rank"
    if all(trace.only_step_times for trace in traces):
        return "neither says its rank, and logs of step times do not say when they were written"
    claims = list(map(claim_of, traces))
    begin = max(claim.start_ns for claim in claims)
    end = min(claim.end_ns for claim in claims)
    return (
        "neither says its rank, and they were recorded one after the other" if begin > end else ""
    )
