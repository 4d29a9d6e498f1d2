"""A folder with the dumps of several jobs, or of several attempts at one: an answer for each."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.fleet.hang.document import HangPage, answer_parts, redacted_hang, values
from traceanalyzer.fleet.hang.model import Hang, hang_of
from traceanalyzer.ingest.flight_recorder.folder import read_flight
from traceanalyzer.report.document import Document, Part, Section
from traceanalyzer.report.printed import Printed, Result
from traceanalyzer.trace.flight import Flight

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class HangPages(Result):
    """The answers about several hangs, by the folder of each."""

    jobs: dict[str, Hang]

    @property
    def printed(self) -> Printed:
        """A section a job."""
        sections = [Section(name, _parts(hang)) for name, hang in self.jobs.items()]
        title = f"{len(self.jobs)} jobs"
        found = [{"folder": name, **values(hang)} for name, hang in self.jobs.items()]
        summary: dict[str, Any] = {"headline": title, "jobs": found}
        return Printed(Document(title, sections), summary)


def _parts(hang: Hang) -> list[Part | None]:
    return list(answer_parts(hang))


def hangs_in(
    folder: Path, progress: Progress | None = None, world: int | None = None
) -> dict[str, Hang]:
    """The hang of the dumps in a folder; of several where its subfolders have dumps of the same
    ranks, by their names. Raises UnreadableInputError where there are none."""
    flight = read_flight(folder, progress, world)
    jobs = _jobs_of(folder, flight)
    if len(jobs) < 2:
        return {folder.name: hang_of(flight)}
    return {name: hang_of(read_flight(folder / name, progress, world)) for name in jobs}


def _jobs_of(folder: Path, flight: Flight) -> list[str]:
    """Subfolders that hold the dumps, where a rank is in two of them; empty where none is."""
    kept = {rank: _subfolder(folder, dump.path) for rank, dump in flight.dumps.items()}
    found = set(kept.values())
    is_several = False
    for repeated in flight.repeated:
        name = _subfolder(folder, repeated.path)
        found.add(name)
        is_several |= name != kept.get(repeated.rank, name)
    return sorted(name for name in found if name) if is_several and "" not in found else []


def _subfolder(folder: Path, path: str) -> str:
    """The first folder below `folder` on the way to a file; empty where it lies in `folder`."""
    parts = Path(path).relative_to(folder).parts if Path(path).is_relative_to(folder) else ()
    return parts[0] if len(parts) > 1 else ""


def hang_page(
    jobs: dict[str, Hang],
    hidden: Sequence[re.Pattern[str]] | None = None,
    *,
    full: bool = False,
) -> HangPage | HangPages:
    """The answer about one job, or about each of several; with `hidden` without paths, hosts,
    users, and such names; in a terminal one screen unless it is full."""
    if hidden is not None:
        jobs = {f"job-{i}": redacted_hang(hang, hidden) for i, hang in enumerate(jobs.values(), 1)}
    if len(jobs) == 1:
        return HangPage(next(iter(jobs.values())), full)
    return HangPages(jobs)
