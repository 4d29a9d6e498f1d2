"""Stored runs by reference: `runs.db#42`, `runs.db#latest`, `runs.db#branch=main` (the latest run with that tag)."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.history.database import reading
from traceanalyzer.report.model import Report
from traceanalyzer.report.read import report_from_json

if TYPE_CHECKING:
    from sqlite_utils import Database


REFERENCE = re.compile(r"(?P<file>.+)#(?:(?P<run>\d{1,18})|latest|(?P<key>[^#=]+)=(?P<value>[^#]*))")
LATEST = "SELECT max(id) FROM runs"
LATEST_TAGGED = "SELECT max(run_id) FROM tags WHERE key = ? AND value = ?"


def is_reference(text: str) -> bool:
    """Whether a text names a stored run rather than a file."""
    return REFERENCE.fullmatch(text) is not None and not Path(text).exists()


def stored_report(reference: str) -> Report:
    """The report of a stored run. Raises UnreadableInputError, saying what there is, where it names none."""
    parts = REFERENCE.fullmatch(reference)
    if parts is None:
        raise UnreadableInputError(
            f"{reference}: no stored run; name one as FILE#NUMBER, FILE#latest or FILE#KEY=VALUE"
        )
    with reading(Path(parts["file"])) as db:
        run = _run(db, parts)
        row = db.execute("SELECT json FROM reports WHERE run_id = ?", [run]).fetchone()
        if row is None:
            raise UnreadableInputError(f"{reference}: no such run; {_there_is(db)}")
    return report_from_json(str(row[0]), reference)


def _run(db: "Database", parts: re.Match[str]) -> int | None:
    if parts["run"]:
        return int(parts["run"])
    found = db.execute(LATEST_TAGGED, [parts["key"], parts["value"]]) if parts["key"] else db.execute(LATEST)
    return found.fetchone()[0]


def _there_is(db: "Database") -> str:
    first, last, count = db.execute("SELECT min(id), max(id), count(*) FROM runs").fetchone()
    return f"it holds {count} run(s), {first} to {last}" if count else "it holds no runs"
