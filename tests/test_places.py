"""The places that CONTRIBUTING names for a format, a table, a rule and a remedy: what was forgotten
fails here by its name."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import traceanalyzer.analysis.tables
import traceanalyzer.diagnosis.remedies
import traceanalyzer.diagnosis.rules
import traceanalyzer.ingest
from tests.fuzz.kinds import KINDS
from tests.recorded import ROOT
from traceanalyzer.diagnosis.pages import finding_page
from traceanalyzer.diagnosis.remedies import NAMES, REMEDIES
from traceanalyzer.diagnosis.remedies.remedy import Remedy
from traceanalyzer.diagnosis.rules import RULES
from traceanalyzer.ingest.cache.models import can_be_kept
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.formats import FORMATS, SOURCES, Format
from traceanalyzer.replay.promise_errors import errors_of
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.model import Report
from traceanalyzer.report.schema import rows_schema
from traceanalyzer.report.table_entries import TABLES
from traceanalyzer.report.table_entries.kinds import TableEntry
from traceanalyzer.trace import Trace


def modules(room: ModuleType) -> list[ModuleType]:
    return [
        import_module(f"{room.__name__}.{one.name}") for one in pkgutil.iter_modules(room.__path__)
    ]


def here(room: ModuleType, kind: type[Any]) -> dict[str, Any]:
    """What the files of a room have of a kind, by name."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in modules(room)
        for name, value in vars(module).items()
        if isinstance(value, kind) and (kind is not type or value.__module__ == module.__name__)
    }


@cache
def texts_in(*folders: str) -> str:
    """All tests of these folders as one text."""
    paths = [
        path for folder in folders for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@cache
def in_report() -> set[type[Any]]:
    """The dataclasses that a report is made of."""

    def inside(kind: Any) -> Iterator[type[Any]]:
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield kind
            kind = tuple(get_type_hints(kind).values())
        for part in kind if isinstance(kind, tuple) else get_args(kind):
            yield from inside(part)

    return set(inside(Report))


ROWS = {
    name: value
    for name, value in here(traceanalyzer.analysis.tables, type).items()
    if dataclasses.is_dataclass(value)
    and any("definition" in f.metadata for f in dataclasses.fields(value))
}


@pytest.mark.parametrize("name", ROWS)
def test_figures_with_definitions_are_rows_of_a_table_or_in_the_report(name: str) -> None:
    rows = [table.row for table in TABLES]
    used = any(issubclass(row, ROWS[name]) for row in rows) or ROWS[name] in in_report()
    assert used, f"{name} is the row of no entry in report/table_entries/__init__.py"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_a_test(table: TableEntry) -> None:
    module, _, name = table.row_class.rpartition(".")
    stem = module.rpartition(".")[2]
    known = (
        f"traceanalyzer.{module} import",
        name,
        f'"{table.name}"',
        f'"{table.asked_as}"',
        f"m.{table.name}",
    )
    found = any(one in texts_in(".") for one in known)
    found = found or bool(list((ROOT / "tests").rglob(f"test_{stem}.py")))
    assert found, f"no test of {table.name} in tests/analysis/tables"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_column_has_all_its_places(table: TableEntry) -> None:
    """A definition, a row of the page, a property of the schema, a test that names it."""
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    section = page.partition(f"### {table.title}\n")[2].partition("\n### ")[0]
    schema = rows_schema(table.name, table.row)["$defs"][table.row.__name__]["properties"]
    forgotten = []
    for column in dataclasses.fields(table.row):
        published = RENAMED.get(column.name, column.name)
        name = re.escape(column.name)
        places = {
            "a definition: metric(...)": "definition" in column.metadata,
            "a row of docs/report.md: python -m docs.generate": f"| `{column.name}` |" in section,
            "its place in the schema": "description" in schema.get(published, {}),
            "a test that names it": re.search(
                rf"\.{name}\b|\b{name}=|[\"']{name}[\"']", texts_in(".")
            ),
        }
        forgotten += [f"{column.name} lacks {what}" for what, there in places.items() if not there]
    assert not forgotten, "; ".join(forgotten)


def ids_of(rule: Any) -> set[str]:
    """The findings that a rule makes: by its own text, else by that of its file."""
    made = re.compile(r'(?:Draft|finding|_Cause|_regularity)\(\s*f?"([a-z][a-z0-9-]*[a-z0-9])')
    own = set(made.findall(inspect.getsource(rule)))
    return own or set(made.findall(inspect.getsource(inspect.getmodule(rule) or rule)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_has_a_page_and_a_test(rule: Any) -> None:
    for made in ids_of(rule):
        assert finding_page(made), f"no diagnosis/findings/{made}.md"
    known = [*(f'"{made}"' for made in ids_of(rule)), *(f'"{made}-' for made in ids_of(rule))]
    texts = texts_in(".")
    found = any(one in texts for one in known) or re.search(
        rf"import (\([^)]*|.*)\b{rule.__name__}\b", texts
    )
    assert found, f"no test of {rule.__name__} in tests/diagnosis"


def test_what_rules_propose_has_a_name_of_the_contract() -> None:
    calls = [
        node
        for module in modules(traceanalyzer.diagnosis.rules)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Proposal", "finding")
    ]
    named = [key.value for call in calls for key in call.keywords if key.arg == "name"]
    names = {
        text.value for value in named for text in ast.walk(value) if isinstance(text, ast.Constant)
    }
    assert names <= set(NAMES)


@pytest.mark.parametrize("name", here(traceanalyzer.diagnosis.remedies, Remedy))
def test_a_remedy_is_listed_and_has_a_page_and_a_test(name: str) -> None:
    remedy = here(traceanalyzer.diagnosis.remedies, Remedy)[name]
    assert remedy in REMEDIES, f"{name} has no entry in diagnosis/remedies/remedies.toml"
    assert remedy.offer.__doc__, f"{name} does not say where it is offered"
    assert finding_page(remedy.finding), f"{name} is against a finding without a page"
    assert name.rpartition(".")[2] in (remedy.id, f"{remedy.id}_model")
    known = {remedy.id, *replayed_by(name)}
    found = any(re.search(rf"\b{one}\b", texts_in("diagnosis", "replay")) for one in known)
    assert found, f"no test of {name}"


def replayed_by(name: str) -> set[str]:
    """The functions of `replay` by which a remedy of a file changes a tape."""
    module, _, own = name.rpartition(".")
    tree = ast.parse(inspect.getsource(import_module(f"traceanalyzer.diagnosis.remedies.{module}")))
    changes: set[str] = set()
    uses: dict[str, set[str]] = {}
    for node in tree.body:
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        if isinstance(node, ast.ImportFrom) and "replay.changes" in (node.module or ""):
            changes |= {alias.asname or alias.name for alias in node.names if alias.name.islower()}
        elif isinstance(node, ast.FunctionDef):
            uses[node.name] = names
        elif isinstance(node, ast.Assign):
            uses |= {target.id: names for target in node.targets if isinstance(target, ast.Name)}
    found = {own}
    while more := {inner for outer in found for inner in uses.get(outer, set())} - found:
        found |= more
    return found & changes


def test_remedies_stand_in_the_list_once() -> None:
    ids = {remedy.id for remedy in REMEDIES}
    assert len(ids) == len(REMEDIES) == len(here(traceanalyzer.diagnosis.remedies, Remedy))
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", here(traceanalyzer.diagnosis.remedies, Scenario))
def test_a_scenario_has_the_name_of_its_remedy(name: str) -> None:
    scenario = here(traceanalyzer.diagnosis.remedies, Scenario)[name]
    ids = {*NAMES, *(one.id for one in import_module("traceanalyzer.replay.scenarios").SCENARIOS)}
    assert set(scenario.id.split("+")) <= ids


def test_every_remedy_has_a_range_by_what_such_promises_were_off() -> None:
    known = {remedy.id: errors_of(remedy.id) for remedy in REMEDIES}
    assert [name for name, errors in known.items() if errors is None] == []


def folders_of(top: Path) -> list[Path]:
    return [Path(name) for name, _, _ in os.walk(top)]


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = [
        ROOT,
        *(one for room in ("traceanalyzer", "tests") for one in folders_of(ROOT / room)),
    ]
    for name in re.findall(r"`([\w/]+(?:/|\.(?:py|md|sh|toml)))`", text):
        if not re.search(r"NAME|ID|TOPIC|GROUP", name):
            assert any((folder / name).exists() for folder in folders), name


def test_a_reader_has_an_entry() -> None:
    readers = {
        module.__name__.rpartition(".")[2]
        for module in modules(traceanalyzer.ingest)
        if hasattr(module, "recognise") and hasattr(module, "read")
    }
    assert readers == {form.name for form in FORMATS}, "ingest/formats.py lists what can be read"


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_format_has_a_reader_and_a_test(form: Format) -> None:
    assert callable(form.module.recognise)
    assert callable(form.module.read)
    assert form.sources
    folder = ROOT / "tests" / "ingest"
    places = [*folder.glob(f"test_{form.name}*.py"), *folder.glob(f"{form.name}/test_*.py")]
    imported = f"traceanalyzer.ingest.{form.name}" in texts_in(".")
    assert places or imported, f"no tests/ingest/test_{form.name}.py"


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_has_a_fuzz_kind_that_its_format_reads(source: str, tmp_path: Any) -> None:
    kind = next((kind for kind in KINDS.values() if kind.source == source), None)
    assert kind is not None, f"no kind of tests/fuzz/kinds.py has source={source!r}"
    path = tmp_path / kind.file
    path.write_bytes(kind.plain(kind.seeds()[0]))
    form = detect(path)
    assert isinstance(form, Format)
    assert source in {one.name for one in form.sources}, f"{form.name} took it"
    traces = form.read(path)
    assert {trace.source for trace in traces} == {source}
    if SOURCES[source].keeps_model:
        assert all(map(can_be_kept, traces)), "the cache would lose some of it"
    assert all(trace.is_companion == (form.in_folder == "companion") for trace in traces)


def test_sources_of_fuzz_kinds_have_an_entry() -> None:
    assert {kind.source for kind in KINDS.values()} - {None} == set(SOURCES)
    assert not Trace("", "unknown", []).is_companion


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_reader_that_takes_nothing_of_others_is_in_their_contract(form: Format) -> None:
    """import-linter then keeps it so."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (independent,) = [one["modules"] for one in contracts if one["type"] == "independence"]
    others = "|".join(other.name for other in FORMATS if other is not form)
    folder = ROOT / "traceanalyzer" / "ingest"
    files = [*folder.glob(f"{form.name}.py"), *folder.glob(f"{form.name}/**/*.py")]
    takes = re.compile(rf"traceanalyzer\.ingest(?:\.| import )(?:{others})\b")
    if not any(takes.search(file.read_text(encoding="utf-8")) for file in files):
        assert f"traceanalyzer.ingest.{form.name}" in independent, "pyproject.toml, independence"
