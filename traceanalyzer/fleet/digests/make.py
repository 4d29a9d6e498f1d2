"""From the recording of a rank to its digest, by one pure function that any process may run."""

from pathlib import Path

from traceanalyzer.analysis.ranks.digested import digest_of, why_of
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.reading import reading_as
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.fleet.digests.files import (
    DigestedRank,
    LeftOut,
    Made,
    digest_name,
    digest_names,
    encoded,
)
from traceanalyzer.ingest import load
from traceanalyzer.ingest.places import RecordingPlace, fetched, write_to
from traceanalyzer.ingest.run import rank_in_name
from traceanalyzer.report.format import plain
from traceanalyzer.trace import Trace


def digests_of(path: Path, url: str) -> list[DigestedRank | LeftOut]:
    """The ranks of a recording, or why it cannot be read; it never raises a TraceAnalyzerError."""
    try:
        return [_of_trace(trace, url) for trace in load([path]).traces]
    except TraceAnalyzerError as error:
        why = " ".join(str(error).split()).replace(str(path), url)
        return [LeftOut(url, why, rank_in_name(Path(url)))]


def _of_trace(trace: Trace, url: str) -> DigestedRank | LeftOut:
    if trace.is_companion:
        return LeftOut(url, f"{url}: it tells no times of steps; give the rank's trace")
    measured = measure(trace)
    digest = measured.timed.memo(digest_of)
    gpu = next((device.uid or "" for device in trace.devices if device.id == digest.device), "")
    return DigestedRank(
        url,
        digest,
        why_of(measured.causes, digest.calls),
        gpu,
        len(trace.devices),
        trace.health.notes,
    )


def make(place: RecordingPlace, folder: str) -> Made:
    """Digest one recording into a folder, or below an address. The first of several ranks is
    written last: where it is, all are. Raises TraceAnalyzerError where nothing can be written
    there."""
    try:
        with fetched(place) as path, reading_as(cache=False):
            ranks = digests_of(path, plain(place.url))
    except TraceAnalyzerError as error:
        named = rank_in_name(Path(place.url))
        ranks = [LeftOut(plain(place.url), plain(str(error)), named)]
    names = digest_names(digest_name(place.url, place.stamp), ranks)
    for name, rank in reversed(list(zip(names, ranks, strict=True))):
        write_to(folder, name, encoded(rank))
    return Made(place.url, names, ranks[0].why if isinstance(ranks[0], LeftOut) else "")
