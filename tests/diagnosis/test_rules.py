"""The list of rules: it is complete, and no rule in it is silenced by those before it."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

import traceanalyzer as ta
import traceanalyzer.diagnosis.rules as room
from traceanalyzer.diagnosis.diagnose import allocate_headroom
from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.rules import RULES
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.trace import Bool

SAMPLES = sorted(
    p for p in (Path(__file__).resolve().parents[2] / "sample_traces").iterdir() if p.is_dir()
)
SIGNATURE = (Measurements, Bool)


def is_rule(function: object, module: str) -> bool:
    """A public function of this module that takes measurements and free device ops, and yields
    drafts."""
    if (
        not inspect.isfunction(function)
        or function.__module__ != module
        or function.__name__.startswith("_")
    ):
        return False
    signature = inspect.signature(function)
    return "Draft" in str(signature.return_annotation)


def functions() -> list[Callable[..., object]]:
    """Every rule function of the room."""
    modules = [
        import_module(f"{room.__name__}.{m.name}") for m in pkgutil.iter_modules(room.__path__)
    ]
    return [f for module in modules for f in vars(module).values() if is_rule(f, module.__name__)]


@pytest.mark.parametrize("rule", functions(), ids=lambda rule: rule.__name__)
def test_every_rule_is_listed_and_has_the_one_signature(rule: Callable[..., object]) -> None:
    assert rule in RULES
    signature = inspect.signature(rule, eval_str=True)
    assert tuple(p.annotation for p in signature.parameters.values()) == SIGNATURE
    assert signature.return_annotation == Iterator[Draft]


def test_no_rule_stands_in_the_list_twice() -> None:
    assert len(set(RULES)) == len(RULES)
    assert set(RULES) == set(functions())


def heard() -> dict[str, set[str]]:
    """For each rule that yields anything on a sample: `alone`, and `headroom` where others left it
    any (or it claims none)."""
    result: dict[str, set[str]] = {}
    for path in SAMPLES:
        m = measured(ta.load(path)).critical
        owners = {}
        for rule in RULES:
            for draft, _ in allocate_headroom(m, [rule]):
                owners[draft.id] = rule.__name__
                result.setdefault(rule.__name__, set()).add("alone")
        for draft, headroom in allocate_headroom(m):
            if headroom is None or headroom > 0:
                result[owners[draft.id]].add("headroom")
    return result


def test_no_rule_is_silenced_by_those_before_it() -> None:
    """A rule that yields a draft on its own is heard beside all others, too, on some sample. What
    no sample has is shown by tests of its own (tests/test_places.py)."""
    made = heard()
    assert len(made) > len(RULES) / 2
    assert [name for name, how in made.items() if how == {"alone"}] == []
