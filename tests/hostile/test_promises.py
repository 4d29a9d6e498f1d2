"""Each promise of SECURITY.md has tests that hold it, and they are there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.recorded import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PROMISED = re.findall(r"^- \*\*(.+?)\.?\*\*", TEXT, re.MULTILINE)
HELD = {
    promise: re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
    for promise, tests in re.findall(r"^\| (?!Promise|---)(.+?) \| (.+) \|$", TEXT, re.MULTILINE)
}


def test_each_promise_has_a_row():
    assert len(PROMISED) > 12
    assert list(HELD) == PROMISED


@pytest.mark.parametrize("promise", HELD)
def test_its_tests_are_there(promise):
    assert HELD[promise]
    for file, name in HELD[promise]:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, file
