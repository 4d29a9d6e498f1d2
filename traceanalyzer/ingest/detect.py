"""Which format a file is of, by its content."""

from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.files import may_read
from traceanalyzer.ingest.foreign import what_it_is
from traceanalyzer.ingest.formats import EXPECTED, FORMATS, Format, Reader
from traceanalyzer.ingest.plain.own_tables import refusal_of_table, table_written
from traceanalyzer.ingest.stream import cannot_open, head_of


def readers(pattern: str | None = None) -> Iterator[Reader]:
    """Every format, in order; with a `pattern` for the lines of a timing log that comes before the
    known ones."""
    for form in FORMATS:
        if form.name == "timing" and pattern is not None:
            yield form.module.PatternLog(pattern)
        yield form


def detect(path: Path, pattern: str | None = None) -> Reader:
    """The format of a file, from its content. Raises UnreadableInputError (missing, empty, of no
    known kind)."""
    try:
        size = may_read(path).stat().st_size
    except OSError as error:
        raise cannot_open(path, error) from error
    if not size:
        raise UnreadableInputError(f"{path}: the file is empty; record or export it again")
    head = head_of(path)
    table = table_written(head)
    if table is not None:
        raise UnreadableInputError(f"{path}: {refusal_of_table(table)}")
    for reader in readers(pattern):
        if reader.recognise(head, path):
            return reader
    with path.open("rb") as file:
        what = what_it_is(path, head, file.read(64))
    how = _how_to_read(head) if what.endswith(EXPECTED) else ""
    if how:
        what = f"not a recording of any known kind; {how}"
    raise UnreadableInputError(f"{path}: {what}")


def _how_to_read(head: bytes) -> str:
    """How to read a text as a log of step times, from its own lines; empty for other files."""
    timing = next(form for form in FORMATS if form.name == "timing")
    return str(timing.module.how_to_read(head))


def is_recording(path: Path, pattern: str | None = None) -> bool:
    """Whether the file is of a format that is looked for in folders."""
    found = _read_by(path, pattern)
    if isinstance(found, Format):
        return found.in_folder == "recording" and not found.repeats(path)
    return found is not None


def is_companion(path: Path) -> bool:
    """Whether the file is a memory snapshot or a log of torch.compile."""
    found = _read_by(path)
    return isinstance(found, Format) and found.in_folder == "companion"


def is_snapshot(path: Path) -> bool:
    """Whether the file is a snapshot of GPU memory."""
    found = _read_by(path) if path.is_file() else None
    return found is not None and found.name == "memory"


def _read_by(path: Path, pattern: str | None = None) -> Reader | None:
    """What reads the file, None where nothing does."""
    try:
        return detect(path, pattern)
    except UnreadableInputError:
        return None
