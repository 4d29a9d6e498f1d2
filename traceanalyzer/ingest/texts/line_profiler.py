"""What line_profiler prints: the time of each line of a function."""

import re
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import counted, dataclass, digits, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import PastedText

_UNIT = regex(r"^Timer unit: ([\d.]{1,12}(?:e-?\d{1,3})?) s", re.MULTILINE)
_FUNCTION = regex(
    r"^Total time: (?P<total>[\d.]{1,20}(?:e-?\d{1,3})?) s\s*\nFile: (?P<file>[^\n]{1,300})\nFunction: "
    r"(?P<name>\S{1,200}) at line (?P<line>\d{1,9})",
    re.MULTILINE,
)
_ROW = regex(
    r"^ *(?P<line>\d{1,9}) +(?P<hits>\d{1,15}) +(?P<time>[\d.]{1,20}(?:e\+?\d{1,3})?) +[\d.]{1,20}(?:e\+?\d{1,3})? +"
    r"(?P<share>[\d.]{1,6}) +(?P<code>\S[^\n]{0,200})$",
    re.MULTILINE,
)
SHOWN = 3
LONGEST_CODE = 50  # characters of a line that are shown
FUNCTIONS = 3
RECORD = (
    "To see which of these lines wait for the GPU: `traceanalyzer collect torch --stacks -- python train.py`; "
    "`show syncs` lists them."
)


@dataclass(frozen=True)
class _Line:
    """A line of a function and its time, s."""

    number: int
    hits: int
    seconds: float
    share: float
    code: str


def recognise(text: str) -> bool:
    """Whether a text has such a table."""
    return _UNIT.search(text) is not None and _FUNCTION.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """The lines with the most time, of the functions with the most."""
    found = sorted(_functions(text), key=lambda pair: -_number(pair[0]["total"]))
    sentences = [_sentence(function, lines) for function, lines in found[:FUNCTIONS]]
    if not sentences:
        return None
    return PastedText(
        what=f"A table of line_profiler, {counted(len(found), 'function')}",
        tells=sentences[0],
        record=RECORD,
        notes=(
            *sentences[1:],
            "A line that waits for the GPU (item, cpu, synchronize, printing a tensor) has its time; a line that "
            "launches kernels has only the time to launch them.",
        ),
    )


def _functions(text: str) -> Iterator[tuple[re.Match[str], list[_Line]]]:
    starts = list(_FUNCTION.finditer(text))
    bounds = [*(start.start() for start in starts), len(text)]
    unit = _UNIT.search(text)
    scale = _number(unit[1]) if unit is not None else 0.0
    for start, end in zip(starts, bounds[1:], strict=True):
        lines = [_line(row, scale) for row in _ROW.finditer(text, start.end(), end)]
        yield start, lines


def _line(row: re.Match[str], scale: float) -> _Line:
    return _Line(
        number=int(row["line"]),
        hits=int(row["hits"]),
        seconds=_number(row["time"]) * scale,
        share=_number(row["share"]),
        code=row["code"],
    )


def _sentence(function: re.Match[str], lines: list[_Line]) -> str:
    ordered = sorted(lines, key=lambda line: -line.seconds)[:SHOWN]
    listed = [
        f"line {line.number} `{line.code[:LONGEST_CODE].strip()}` {digits(line.seconds)} s ({line.share:g}%)"
        for line in ordered
    ]
    total = digits(_number(function["total"]))
    where = f"{function['file'].strip()}:{function['line']}"
    rest = f": {', '.join(listed)}" if listed else ""
    return f"{function['name']} ({where}) takes {total} s{rest}."


def _number(text: str) -> float:
    return number_in(text) or 0.0
