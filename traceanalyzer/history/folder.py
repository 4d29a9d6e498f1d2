"""A folder of runs as a history: each recording in it, or capture in a folder of its own, is
analyzed and stored."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, dataclass
from traceanalyzer.diagnosis.question import Query
from traceanalyzer.history.runs import fingerprint, store_report
from traceanalyzer.ingest import load
from traceanalyzer.ingest.detect import is_recording
from traceanalyzer.ingest.folders import recordings_in
from traceanalyzer.report.kept_report import kept_report
from traceanalyzer.report.model import Report

MOST_RUNS = 500
"""More are a store of its own: `analyze --store` keeps what was analyzed once."""
PAGES = ("report.html", "index.html")
"""Names of a run's own page, in its folder."""


@dataclass(frozen=True)
class Stored:
    """What was stored of a folder."""

    reports: dict[int, str]  # path of the page of a run, where it has one, by its number
    left_out: list[str]  # what could not be analyzed, and why, one line each


def stored_folder(folder: Path, database: Path) -> Stored:
    """Analyze the runs of a folder, oldest first, into a new history. Raises UnreadableInputError
    where there is none."""
    reports = {}
    left_out = []
    for place in _runs_in(folder):
        try:
            run = load([place])
            report = kept_report(Query(run))
        except TraceAnalyzerError as error:
            left_out.append(" ".join(str(error).split()))
            continue
        tags = {"run": place.name, **_program_of(place, report)}
        files = fingerprint([trace.path for trace in run.traces])
        number = store_report(
            database, report, tags=tags, fingerprint=files, stored_at=_written_at(place)
        )
        if page := _page_of(place):
            reports[number] = page
    if not database.exists():
        why = f": {left_out[0]}" if left_out else ""
        raise UnreadableInputError(f"{folder}: no recording and no capture in this folder{why}")
    return Stored(reports, left_out)


def _program_of(place: Path, report: Report) -> dict[str, str]:
    """The tag that runs of one program share: its command where that was recorded and says more than
    the interpreter, else the run's own name."""
    rows = report.tables.get("conditions", [])
    command = next((str(one.value) for one in rows if one.name == "command"), "")
    return {"command": command} if " " in command else {"recording": place.name}


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
