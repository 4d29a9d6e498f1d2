"""A folder of runs as a history: each recording in it, or capture in a folder of its own, is
analyzed and stored."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, dataclass
from traceanalyzer.history.database import writing
from traceanalyzer.history.runs import add_run, fingerprint
from traceanalyzer.ingest.detect import is_recording
from traceanalyzer.ingest.folders import recordings_in
from traceanalyzer.report.kept_report import report_once

MOST_RUNS = 500
"""More are a store of its own: `analyze --store` keeps what was analyzed once."""
PAGES = ("report.html", "index.html")
"""Names of a run's own page, in its folder."""


@dataclass(frozen=True)
class Stored:
    """What was stored of a folder."""

    reports: dict[int, str]  # path of the page of a run, where it has one, by its number
    left_out: list[str]  # what could not be analyzed, and why, one line each


def stored_folder(
    folder: Path, database: Path, progress: Callable[[int, int], None] | None = None
) -> Stored:
    """Analyze the runs of a folder, oldest first, into a new history; `progress` is told how many
    of them are done. Raises UnreadableInputError where there is none."""
    places = _runs_in(folder)
    reports = {}
    left_out = []
    with writing(database) as db:
        for done, place in enumerate(places):
            if progress is not None:
                progress(done, len(places))
            try:
                report = report_once([str(place)])
            except TraceAnalyzerError as error:
                left_out.append(" ".join(str(error).split()))
                continue
            number = add_run(
                db,
                report,
                tags={"run": place.name},
                fingerprint=fingerprint([item.path for item in report.inputs]),
                stored_at=_written_at(place),
            )
            if page := _page_of(place):
                reports[number] = page
        if not places or len(left_out) == len(places):
            why = f": {left_out[0]}" if left_out else ""
            raise UnreadableInputError(f"{folder}: no recording and no capture in this folder{why}")
    return Stored(reports, left_out)


def _runs_in(folder: Path) -> list[Path]:
    """Captures in folders of their own, and single recordings, oldest first."""
    found = [
        place
        for place in _shown(folder)
        if (recordings_in(place) if place.is_dir() else is_recording(place))
    ]
    return sorted(found, key=lambda place: (_written_at(place), place.name))[-MOST_RUNS:]


def _written_at(place: Path) -> datetime:
    """When the last recording of a run was written: other files of its folder come and go."""
    files = [Path(path) for path in recordings_in(place)] if place.is_dir() else [place]
    return datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)


def _shown(folder: Path) -> Iterator[Path]:
    for place in sorted(folder.iterdir()):
        if not place.name.startswith("."):
            yield place


def _page_of(place: Path) -> str:
    """The page of a run: in its folder, or beside it under its name; empty where there is none."""
    inside = [place / name for name in PAGES] if place.is_dir() else []
    beside = place.with_name(f"{place.name.partition('.')[0]}.html")
    return next((str(page) for page in (*inside, beside) if page.is_file()), "")
