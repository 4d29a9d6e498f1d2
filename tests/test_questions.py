"""The questions of `docs/questions.md`: one command each. `tests/test_docs.py` holds what they
print."""

from __future__ import annotations

import re

from tests.recorded import ROOT

PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
MEMORY_OR_COMPILATION = slice(18, 22)
"""Sections 19 to 22: those have commands of their own."""


def test_there_are_thirty_two_questions_in_order() -> None:
    assert [int(section.partition(".")[0]) for section in SECTIONS] == list(range(1, 33))


def test_one_command_answers_each_question() -> None:
    named = SECTIONS[MEMORY_OR_COMPILATION]
    for section in (one for one in SECTIONS if one not in named):
        printed = section.partition("```console\n")[2].splitlines()
        commands = [line for line in printed if line.startswith("$ traceanalyzer ")]
        assert len(commands) == 1, section
        assert len([line for line in printed[1:] if line not in ("...", "```", "")]) >= 1, section


def test_questions_on_memory_and_compilation_name_their_command() -> None:
    for section in SECTIONS[MEMORY_OR_COMPILATION]:
        assert re.search(
            r"[`$] ?traceanalyzer (analyze \S*(snapshot|LOG)|show ops)|The same command", section
        ), section
