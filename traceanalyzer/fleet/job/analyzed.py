"""What `analyze` says of a job, for its class, its step and whether a rank really holds it up: of
all recordings of a small job, of the ranks that count of a large one.

Digests tell who comes late as recorded. What comes late may be the profiler's cost, or the lead of
hosts that never wait: only the replay of recordings tells."""

from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.diagnosis.diagnose import Diagnosis, diagnose
from traceanalyzer.diagnosis.finding import Finding
from traceanalyzer.diagnosis.remedies.straggler import holding_up
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.fleet.digests.files import DigestedRank, digest_name
from traceanalyzer.fleet.job.model import Analyzed
from traceanalyzer.ingest import load
from traceanalyzer.ingest.places import RecordingPlace, is_remote, places_in

STRAGGLER = "straggler"  # the finding that names ranks


def analyzed(ranks: Sequence[DigestedRank], digests: Sequence[RecordingPlace]) -> Analyzed | None:
    """The analysis of these ranks, whose digests are given; None where a recording is not here any
    more, is another by now, or cannot be read."""
    paths = dict.fromkeys(one.path for one in ranks)
    names = {place.name.rpartition("/")[2] for place in digests}
    if not all(_is_here(path, names) for path in paths):
        return None
    try:
        critical = measured(load([Path(path) for path in paths])).critical
        found = diagnose(critical)
    except SeveralRunsError:
        raise
    except TraceAnalyzerError:
        return None
    straggler = _straggler(found.findings)
    rows = [] if critical.ranks is None else critical.ranks.rows
    return Analyzed(
        summary=found.summary,
        holds_up=straggler is not None,
        cost_ms=None if straggler is None else _cost_ms(straggler, _gain_ms(found)),
        ranks=frozenset(rows[one.position].rank for one in holding_up(critical)),
    )


def _cost_ms(straggler: Finding, gain_ms: float | None) -> float | None:
    """What ranks cost: the finding's headroom, or less where the advice gains less."""
    known = [one for one in (straggler.headroom_ms, gain_ms) if one]
    return min(known, default=None)


def _gain_ms(found: Diagnosis) -> float | None:
    """What the step gains without the ranks that hold it up, as the advice says; None where it says
    nothing."""
    step_ms = found.summary.step_ms
    for advice in found.recommendations:
        if advice.remedy == "fix_straggler" and advice.predicted_step_ms and step_ms:
            return step_ms - advice.predicted_step_ms
    return None


def _is_here(path: str, digests: set[str]) -> bool:
    """Whether the recording that a digest was made of lies where it was, as it was."""
    if is_remote(path) or not Path(path).is_file():
        return False
    stems = {digest_name(place.url, place.stamp) for place in places_in([path])[0]}
    return any(name.rpartition("-")[0] in stems for name in digests)


def _straggler(findings: Sequence[Finding]) -> Finding | None:
    for finding in findings:
        if finding.id == STRAGGLER:
            return finding
    return None
