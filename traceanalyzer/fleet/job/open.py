"""From what a user names to the answer about a job: digests are read, and made of recordings that
have none."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.reading import reading
from traceanalyzer.fleet.digests.files import (
    SUFFIX,
    DigestedRank,
    LeftOut,
    Made,
    digest_name,
    read_digests,
)
from traceanalyzer.fleet.digests.map import Cluster, Done, make_all, stems_in
from traceanalyzer.fleet.job.answer import job_answer
from traceanalyzer.fleet.job.model import Analyzed, Job
from traceanalyzer.fleet.job.ranks import racks_in
from traceanalyzer.fleet.job.select import chosen
from traceanalyzer.ingest.cache.store import trusted_place
from traceanalyzer.ingest.places import RecordingPlace, is_remote, iterations_in, places_in
from traceanalyzer.trace import Run


@contextmanager
def digests_folder(asked: str | None) -> Iterator[str]:
    """Where digests go: the folder asked for, else one of the cache; without a cache that can be
    written, and is the user's alone, one that is gone after the block."""
    found = asked
    with suppress(OSError):
        if asked is None and reading().cache:
            kept = trusted_place(make=True) / "digests"
            kept.mkdir(exist_ok=True)
            found = str(kept) if os.access(kept, os.W_OK) else None
    with (
        nullcontext(found)
        if found
        else tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder
    ):
        yield folder


def job_of(
    paths: Sequence[str],
    folder: str,
    done: Done | None = None,
    via: Cluster | None = None,
    hidden: Sequence[re.Pattern[str]] | None = None,
    racks: Path | None = None,
) -> Job:
    """The answer about a job, from digests and recordings of its ranks; digests are made of the
    recordings and kept in `folder`. With `hidden`, paths, hosts and names that match it are
    removed; `racks` is a file that says in which rack each host is. Raises TraceAnalyzerError."""
    digests, recordings, lines = _sorted(paths, folder)
    if recordings:
        digests += _digests(make_all(recordings, folder, done, via), folder, lines)
    if not digests and len(lines) == 1:
        raise UnreadableInputError(lines[0].why)
    found = list(read_digests(digests))
    where = {
        one.path: place
        for one, place in zip(found, digests, strict=True)
        if isinstance(one, DigestedRank)
    }

    def explained(ranks: Sequence[DigestedRank]) -> list[DigestedRank]:
        read = read_digests([where[one.path] for one in ranks], why=True)
        return [unnamed(one) for one in read if isinstance(one, DigestedRank)]

    hosts: dict[str, str] = {}

    def unnamed(rank: DigestedRank) -> DigestedRank:
        if hidden is None or rank.digest.host is None:
            return rank
        host = hosts.setdefault(rank.digest.host, f"host-{len(hosts) + 1}")
        return replace(rank, digest=replace(rank.digest, host=host))

    def seen(ranks: Sequence[DigestedRank]) -> Analyzed | None:
        # What reads and diagnoses recordings takes as long to load as the answer.
        from traceanalyzer.fleet.job.analyzed import analyzed

        return analyzed(ranks, [where[one.path] for one in ranks])

    every = [unnamed(one) if isinstance(one, DigestedRank) else one for one in found]
    ranks = chosen([*every, *lines])
    ranks = replace(ranks, notes=(*iterations_in(paths, recordings), *ranks.notes))
    job = job_answer(ranks, explained, racks_in(racks) if racks else {}, seen)
    if hidden is None:
        return job
    from traceanalyzer.report.privacy.redact import (
        redact_rows,
    )  # reports take as long to load as the answer

    cleaned: Job = redact_rows(job, Run(()), hidden)
    return cleaned


def _digests(outcomes: Sequence[Made], folder: str, lines: list[LeftOut]) -> list[RecordingPlace]:
    lines += [LeftOut(one.url, one.failure) for one in outcomes if not one.digests]
    names = {name for one in outcomes for name in one.digests}
    return [
        place for place in places_in([folder], SUFFIX)[0] if place.name.rpartition("/")[2] in names
    ]


def _sorted(
    paths: Sequence[str],
    folder: str,
) -> tuple[list[RecordingPlace], list[RecordingPlace], list[LeftOut]]:
    """Digests, recordings, and what could not be listed. A folder that holds digests is one of
    them."""
    digests: list[RecordingPlace] = []
    rest = []
    for path in paths:
        if path.endswith(SUFFIX) or is_remote(path) or Path(path).is_dir():
            found = places_in([path], SUFFIX)[0]
            digests += found
            rest += [] if found else [path]
        else:
            rest.append(path)
    digested = stems_in(folder) if rest else {}
    recordings, failures = places_in(
        rest, known=lambda place: digest_name(place.url, place.stamp) in digested
    )
    return digests, recordings, [LeftOut(one.path, one.message, one.rank) for one in failures]
