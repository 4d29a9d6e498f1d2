"""The plan of the house where import-linter does not hold it: its contracts (pyproject.toml) are layers and circles."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded import ROOT

PACKAGE = ROOT / "traceanalyzer"
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "plotly", "pandas", "rich", "sqlite_utils", "pynvml", "isal", "sitecustomize"}
"""What a function may import when it is called: slow to load, or not installed everywhere."""
LATE = ("cli", "__init__.py", "collect/attach.py")
"""Where modules of the package itself may wait as well: `--help` and `import traceanalyzer` answer at once, and a
program that is recorded loads only what records it."""
MOST_FILES = 22
"""In a folder, `__init__.py` left out; those with more are lists of one thing: commands, parts of the collector."""
LISTS = {"cli", "collect"}
ONE_MEANING = {
    "attach.py": "puts something on something else: a comment on an issue, the collector on a program",
    "attention.py": "attention: its work, what to do about it",
    "collectives.py": "collectives: their names, their work, their table",
    "compare.py": "two or more held against one another: ranks, runs",
    "conditions.py": "under which conditions was recorded",
    "copies.py": "copies: the table and its command",
    "database.py": "an SQLite file",
    "device.py": "what the device did",
    "devices.py": "devices: their activity and their table",
    "events.py": "the rows of a format",
    "explain.py": "explain ID",
    "gaps.py": "gaps and their command",
    "health.py": "what was damaged in a recording",
    "host.py": "what the host did",
    "kernels.py": "kernels and their command",
    "layout.py": "memory layouts of tensors",
    "metrics.py": "metrics, of a GPU or of a report",
    "model.py": "the values that a document consists of",
    "ncu.py": "Nsight Compute",
    "ops.py": "operators and their command",
    "outline.py": "a document in sections",
    "overlay.py": "the overlay for Perfetto and its command",
    "page.py": "an HTML page",
    "processes.py": "operating-system processes",
    "ranks.py": "ranks",
    "read.py": "from a path to a value",
    "reader.py": "a format's `recognise` and `read`",
    "rows.py": "rows of a table",
    "run.py": "a run",
    "schema.py": "the JSON Schema and its command",
    "steps.py": "steps",
    "syncs.py": "syncs and their command",
    "tables.py": "tables",
    "timing.py": "step times without a recording of the device",
    "trace.py": "the model of a recording, and how a format becomes one",
    "whatif.py": "what-if and its command",
    "work.py": "how much was to do",
}
"""Names of several files, each with the one thing that it means in all of them."""


def where(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imported_when_called(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=where)
def test_what_a_file_needs_stands_at_its_top(path: Path) -> None:
    late = where(path).startswith(LATE)
    wrong = {name for name in imported_when_called(path) if name.partition(".")[0] not in HEAVY}
    allowed = {name for name in wrong if late and name.partition(".")[0] in {"traceanalyzer", *sys.stdlib_module_names}}
    assert wrong == allowed


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    files = defaultdict(list)
    for path in FILES:
        if path.name != "__init__.py" and where(path.parent) not in LISTS:
            files[where(path.parent)].append(path.name)
    assert {folder: len(names) for folder, names in files.items() if len(names) > MOST_FILES} == {}


def test_files_of_one_name_mean_one_thing() -> None:
    rooms = defaultdict(list)
    for path in FILES:
        rooms[path.name].append(where(path))
    several = {name: found for name, found in rooms.items() if len(found) > 1 and name != "__init__.py"}
    assert {name: found for name, found in several.items() if name not in ONE_MEANING} == {}


def test_a_name_of_one_file_is_not_on_the_list() -> None:
    names = [path.name for path in FILES]
    assert [name for name in ONE_MEANING if names.count(name) < 2] == []
