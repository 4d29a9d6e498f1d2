"""What `analyze` says of a job, for its class, its step and whether a rank really holds it up: of
all recordings of a small job, of the ranks that count of a large one.

Digests tell who comes late as recorded. What comes late may be the profiler's cost, or the lead of
hosts that never wait: only the replay of recordings tells."""

from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.rank_costs import held_up
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.fleet.digests.files import DigestedRank, digest_name
from traceanalyzer.fleet.job.model import Analyzed, JobAdvice, JobPart
from traceanalyzer.ingest import load
from traceanalyzer.ingest.places import RecordingPlace, is_remote, places_in
from traceanalyzer.report.build import report_without_tables
from traceanalyzer.report.outline import gains, opening
from traceanalyzer.report.outline.breakdown import shown_parts


def analyzed(ranks: Sequence[DigestedRank], digests: Sequence[RecordingPlace]) -> Analyzed | None:
    """The analysis of these ranks, whose digests are given; None where a recording is not here any
    more, is another by now, or cannot be read."""
    paths = dict.fromkeys(one.path for one in ranks)
    names = {place.name.rpartition("/")[2] for place in digests}
    if not all(_is_here(path, names) for path in paths):
        return None
    try:
        ranks_measured = measured(load([Path(path) for path in paths]))
        critical = ranks_measured.critical
        diagnosis = diagnose(critical)
    except SeveralRunsError:
        raise
    except TraceAnalyzerError:
        return None
    named = held_up(critical, diagnosis)
    report = report_without_tables(ranks_measured, diagnosis)
    return Analyzed(
        report.summary,
        named.costs,
        named.how,
        named.cause,
        named.shared,
        opening.damaged_files(report),
        budget=[
            JobPart(part.label, part.ms, part.share, part.within) for part in shown_parts(report)
        ],
        advice=[
            JobAdvice(gains.id_of(one), gains.prediction(report, one), one.action)
            for one in gains.on_first_screen(report)
        ],
    )


def _is_here(path: str, digests: set[str]) -> bool:
    """Whether the recording that a digest was made of lies where it was, as it was."""
    if is_remote(path) or not Path(path).is_file():
        return False
    stems = {digest_name(place.url, place.stamp) for place in places_in([path])[0]}
    return any(name.rpartition("-")[0] in stems for name in digests)
