"""Tables that this program wrote itself. Their rows are kernels, gaps or copies; a reader of logs
would take a column in ms for the times of steps."""

import csv
import functools
import tomllib
from pathlib import Path

from traceanalyzer.base import regex

LEAST_COLUMNS = 5
"""Columns that have to be a table's, all of them: logs of trainers share one or two names with it."""
LONGEST_HEADER = 10_000  # characters; a cell of more than 131,072 is an error of the csv module
OF_STEPS = "steps"
"""The table whose rows are steps: as the profiler made them, not as the program runs."""
_KEY = regex(r'"(\w++)"\s*+:')
_LIST = regex(r'"(\w++)"\s*+:\s*+\[\s*+\{')
_UNIT = regex(r"\s*+\([^()]*+\)$")


def table_written(head: bytes) -> str | None:
    """The table that a file's first bytes are of, by the name that `show` has for it: CSV, JSON or
    Markdown as `show` writes them. None: it is none of them."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if text.startswith("{"):
        return _of_json(text)
    lines = text.splitlines()
    if text.startswith(("|", "Rank ", "###")):
        headers = (line for line in lines if line.startswith("|"))
        return _of_markdown(next(headers, ""))
    return _of_columns(next(csv.reader(line[:LONGEST_HEADER] for line in lines[:1]), []))


def refusal_of_table(name: str) -> str:
    """What is wrong with a file that holds the table, and what to do."""
    rows = "steps under the profiler" if name == OF_STEPS else "no steps"
    return (
        f"the table `traceanalyzer show {name}` wrote, whose rows are {rows}; "
        "give the recording that it was made from"
    )


@functools.cache
def columns_of_tables() -> dict[str, list[str]]:
    """The columns of each table, in order."""
    known = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: columns.split() for name, columns in tomllib.loads(known).items()}


def _of_columns(columns: list[str]) -> str | None:
    """By the first columns, in their order; one that later versions add comes behind them."""
    for name, known in columns_of_tables().items():
        least = min(LEAST_COLUMNS, len(known))
        if columns[:least] == known[:least]:
            return name
    return None


def _of_json(text: str) -> str | None:
    """By the name of the list of rows and the keys of the first of them."""
    found = _LIST.search(text)
    if found is None or found[1] not in columns_of_tables():
        return None
    keys = _KEY.findall(text, found.end())
    return found[1] if _of_columns(keys) == found[1] else None


def _of_markdown(header: str) -> str | None:
    """By its cells, which are names of columns with their units set apart."""
    written = header.strip("|").split("|")
    cells = [_UNIT.sub("", cell.strip()).lower() for cell in written]
    if len(cells) < LEAST_COLUMNS:
        return None
    stems = [cell.replace(" ", "_") for cell in cells]
    for name, known in columns_of_tables().items():
        if all(_is_column(stem, known) for stem in stems):
            return name
    return None


def _is_column(stem: str, columns: list[str]) -> bool:
    """Whether it is the name of a column, with or without its unit."""
    return any(column == stem or column.startswith(f"{stem}_") for column in columns)
