"""From what a user names to a report: a recording, several ranks of one run, a saved report, or a
stored run."""

from collections.abc import Callable, Sequence
from glob import glob, has_magic
from operator import attrgetter
from os.path import exists, isfile  # a name that cannot be is no file
from pathlib import Path

import orjson

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.base import UnreadableInputError, dataclass
from traceanalyzer.base.files import note_read
from traceanalyzer.base.limits import MIB, limits
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.question import Query
from traceanalyzer.history.runs import is_reference, stored_report
from traceanalyzer.ingest.detect import is_recording
from traceanalyzer.report.compile.figures import logs_of, with_compile
from traceanalyzer.report.kept_report import kept_report
from traceanalyzer.report.model import Report
from traceanalyzer.report.read import is_report, report_from_json
from traceanalyzer.trace import Run

MARK = b'"schema_version"'
"""Every saved report holds this; a recording that does as well is recognised by decoding it."""
LONG_BYTES = (
    4 * MIB
)  # few reports are so long: a recording of that length is recognised by its first bytes


@dataclass(frozen=True)
class Named:
    """What a reference names: its report, and the recording where it was made from one."""

    report: Report
    asked: Query | None = None


def referenced(
    reference: str,
    read: Callable[[Sequence[str]], Run],
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
) -> Named:
    """The report of what `reference` names: `runs.db#42`, a report's JSON, a recording, a folder or
    a pattern of ranks (`rank*.json.gz`). `read` reads recordings, of which `selection` takes a
    part. Raises UnreadableInputError where that names nothing readable, or asks for a part of a
    saved report."""
    stored = is_reference(reference)
    saved = None if stored else _saved(Path(reference))
    if stored or saved is not None:
        part = str(selection or "")
        if part:
            raise UnreadableInputError(
                f"{reference}: a saved report is of what it was made from; leave out {part}"
            )
        return Named(
            stored_report(reference) if saved is None else report_from_json(saved, reference)
        )
    paths = (
        [reference] if exists(reference) or not has_magic(reference) else sorted(glob(reference))
    )
    if not paths:
        raise UnreadableInputError(f"{reference}: no file matches")
    return of_recordings(paths, read, selection, knowledge)


def of_recordings(
    paths: Sequence[str],
    read: Callable[[Sequence[str]], Run],
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
) -> Named:
    """The report of recordings of one run, which `read` reads."""
    asked = Query(read(paths), selection, knowledge)
    return Named(
        with_compile(kept_report(asked), logs_of(map(attrgetter("path"), asked.run.traces))), asked
    )


def report_named(reference: str, read: Callable[[Sequence[str]], Run]) -> Report:
    """The report alone of what `named` gives."""
    return referenced(reference, read).report


def _saved(path: Path) -> bytes | None:
    """The file's text if it is a saved report."""
    if not isfile(path) or (path.stat().st_size > LONG_BYTES and is_recording(path)):
        return None
    with note_read(path).open("rb") as file:
        if file.read(1) != b"{":
            return None
    text = b"" if path.stat().st_size > limits().report else path.read_bytes()
    try:
        return text if MARK in text and is_report(orjson.loads(text)) else None
    except orjson.JSONDecodeError:
        return None
