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
from traceanalyzer.fleet.digests.map import Cluster, Done, done_here, make_all, stems_in
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
    places, recordings, unread = _sorted(paths, folder)
    outcomes = make_all(recordings, folder, done, via) if recordings else []
    if outcomes:
        places += _digests(outcomes, folder, unread)
    if not places and len(unread) == 1:
        raise UnreadableInputError(unread[0].why)
    digests = _JobDigests(places, hides_hosts=hidden is not None)
    ranks = chosen([*digests.read, *unread])
    notes = (*iterations_in(paths, recordings), *done_here(outcomes), *ranks.notes)
    ranks = replace(ranks, notes=notes)
    rack_of = racks_in(racks) if racks else {}
    job = job_answer(ranks, digests.explained, rack_of, digests.analyzed)
    return job if hidden is None else _redacted(job, hidden)


class _JobDigests:
    """The digests of a job, read; of ranks that turn out to matter more is read when asked for."""

    def __init__(self, places: Sequence[RecordingPlace], *, hides_hosts: bool) -> None:
        """`hides_hosts`: hosts are called host-1, host-2, ..."""
        self._aliases: dict[str, str] | None = {} if hides_hosts else None
        self._places: dict[str, RecordingPlace] = {}
        self.read: list[DigestedRank | LeftOut] = []
        for digest, place in zip(read_digests(places), places, strict=True):
            if isinstance(digest, DigestedRank):
                self._places[digest.path] = place
            self.read.append(self._named(digest))

    def explained(self, ranks: Sequence[DigestedRank]) -> list[DigestedRank]:
        """The ranks with what their digests say of why they take their time."""
        read = map(self._named, read_digests(self._places_of(ranks), why=True))
        return [rank for rank in read if isinstance(rank, DigestedRank)]

    def analyzed(self, ranks: Sequence[DigestedRank]) -> Analyzed | None:
        """What the analysis of the ranks' recordings says; None where they are not there."""
        # What reads and diagnoses recordings takes as long to load as the answer.
        from traceanalyzer.fleet.job.analyzed import analyzed

        return analyzed(ranks, self._places_of(ranks))

    def _places_of(self, ranks: Sequence[DigestedRank]) -> list[RecordingPlace]:
        return [self._places[rank.path] for rank in ranks]

    def _named(self, rank: DigestedRank | LeftOut) -> DigestedRank | LeftOut:
        """The rank with the alias of its host, where hosts are hidden."""
        if self._aliases is None or isinstance(rank, LeftOut) or rank.digest.host is None:
            return rank
        alias = self._aliases.setdefault(rank.digest.host, f"host-{len(self._aliases) + 1}")
        return replace(rank, digest=replace(rank.digest, host=alias))


def _redacted(job: Job, hidden: Sequence[re.Pattern[str]]) -> Job:
    # Reports take as long to load as the answer.
    from traceanalyzer.report.privacy.redact import redact_rows

    cleaned: Job = redact_rows(job, Run(()), hidden)
    return cleaned


def _digests(outcomes: Sequence[Made], folder: str, unread: list[LeftOut]) -> list[RecordingPlace]:
    """The digests that were made; what could not be read is added to `unread`."""
    unread += [LeftOut(one.url, one.failure) for one in outcomes if not one.digests]
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
