"""Both sides of a comparison at once: A is read and analyzed by another process while this one does B."""

from __future__ import annotations

import pickle
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from traceanalyzer.files import note_read
from traceanalyzer.ingest.cache.kept import has_model
from traceanalyzer.ingest.free_memory import ANALYZED, free_bytes, most_at_once, needed_bytes
from traceanalyzer.ingest.processes import LEAST_BYTES, Process, requests, running
from traceanalyzer.ingest.stream import text_bytes
from traceanalyzer.limits import limits, raise_for_all
from traceanalyzer.reading import read_with, reading, reading_as

if TYPE_CHECKING:
    from typing import BinaryIO

    from traceanalyzer.report.model import Report
    from traceanalyzer.report.timeline.lanes import Timeline
    from traceanalyzer.selection import Knowledge, Selection

WORKER = "traceanalyzer.cli.sides"


class Side(NamedTuple):
    """The report, and a step of it event by event where a page shows that; what else was measured is let go."""

    report: Report
    step: Timeline | None


def sides_of(a: str, b: str, selection: Selection, knowledge: Knowledge, *, drawn: bool) -> tuple[Side, Side]:
    """What the two references name. `drawn`: with a step. Raises TraceAnalyzerError, that of A first."""
    asked = [(reference, selection, knowledge, drawn) for reference in (a, b)]
    if not _worth_a_process(a, b) or (not drawn and all(_is_answered(*one[:3]) for one in asked)):
        return _side(*asked[0]), _side(*asked[1])
    with reading_as(jobs=max(reading().jobs // 2, 1)), running(WORKER, [()]) as processes:
        for process in processes:
            _ask(process, asked[0])
        try:
            second: Side | Exception = _side(*asked[1])
        except Exception as error:
            second = error
        first = next(filter(None, map(_answer_of, processes)), None) or _side(*asked[0])
    note_read(Path(a))
    if isinstance(second, Exception):
        raise second
    return first, second


def _side(reference: str, selection: Selection, knowledge: Knowledge, drawn: bool) -> Side:
    from traceanalyzer.cli.reports import named
    from traceanalyzer.report.timeline.step_timeline import step_timeline

    found = named(reference, selection, knowledge)
    return Side(found.report, step_timeline(found.asked.measured.critical) if drawn and found.asked else None)


def _is_answered(reference: str, selection: Selection, knowledge: Knowledge) -> bool:
    """Whether the report was worked out before: another process takes longer to start than this one to read it."""
    from traceanalyzer.ingest import load
    from traceanalyzer.report.kept_report import has_report
    from traceanalyzer.selection import Asked

    return has_model(Path(reference)) and has_report(Asked(load([reference]), selection, knowledge))


def _worth_a_process(*references: str) -> bool:
    """Whether each is one large file, and there is memory for both. Folders and patterns have files that are read side
    by side."""
    paths = list(map(Path, references))
    if reading().jobs < 2 or not all(path.is_file() and text_bytes(path) >= LEAST_BYTES for path in paths):
        return False
    return most_at_once([needed_bytes(path, text_bytes(path), ANALYZED) for path in paths], free_bytes()) == len(paths)


def _ask(process: Process, asked: tuple[Any, ...]) -> None:
    request = b64encode(pickle.dumps((reading(), limits(), asked)))
    with suppress(OSError):  # it has died: there will be no answer
        cast("BinaryIO", process.stdin).write(request + b"\n")
        cast("BinaryIO", process.stdin).flush()


def _answer_of(process: Process) -> Side | None:
    """What the process found; None where it failed, or has died."""
    answer = cast("BinaryIO", process.stdout).read()
    # from our own process, through our own pipe
    return None if process.wait() else cast("Side", pickle.loads(answer))  # noqa: S301


def main() -> None:
    """In the other process: answer a request."""
    way, in_force, asked = pickle.loads(b64decode(next(requests())))  # noqa: S301 from the process that started this one
    read_with(**asdict(way))
    raise_for_all(**asdict(in_force))
    sys.stdout.buffer.write(pickle.dumps(_side(*asked)))
