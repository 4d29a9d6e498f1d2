"""The places that CONTRIBUTING names for a table, a rule and a remedy: what was forgotten fails
here by its name."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import traceanalyzer.analysis.tables
import traceanalyzer.diagnosis.remedies
import traceanalyzer.diagnosis.rules
from tests.recorded import ROOT
from traceanalyzer.diagnosis.pages import finding_page
from traceanalyzer.diagnosis.remedies import NAMES, REMEDIES
from traceanalyzer.diagnosis.remedies.remedy import Remedy
from traceanalyzer.diagnosis.rules import RULES
from traceanalyzer.replay.scenarios import Scenario
from traceanalyzer.report.model import Report
from traceanalyzer.report.table_entries import TABLES, Table


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
    assert used, f"{name} is the row of no entry in report/table_entries.py"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_a_test(table: Table) -> None:
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
    assert 0 < scenario.spread < 1


def test_contributing_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]+(?:/|\.(?:py|md|sh|toml)))`", text):
        if not re.search(r"NAME|ID|TOPIC|GROUP", name):
            assert (ROOT / name).exists() or list(ROOT.rglob(f"*/{name}")), name
