"""The map: digests of all recordings that have none yet, by processes of this machine or those of a
cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.figures import counted
from traceanalyzer.base.parallel import free_memory_bytes, most_at_once
from traceanalyzer.base.parallel.children import WorkQueue, children, shared_queue
from traceanalyzer.base.reading import reading, reading_as
from traceanalyzer.fleet.digests.files import SUFFIX, Made, arrow, digest_name, refusal_name
from traceanalyzer.ingest.folders import ANALYZED, needed_bytes
from traceanalyzer.ingest.places import RecordingPlace, names_in, remove_from
from traceanalyzer.ingest.stream import text_bytes

MOST_RATIO = 12
"""A compressed trace that lies elsewhere is at most so many times as large once read: what is
needed for it."""
MOST_TURNS = 4096  # processes take work so many times, however many recordings there are
Done = Callable[[int, int], None]
Cluster = Callable[[Sequence[RecordingPlace], str, Callable[[int], None]], list[Made]]
"""Digests recordings on other machines: given those, the folder, and what is called with how many
are done."""


def make_all(
    places: Sequence[RecordingPlace],
    folder: str,
    done: Done | None = None,
    via: "Cluster | None" = None,
) -> list[Made]:
    """A digest of each recording that has none in the folder yet, by several processes, or those of
    a cluster; in the order of the places. `done` is called with how many there are, and of how
    many. Raises TraceAnalyzerError."""
    arrow()
    by_stem = stems_in(folder)
    by_place = {place: _made_before(place, by_stem) for place in places}
    todo = [place for place, made in by_place.items() if made is None]

    def report(more: int) -> None:
        if done is not None:
            done(len(places) - len(todo) + more, len(places))

    outcomes = (via or _by_processes)(todo, folder, report) if todo else []
    by_place.update(zip(todo, outcomes, strict=True))
    _remove_older(folder, dict(zip(todo, outcomes, strict=True)), by_stem)
    return [made for made in by_place.values() if made is not None]


def done_here(outcomes: Sequence[Made]) -> list[str]:
    """How many recordings this process digested in place of a cluster, in a line."""
    count = sum(one.in_place for one in outcomes)
    if not count:
        return []
    return [
        f"{counted(count, 'recording')} digested by this process: workers of the cluster "
        "were gone, and it finished nothing"
    ]


def _made_before(place: RecordingPlace, by_stem: Mapping[str, Iterable[str]]) -> Made | None:
    """The digests in the folder that are of this recording; None where they are not all there."""
    stem = digest_name(place.url, place.stamp)
    names = by_stem.get(stem, ())
    is_complete = any(name.endswith(f"-0{SUFFIX}") for name in names)
    if not is_complete and refusal_name(stem) not in names:
        return None
    return Made(place.url, tuple(sorted(names)), found=True)


def stems_in(folder: str) -> dict[str, list[str]]:
    """The digests in a folder, by what their names have in common for one recording. Raises
    TraceAnalyzerError."""
    found: dict[str, list[str]] = {}
    try:
        for name in names_in(folder, SUFFIX):
            found.setdefault(name.rpartition("-")[0], []).append(name)
    except OSError as error:
        raise TraceAnalyzerError(f"cannot write {folder}: {error.strerror or error}") from error
    return found


def _remove_older(
    folder: str, outcomes: dict[RecordingPlace, Made], by_stem: dict[str, list[str]]
) -> None:
    """Remove what was there of recordings that were digested again, as they were or are."""
    new = {
        digest_name(place.url, place.stamp).rpartition("-")[0]: one.digests
        for place, one in outcomes.items()
    }
    for stem, names in by_stem.items():
        kept = new.get(stem.rpartition("-")[0], names)
        for name in names:
            if name not in kept:
                with suppress(OSError, TraceAnalyzerError):
                    remove_from(folder, name)


def _by_processes(
    todo: Sequence[RecordingPlace],
    folder: str,
    report: Callable[[int], None],
) -> list[Made]:
    """By this process and others, each taking the next when it is free; this one does what another
    did not finish."""
    at_once = -(-len(todo) // MOST_TURNS) or 1
    turns = [todo[i : i + at_once] for i in range(0, len(todo), at_once)]
    by_url: dict[str, Made] = {}
    from traceanalyzer.fleet.digests.make import (
        make,
    )  # what reads recordings takes a second to load

    fitting = most_at_once(map(_needed, todo), free_memory_bytes())
    count = max(min(reading().jobs, len(todo), fitting), 1)
    with (
        reading_as(jobs=1),
        shared_queue(len(turns)) as numbers,
        children(partial(_apart, turns, folder, numbers), count - 1) as helpers,
    ):
        for number in numbers:
            by_url |= {place.url: make(place, folder) for place in turns[number]}
            report(min(number * at_once, len(todo)))
        by_url |= {one.url: one for helper in helpers for one in helper.values()}
    for place in todo:
        if place.url not in by_url:
            by_url[place.url] = make(place, folder)
    report(len(todo))
    return [by_url[place.url] for place in todo]


def _apart(
    turns: Sequence[Sequence[RecordingPlace]], folder: str, numbers: WorkQueue
) -> Iterator[Made]:
    from traceanalyzer.fleet.digests.make import make

    for number in numbers:
        for place in turns[number]:
            yield make(place, folder)


def _needed(place: RecordingPlace) -> int:
    if place.remote:
        return int(place.size * MOST_RATIO * ANALYZED.text)
    path = Path(place.name)
    return needed_bytes(path, text_bytes(path), ANALYZED)
