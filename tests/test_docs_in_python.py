"""The examples in Python that the documentation shows come out as shown."""

from __future__ import annotations

import doctest
import re

import pytest

from tests.test_docs import PAGES, ROOT

pytest.importorskip("torch")


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if "```pycon\n" in text])
def test_examples_in_python_come_out_as_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(re.findall(r"^```pycon\n(.*?)^```", PAGES[name], re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert "".join(said) == ""
