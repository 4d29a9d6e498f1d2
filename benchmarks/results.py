"""What was measured, as it comes and as tables in Markdown."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.measured import MB, Cost

COSTS: dict[str, Callable[[Cost], float]] = {
    "wall-clock": lambda cost: cost.wall_s,
    "CPU": lambda cost: cost.cpu_s,
    "memory": lambda cost: cost.together_mb,
}


@dataclass(frozen=True)
class Row:
    """One measurement. `text_mb`: of the recording, decompressed; None where `what` is not about
    one."""

    kind: str
    """What the recording is: rows of one kind differ in size alone."""
    what: str
    name: str
    text_mb: float
    cost: Cost
    remark: str = ""


class Results:
    """Rows in the order in which they were measured; each is shown at once."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def add(
        self, kind: str, what: str, path: Path, text_mb: float, cost: Cost, remark: str = ""
    ) -> Cost:
        """Keep a measurement, and show it."""
        said = remark or (cost.outcome if cost.status else "")
        row = Row(kind, what, _named(path), text_mb, cost, said)
        self.rows.append(row)
        print(
            f"{what:34} " + " ".join(f"{cell:>12}" for cell in (row.name, *_cells(row))), flush=True
        )
        return cost

    def note(self, text: str) -> None:
        """Keep a sentence, and show it."""
        self.notes.append(text)
        print(text, flush=True)

    def markdown(self) -> str:
        """A table for each kind of recording, how the costs grow, and the notes."""
        parts = []
        for kind, rows in groupby(self.rows, key=lambda row: row.kind):
            cells = [(row.name, row.what, *_cells(row)) for row in rows]
            parts += [f"### {kind}", _table(("file", "what", *_HEADS), cells)]
        grown = [(f"{kind}: {what}", *figures) for kind, what, *figures in _exponents(self.rows)]
        if grown:
            heads = ("what", "sizes", *(f"{name}, exponent" for name in COSTS))
            parts += ["### How it grows (1: as the file does)", _table(heads, grown)]
        parts += [f"- {note}" for note in self.notes]
        return "\n\n".join(parts) + "\n"


def _named(path: Path) -> str:
    files = list(path.iterdir()) if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    parts = f"{len(files)} files, " if path.is_dir() else ""
    return f"{parts}{size / MB:,.{0 if size > MB else 2}f} MB{' gzipped' if path.suffix == '.gz' else ''}"


_HEADS = ("wall-clock", "CPU", "memory, largest process", "memory, all", "MB/s", "remark")


def _cells(row: Row) -> tuple[str, ...]:
    cost = row.cost
    speed = f"{row.text_mb / cost.wall_s:,.0f}" if row.text_mb else ""
    memory = (f"{cost.peak_mb:,.0f} MB", f"{cost.together_mb:,.0f} MB")
    return f"{cost.wall_s:.2f} s", f"{cost.cpu_s:.2f} s", *memory, speed, row.remark


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines
    )


def _exponents(rows: list[Row]) -> list[tuple[str, ...]]:
    """Kind, what, from which size to which, and the exponent of each cost, from the smallest to the
    largest that went well."""
    found = []
    for kind, what in dict.fromkeys((row.kind, row.what) for row in rows):
        of = [row for row in rows if (row.kind, row.what) == (kind, what) and not row.cost.status]
        small, large = (pick(of, key=lambda row: row.text_mb, default=None) for pick in (min, max))
        if small is None or large is None or not 0 < small.text_mb < large.text_mb:
            continue
        grown = math.log(large.text_mb / small.text_mb)
        figures = [
            f"{math.log(cost(large.cost) / cost(small.cost)) / grown:.2f}"
            for cost in COSTS.values()
        ]
        found.append((kind, what, f"{small.text_mb:,.0f} to {large.text_mb:,.0f} MB", *figures))
    return found
