"""What NVIDIA's nvbandwidth prints: a matrix of bandwidths a test."""

import re
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import dataclass, digits, regex
from traceanalyzer.trace import PastedText

_TEST = regex(r"^Running (\w{3,80})\.", re.MULTILINE)
_UNIT = regex(r"\(GB/s\)\s*$", re.MULTILINE)
_ROW = regex(r"^[^\S\n]*+(\d{1,4})((?:\s++(?:\d{1,7}\.\d{1,6}|N/A)){1,64})[^\S\n]*+$", re.MULTILINE)
_SUM = "SUM "
SHOWN = 6
UNEVEN = 0.8
"""Links of one kind that are slower than this share of the fastest are not all alike."""
RECORD = (
    "To see what a program makes of it: `traceanalyzer collect torch -- python train.py`; `show copies` and "
    "`show comm` list bandwidths."
)


@dataclass(frozen=True)
class _Test:
    """The bandwidths of a test, GB/s, by row and column."""

    name: str
    cells: dict[tuple[int, int], float]


def recognise(text: str) -> bool:
    """Whether a text has such a matrix."""
    return any(_tests(text))


def summarise(text: str, path: Path) -> PastedText | None:
    """The bandwidth of each test, from the slowest pair to the fastest."""
    tests = list(_tests(text))
    if not tests:
        return None
    return PastedText(
        what="Bandwidths that nvbandwidth measured",
        tells=f"{'; '.join(_span(test) for test in tests[:SHOWN])}.",
        record=RECORD,
        notes=tuple(filter(None, map(_uneven, tests))),
    )


def _tests(text: str) -> Iterator[_Test]:
    starts = list(_TEST.finditer(text))
    bounds = [*(start.start() for start in starts), len(text)]
    for start, end in zip(starts, bounds[1:], strict=True):
        body = text[start.end() : end].partition(_SUM)[0]
        unit = _UNIT.search(body)
        cells = dict(_cells(body[unit.end() :])) if unit is not None else {}
        if cells:
            yield _Test(start[1], cells)


def _cells(body: str) -> Iterator[tuple[tuple[int, int], float]]:
    for row in _ROW.finditer(body):
        for column, value in enumerate(row[2].split()):
            if value != "N/A":
                yield (int(row[1]), column), float(value)


def _span(test: _Test) -> str:
    low = digits(min(test.cells.values()))
    high = digits(max(test.cells.values()))
    return f"{test.name} {high} GB/s" if low == high else f"{test.name} {low} to {high} GB/s"


def _uneven(test: _Test) -> str:
    """The slowest pair, where it is far below the fastest."""
    place = min(test.cells, key=lambda key: test.cells[key])
    least = test.cells[place]
    most = max(test.cells.values())
    if least >= UNEVEN * most:
        return ""
    return f"{test.name}: row {place[0]}, column {place[1]} has {digits(least)} GB/s, the fastest pair {digits(most)}."
