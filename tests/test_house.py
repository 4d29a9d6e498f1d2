"""The plan of the house where import-linter does not hold it: its contracts (pyproject.toml) are
layers and circles."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.recorded import ROOT

PACKAGE = ROOT / "traceanalyzer"
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {
    "torch",
    "jax",
    "duckdb",
    "pyarrow",
    "plotly",
    "pandas",
    "rich",
    "sqlite_utils",
    "pynvml",
    "ncu_report",
    "isal",
    "sitecustomize",
    "detect_secrets",
    "wandb",
    "mlflow",
    "dask",
    "distributed",
    "fsspec",
}
"""What a function may import when it is called: slow to load, or not installed everywhere."""
LATE = (
    "cli",
    "__init__.py",
    "base/extras.py",
    "base/parallel",
    "diagnosis/classify.py",
    "diagnosis/compile/reported.py",
    "diagnosis/measurements.py",
    "diagnosis/question.py",
    "collect/attach.py",
    "fleet/digests/map.py",
    "fleet/job/document.py",
    "fleet/job/open.py",
    "ingest/__init__.py",
    "ingest/capture.py",
    "report/build.py",
    "report/printed.py",
    "report/page.py",
    "report/kept_report.py",
    "report/table_entries",
    "report/tables.py",
)
"""Where modules of the package itself may wait as well: `--help` and `import traceanalyzer` answer
at once, a program that is recorded loads only what records it, a memory snapshot is read without
the readers of traces, a terminal does without what makes pages, JSON without what draws for one, a
report that is kept without what makes one, a table without advice, a recording without a memory
snapshot without what reads and explains one, a short one without threads and processes."""
MOST_FILES = 20
"""In a folder, `__init__.py` left out."""
TREES = ("analysis", "replay", "diagnosis", "report")
"""Within each a file's name stands once; formats (`ingest/`) and commands (`cli/`) are alike on
purpose."""
ONE_MEANING = {
    "attention.py": "attention: its work, its shape",
    "bounds.py": "what limits a kernel: its class of limits, kernels grouped by it",
    "build.py": "makes a report",
    "collectives.py": "collectives: their names, their work, their table",
    "communication.py": "communication: findings on it, remedies against them",
    "document.py": "a report in sections",
    "layout.py": "memory layouts of tensors",
    "measure.py": "the measurements of a room, from its parts",
    "model.py": "the values that a document consists of",
    "optimizer.py": "optimizers: their work, their replay",
    "devices.py": "devices: their activity, their table",
    "kernels.py": "kernels: their names, their table",
    "ops.py": "operators: their table, groups of them",
    "page.py": "a report as a page",
    "phases.py": "phases of a step: their table, their memory",
    "redact.py": "removes private parts of a report",
    "render.py": "a document in one medium",
    "steps.py": "steps: how they are found, what compiling does to them",
    "syncs.py": "syncs: their table, their replay",
    "timing.py": "step times without a recording of the device",
    "whole.py": "all of a report in sections",
    "whatif.py": "what would be different: step time, memory",
}
"""Names of several files of a tree, each with the one thing that it means in all of them."""


def where(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imported_when_called(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_what_a_file_needs_stands_at_its_top() -> None:
    for path in FILES:
        late = where(path).startswith(LATE)
        wrong = {name for name in imported_when_called(path) if name.partition(".")[0] not in HEAVY}
        here = {"traceanalyzer", *sys.stdlib_module_names} if late else set()
        assert {name for name in wrong if name.partition(".")[0] not in here} == set(), where(path)


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    files = Counter(where(path.parent) for path in FILES if path.name != "__init__.py")
    assert {folder: n for folder, n in files.items() if n > MOST_FILES} == {}


def test_files_of_one_name_mean_one_thing() -> None:
    rooms = defaultdict(list)
    for path in FILES:
        if path.name != "__init__.py" and where(path).startswith(TREES):
            rooms[where(path).partition("/")[0], path.name].append(where(path))
    several = {key[1]: found for key, found in rooms.items() if len(found) > 1}
    assert {name: found for name, found in several.items() if name not in ONE_MEANING} == {}


def test_frozen_dataclasses_are_the_quick_ones() -> None:
    """Every command makes two hundred; those that change, or have slots, are the standard
    library's."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if (
            re.search(r"^from dataclasses import .*\bdataclass\b", text, re.MULTILINE)
            and path.name != "frozen.py"
        ):
            slow = f"{where(path)}: see traceanalyzer/base/frozen.py"
            assert re.search(r"^@dataclass$|slots=True", text, re.MULTILINE), slow


UNCOUNTED = {
    "ingest/timing/pattern.py",
    "ingest/torch_log/explained.py",
    "ingest/unitrace.py",
    "ingest/xplane/host.py",
    "replay/compile/breaks.py",
    "report/markdown/mermaid.py",
}
"""Where numbers stay text, or are cut before they are read."""


def compiled_when_loaded(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    later = {
        inner for node in ast.walk(tree) if isinstance(node, functions) for inner in ast.walk(node)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node not in later)
    yield from (
        f"{where(path)}:{call.lineno}" for call in calls if ast.unparse(call.func) == "re.compile"
    )


def test_patterns_are_compiled_when_they_are_used() -> None:
    """`re.compile` at the top of a file costs every command that loads it; `regex` of `base` does
    not. What runs on the GPU host (`collect`) is one file after the other."""
    files = (path for path in FILES if not where(path).startswith("collect"))
    assert [found for path in files for found in compiled_when_loaded(path)] == []


def test_numbers_taken_out_of_text_have_few_digits() -> None:
    """Python refuses to read 5,000 digits, and numpy more than 64 bits: `(\\d{1,18})`, not
    `(\\d+)`."""
    numbers = re.compile(r"\((?:\?P<\w+>)?\\d\+\)")
    assert {
        where(path) for path in FILES if numbers.search(path.read_text(encoding="utf-8"))
    } == set(UNCOUNTED)


def test_the_map_draws_the_rooms_in_the_order_of_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ][0]
    layers = [set(layer.split(" | ")) for layer in reversed(contract["layers"])]
    drawn = next(
        part
        for part in (ROOT / "CONTRIBUTING.md").read_text().split("\n\n")
        if part.startswith("`base` →")
    )
    assert [set(re.findall(r"`(\w+)`", step)) for step in drawn.split("→")] == layers[
        1:
    ]  # the version is no room
