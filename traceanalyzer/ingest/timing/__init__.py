"""Logs of step times, written by `StepTimer` or by training programs, in a format of
`formats.toml`: the first of the list where a log holds several. Lines of none are skipped and
counted."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from traceanalyzer.base import Aside, UnreadableInputError
from traceanalyzer.ingest.formats import STEPS_WITHIN
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.ingest.timing import formats
from traceanalyzer.ingest.timing.entry import Entry
from traceanalyzer.ingest.timing.formats import FORMATS, PRINTED_MEMORY, LineFormat
from traceanalyzer.ingest.timing.steps import step_timings
from traceanalyzer.trace import Health, PrintedMemory, Process, Trace

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Terminal control sequences: colours, cursor movements, titles."""
_BREAK = re.compile(
    r"\r\n|[\n\r]"
)  # a progress bar goes back to the start of its line instead of to the next one
MAX_LINE = 4096
"""No step line is longer (Megatron's have 500 characters): longer ones are not searched, nor held
in memory whole."""


_DIGIT = re.compile(r"\d")  # a line without one says no time


def lines_of(pieces: Iterable[bytes], cut: Callable[[], None] | None = None) -> Iterator[str]:
    """The lines, without terminal control sequences. `cut` is called before a last line that has no
    end."""
    decoder = None
    rest = ""
    for piece in pieces:
        # Windows shells redirect to UTF-16
        utf16 = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        decoder = decoder or codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")(
            "replace"
        )
        rest += decoder.decode(piece)
        *lines, rest = _BREAK.split(rest)
        yield from map(_plain, lines)
        rest = rest[-MAX_LINE:]
    if rest.strip():
        if cut is not None:
            cut()
        yield _plain(rest)


def _plain(line: str) -> str:
    return _ESCAPE.sub("", line) if "\x1b" in line else line


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file holds enough lines of a known format. `head`: its first bytes,
    decompressed."""
    if b"traceEvents" in head or b"SQLite format 3" in head:  # other readers' files, told at once
        return False
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _Found().read(lines_of([head])).enough
    with open_stream(path, probing=True) as stream:
        lines = islice(
            lines_of(islice(stream, 64)), STEPS_WITHIN
        )  # so many pieces: it may have no ends of lines
        return _Found().read(lines, first=True).enough


def read(
    path: Path, progress: Callable[[float], None] | None = None, pattern: str | None = None
) -> list[Trace]:
    """A `Trace` for each rank that wrote to the log, with nothing in it but `step_timings`;
    `pattern` is a regular expression with named groups that replaces the known formats. Raises
    UnreadableInputError where no line says anything about steps, TraceAnalyzerError for a bad
    pattern."""
    found, form, damage = _read(path, pattern, progress)
    by_rank = _by_rank(found.entries[form])
    memory = found.entries.get(PRINTED_MEMORY, [])
    lost = found.damaged.get(form, 0)
    skipped = found.lines - len(found.entries[form]) - lost
    traces = []
    for rank in sorted(by_rank, key=lambda r: -1 if r is None else r):
        steps = step_timings(by_rank[rank])
        means = formats.BINARY_MEANS if any(one.decimal for one in memory) else ""
        early = f"The log stops early: {damage}." * bool(damage)
        notes = (
            Aside(f"Read as a timing log ({form.name})."),
            form.averaged,
            *steps.notes,
            means,
            early,
        )
        counts = {
            "events": len(by_rank[rank]),
            "skipped": skipped + steps.repeated,
            "lost": lost + steps.lost,
        }
        health = Health(**counts, truncated=found.truncated, notes=tuple(filter(None, notes)))
        printed = tuple(
            PrintedMemory(
                e.memory_after or "",
                int(e.allocated),
                None if e.reserved is None else int(e.reserved),
            )
            for e in memory
            if e.allocated is not None and e.rank in (None, rank)
        )
        trace = Trace(
            str(path), "timing_log", [], Process(rank=rank), health=health, printed_memory=printed
        )
        traces.append(replace(trace, step_timings=steps.table))
        skipped = lost = 0
    return traces


@dataclass(frozen=True)
class PatternLog:
    """A log whose lines a user's pattern describes: any text that is no profiler's recording."""

    pattern: str
    name: str = "pattern"

    def recognise(self, head: bytes, path: Path) -> bool:
        """Whether the file is text."""
        return b"\0" not in head

    def read(self, path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
        """As `read` of the module."""
        return read(path, progress, self.pattern)


def logged_entries(path: Path) -> dict[int | None, list[Entry]]:
    """What each rank wrote, line by line. Raises UnreadableInputError."""
    found, chosen, _ = _read(path, None, None)
    return _by_rank(found.entries[chosen])


def _read(
    path: Path, pattern: str | None, progress: Callable[[float], None] | None
) -> "tuple[_Found, LineFormat, str]":
    """All lines, the format to read them as, and what is damaged."""
    forms = FORMATS if pattern is None else (formats.pattern_format(pattern),)
    found = _Found()
    with open_stream(path, progress, log=True) as stream:
        found.read(lines_of(stream, found.cut_off), forms)
        found.truncated |= bool(stream.damage)
    if (chosen := found.chosen()) is not None:
        return found, chosen, stream.damage
    if found.unitless:
        what = (
            f"`{found.unitless}` does not say its unit; rename it to {found.unitless}_ms or "
            f"{found.unitless}_s"
        )
    elif pattern is not None:
        what = f"none of its {found.lines} lines matches --pattern; mend the pattern"
    else:
        known = f"a known format ({', '.join(dict.fromkeys(form.name for form in FORMATS))})"
        what = (
            f"none of its {found.lines} lines is a step's in {known}; say how they look with "
            "--pattern"
        )
    raise UnreadableInputError(f"{path}: {what}")


@dataclass
class _Found:
    """The entries of a log by format."""

    entries: dict[LineFormat, list[Entry]] = field(default_factory=dict)
    damaged: dict[LineFormat, int] = field(default_factory=dict)
    lines: int = 0
    truncated: bool = False
    unitless: str = ""
    ended: bool = True  # whether the last line that was read has an end

    @property
    def enough(self) -> bool:
        """Whether it is a log."""
        return self.chosen() is not None or bool(self.unitless)

    def cut_off(self) -> None:
        """The next line has no end."""
        self.ended = False

    def chosen(self) -> LineFormat | None:
        """The preferred format of which there are enough lines: the first of the list."""
        sure = [form for form, entries in self.entries.items() if len(entries) >= form.minimum]
        order = {form: i for i, form in enumerate(FORMATS)}
        return min(sure, key=lambda form: order.get(form, -1), default=None)

    def add(self, form: LineFormat, line: str) -> bool:
        """Read the line; whether it holds an entry of the format."""
        try:
            entry = formats.read_line(form, line)
        except formats.UnitlessError as error:
            self.unitless = str(error)
            return False
        except ValueError:
            self.damaged[form] = self.damaged.get(form, 0) + 1
            return False
        if entry is not None:
            self.entries.setdefault(form, []).append(entry)
        return entry is not None

    def read(
        self, lines: Iterable[str], forms: Sequence[LineFormat] = FORMATS, *, first: bool = False
    ) -> "_Found":
        """Try every format on every line, up to the `first` that has enough of them if so asked; a
        table's header, in the first line with text, adds its own format."""
        for line in filter(str.strip, lines):
            self.lines += 1
            fits = len(line) <= MAX_LINE
            if (
                self.lines == 1
                and forms is FORMATS
                and fits
                and (table := formats.csv_format(line))
            ):
                forms = (table,)
            elif fits and _DIGIT.search(line) and sum(self.add(form, line) for form in forms):
                # Up to the first of which there are enough lines; and what it may say of memory
                # beside its steps.
                enough = [
                    i
                    for i, form in enumerate(forms)
                    if len(self.entries.get(form, ())) >= form.minimum
                ]
                forms = (
                    tuple(dict.fromkeys((*forms[: enough[0] + 1], PRINTED_MEMORY)))
                    if enough
                    else forms
                )
                if first and self.chosen():
                    break
            elif not self.ended:  # does it begin like those that could be read?
                self.truncated = any(
                    form.hint and form.hint in line for form in forms if form in self.entries
                )
        return self


def _by_rank(entries: list[Entry]) -> dict[int | None, list[Entry]]:
    """The entries of each rank. Where only one rank is ever named, lines that name none are its own
    too."""
    named = {entry.rank for entry in entries} - {None}
    only = named.pop() if len(named) == 1 else None
    result: dict[int | None, list[Entry]] = {}
    for entry in entries:
        result.setdefault(only if entry.rank is None else entry.rank, []).append(entry)
    return result


__all__ = ["PatternLog", "read", "recognise"]
