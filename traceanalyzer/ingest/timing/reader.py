"""From the lines of a log to what is found in it."""

from collections.abc import Sequence

from traceanalyzer.ingest.plain.text import OF_NCCL
from traceanalyzer.ingest.timing.documents import begins_document
from traceanalyzer.ingest.timing.formats import FORMATS, LineFormat
from traceanalyzer.ingest.timing.found import FoundLines
from traceanalyzer.ingest.timing.lines import MAX_LINE
from traceanalyzer.ingest.timing.objects import Numbered, Objects, TableReader, object_in
from traceanalyzer.ingest.timing.texts import LineReader

OBJECT_BEGINS_WITHIN = 80  # characters of a line of JSON that may stand before it


class Log:
    """Reads lines as they come; what they say is in `found`."""

    def __init__(self, pattern: LineFormat | None = None) -> None:
        """`pattern` is a user's own format, which replaces all others."""
        self.found = FoundLines(FORMATS if pattern is None else (pattern,))
        self._pattern = pattern
        self._texts = LineReader(self.found)
        self._objects = Objects(self.found, self._texts)
        self._rows: TableReader | None = None
        self.is_document = False  # JSON over several lines, which are no texts
        self._ended = True  # whether the last line that was read has an end

    def cut_off(self) -> None:
        """The next line has no end."""
        self._ended = False

    def read(self, lines: Sequence[str]) -> None:
        """Read some lines."""
        timed = self.found.timed()
        numbered = self._numbered(lines)
        if self._pattern is not None:
            for number, line in numbered:
                self.found.call(self._pattern, number, line)
        elif self._rows is not None:
            self._rows.read(numbered)
        else:
            self._read_kinds(numbered)
        if not self._ended and self.found.timed() == timed:
            # does it begin like those that could be read?
            hints = [form.hints[0] for form in self.found.by_name.values() if form.hints]
            self.found.truncated |= any(hint in lines[-1] for hint in hints)

    def _numbered(self, lines: Sequence[str]) -> list[Numbered]:
        """The lines that may say something, with their numbers. The first line with text may be the
        header of a table."""
        filled = [line for line in lines if line and not line.isspace()]
        first = self.found.lines + 1
        self.found.lines += len(filled)
        numbered = list(enumerate(filled, first))
        if any(len(line) > MAX_LINE for line in filled):
            numbered = [(number, line) for number, line in numbered if len(line) <= MAX_LINE]
        numbered = _without_nccl(numbered)
        if numbered and numbered[0][0] == 1 and self._pattern is None:
            header = numbered[0][1]
            self.is_document = begins_document(header)
            rows = TableReader(self.found, header)
            if rows.is_table:
                self._rows = rows
                return numbered[1:]
        return numbered

    def _read_kinds(self, lines: Sequence[Numbered]) -> None:
        """Read objects of JSON and texts."""
        if all(line[0] == "{" and line[-1] == "}" for _, line in lines):
            self._texts.read(self._objects.read(lines))
            return
        objects: list[Numbered] = []
        texts: list[Numbered] = []
        for number, line in lines:
            text = object_in(line) if "{" in line[:OBJECT_BEGINS_WITHIN] else ""
            if text:
                objects.append((number, text))
            else:
                texts.append((number, line))
        if objects:
            texts += self._objects.read(objects)
        if texts and not self.is_document:
            self._texts.read(texts)


def _without_nccl(lines: Sequence[Numbered]) -> list[Numbered]:
    """The lines that NCCL did not write."""
    return [one for one in lines if not any(mark in one[1] for mark in OF_NCCL)]
