"""Logs of step times, written by `StepTimer` or by training programs, in a format of
`formats.toml`: the first of the list where a log holds several. Lines of none are skipped and
counted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from traceanalyzer.base import MinorNote, UnreadableInputError, dataclass, plural
from traceanalyzer.ingest.formats import STEPS_WITHIN
from traceanalyzer.ingest.plain.commas import with_decimal_commas, with_points
from traceanalyzer.ingest.stream import head_of, open_stream
from traceanalyzer.ingest.timing.documents import read_document
from traceanalyzer.ingest.timing.event_files import is_event_file, read_event_file
from traceanalyzer.ingest.timing.formats import BINARY_MEANS, LineFormat
from traceanalyzer.ingest.timing.found import FoundLines
from traceanalyzer.ingest.timing.lines import is_text, line_groups
from traceanalyzer.ingest.timing.pattern import looks_like_log, pattern_format, proposal
from traceanalyzer.ingest.timing.printed import AFTER
from traceanalyzer.ingest.timing.reader import Log
from traceanalyzer.ingest.timing.records import Records
from traceanalyzer.ingest.timing.steps import UnitlessError, step_timings, timed_lines
from traceanalyzer.trace import Health, PrintedMemory, Process, Trace

LINES_AT_ONCE = 2_000
"""Lines of a piece that are looked at before it is asked whether there are enough."""
MOST_ITERATIONS = 10**12  # a log that says more is damaged
LARGEST = 2**62  # bytes or steps; what is written as JSON has 64 bits


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file holds enough lines of a known format. `head`: its first bytes,
    decompressed."""
    if b"traceEvents" in head or b"SQLite format 3" in head:  # other readers' files, told at once
        return False
    if is_event_file(head):
        found = FoundLines()
        read_event_file(path, found)
        return found.chosen() is not None
    if not is_text(head):
        return False
    log = Log()
    with open_stream(path, probing=True) as stream:
        # so many pieces: it may have no ends of lines
        if _is_log(log, line_groups(islice(stream, 64))):
            return True
    if log.is_document:
        read_document(path, log.found, probing=True)
    return log.found.chosen() is not None


def _is_log(log: Log, groups: Iterator[list[str]]) -> bool:
    left = STEPS_WITHIN
    for group in groups:
        for first in range(0, min(len(group), left), LINES_AT_ONCE):
            log.read(group[first : min(first + LINES_AT_ONCE, left)])
            if log.found.chosen() is not None:
                return True
        left -= len(group)
        if left <= 0:
            break
    return False


def read(
    path: Path, progress: Callable[[float], None] | None = None, pattern: str | None = None
) -> list[Trace]:
    """A `Trace` for each rank that wrote to the log, with nothing in it but `step_timings`;
    `pattern` is a regular expression with named groups that replaces the known formats. Raises
    UnreadableInputError where no line says anything about steps, TraceAnalyzerError for a bad
    pattern."""
    found, form, damage = _read(path, pattern, progress)
    records = found.records_of(form)
    memory = found.memory()
    lost = found.damaged.get(form.name, 0)
    skipped = found.lines - len(records) - lost
    traces = []
    for rank, own_records in _by_rank(records).items():
        try:
            steps = step_timings(own_records, form, found.factors)
        except UnitlessError as error:
            raise _unitless(path, found.keys.get(str(error), "time")) from error
        left_out = found.overflows + _skipped_iterations(own_records)
        found.overflows = 0  # of the whole log: said of its first rank
        notes = (
            MinorNote(f"Read as a timing log ({form.name})."),
            form.averaged,
            *steps.notes,
            _overflow_note(left_out),
            BINARY_MEANS if (memory.column("decimal") > 0).any() else "",
            f"The log stops early: {damage}." if damage else "",
        )
        health = Health(
            events=len(own_records),
            skipped=max(skipped, 0) + steps.repeated,
            lost=lost + steps.lost,
            truncated=found.truncated,
            notes=tuple(filter(None, notes)),
        )
        trace = Trace(
            str(path),
            "timing_log",
            [],
            Process(rank=rank),
            health=health,
            printed_memory=_printed_memory(memory, rank),
            logged_phases=steps.phases,
            logged_epochs=steps.are_epochs,
            logged_means=steps.are_means,
            logged_by=form.written_by,
        )
        traces.append(replace(trace, step_timings=steps.table))
        skipped = lost = 0
    if not any(len(trace.step_timings) or trace.printed_memory for trace in traces):
        raise UnreadableInputError(f"{path}: none of its {found.lines} lines times a step")
    return traces


def _overflow_note(updates: int) -> str:
    """What the log says of updates that a loss scaler left out; empty where it says none."""
    if not updates:
        return ""
    return (
        f"Gradients overflowed: {updates} {plural('update', updates)} of the optimizer left out. A few "
        "are normal while the loss scale settles."
    )


def _skipped_iterations(records: Records) -> int:
    """How many the lines say were left out; a number that no run counts to is damage."""
    counts = records.column("skipped")
    return int(counts[(counts > 0) & (counts < MOST_ITERATIONS)].sum())


@dataclass(frozen=True)
class PatternLog:
    """A log whose lines a user's pattern describes: any text that is no profiler's recording."""

    pattern: str
    name: str = "timing"

    def recognise(self, head: bytes, path: Path) -> bool:
        """Whether the file is text."""
        return b"\0" not in head

    def read(self, path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
        """As `read` of the module."""
        return read(path, progress, self.pattern)


def logged_records(path: Path) -> dict[int | None, Records]:
    """What each rank wrote, line by line: `step`, `iter_s` and what else is known of it. Raises
    UnreadableInputError."""
    found, form, _ = _read(path, None, None)
    by_rank = _by_rank(found.records_of(form))
    try:
        return {
            rank: timed_lines(records, form, found.factors) for rank, records in by_rank.items()
        }
    except UnitlessError as error:
        raise _unitless(path, found.keys.get(str(error), "time")) from error


def _read(
    path: Path, pattern: str | None, progress: Callable[[float], None] | None
) -> tuple[FoundLines, LineFormat, str]:
    """All lines, the format to read them as, and what is damaged."""
    if is_event_file(head_of(path)):
        found = FoundLines()
        read_event_file(path, found, progress)
        damage = ""
    else:
        found, damage = _read_lines(path, pattern, progress)
    chosen = found.chosen()
    if chosen is not None:
        return found, chosen, damage
    if pattern is not None:
        what = f"none of its {found.lines} lines matches --pattern; mend the pattern"
    else:
        like = proposal(found.sample)
        how = f"--pattern '{like}'" if like else "--pattern"
        what = f"none of its {found.lines} lines is a step's in a known format; say how they look with {how}"
    raise UnreadableInputError(f"{path}: {what}")


def _read_lines(
    path: Path, pattern: str | None, progress: Callable[[float], None] | None
) -> tuple[FoundLines, str]:
    """What the lines of a text say, and what is damaged."""
    log = Log(None if pattern is None else pattern_format(pattern))
    with open_stream(path, progress, log=True) as stream:
        for group in line_groups(stream, log.cut_off):
            log.read(group)
        log.found.truncated |= bool(stream.damage)
    if log.is_document:
        read_document(path, log.found)
    return log.found, stream.damage


def how_to_read(head: bytes) -> str:
    """How a text that begins like this is read if it is a log of steps, in a clause; empty where it
    is none."""
    if not is_text(head):
        return ""
    text = head.decode("utf-8", "replace")
    lines = (with_points(text) if with_decimal_commas(text) else text).splitlines()
    pattern = proposal(lines)
    if pattern:
        return f"if it is a log of step times, say how its lines look: --pattern '{pattern}'"
    if looks_like_log(lines):
        return (
            "its lines name no time of a step; if one has it, say where: --pattern "
            "'step (?P<step>[0-9]+).*?(?P<iter_ms>[0-9.]+) ms'"
        )
    return ""


def _unitless(path: Path, name: str) -> UnreadableInputError:
    plain = name.strip().replace(" ", "_")
    return UnreadableInputError(
        f"{path}: `{plain}` does not say its unit; rename it to {plain}_ms or {plain}_s"
    )


def _by_rank(records: Records) -> dict[int | None, Records]:
    """The records of each rank. Where only one rank is ever named, lines that name none are its own
    too."""
    rank = records.column("rank")
    named = np.unique(rank[np.isfinite(rank)]).astype(np.int64).tolist()
    if not named:
        return {None: records}
    if len(named) == 1:
        return {named[0]: records}
    unnamed = ~np.isfinite(rank)
    found: dict[int | None, Records] = {None: records.take(unnamed)} if unnamed.any() else {}
    return found | {one: records.take(rank == one) for one in named}


def _printed_memory(memory: Records, rank: int | None) -> tuple[PrintedMemory, ...]:
    columns = (memory.column(name) for name in ("memory_after", "allocated", "rank"))
    optional = (
        [_whole(v) for v in memory.column(n).tolist()] for n in ("reserved", "peak", "step")
    )
    rows = zip(*(column.tolist() for column in columns), *optional, strict=True)
    return tuple(
        PrintedMemory(AFTER[int(after)], int(allocated), reserved, peak, step)
        for after, allocated, of, reserved, peak, step in rows
        if allocated < LARGEST and (of != of or of == rank)
    )


def _whole(value: float) -> int | None:
    return int(value) if abs(value) < LARGEST else None


__all__ = ["PatternLog", "how_to_read", "logged_records", "read", "recognise"]
