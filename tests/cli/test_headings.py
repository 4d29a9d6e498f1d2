"""No title stands above nothing: in any form of any command, over every kind of recording."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise, zip_longest
from pathlib import Path

import pytest

from tests.fleet.build import write_job
from tests.recorded import ROOT, ranks
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Facts,
    FoldedParts,
    Items,
    Paragraph,
    Part,
    Section,
    Table,
    TextTable,
    Weight,
)
from traceanalyzer.report.markdown.render import document_markdown
from traceanalyzer.report.terminal.render import document_terminal

DATA = ROOT / "tests" / "data"
COMPILED = DATA / "compile"
LOGS = sorted((DATA / "timing").iterdir())
ALONE = [
    *sorted(path.parent for path in (ROOT / "sample_traces").glob("*/environment.json")),
    *sorted((DATA / "serving").glob("*.gz")),
    *LOGS,
    *sorted((DATA / "texts").iterdir()),
    *sorted((DATA / "memory").glob("*.gz")),
    *sorted(COMPILED.glob("*.log.gz")),
    DATA / "hang",
]
NOTHING: list[Part | None] = [
    None,
    "",
    Paragraph(""),
    Facts([]),
    Items([]),
    Bullets([]),
    Table([]),
    TextTable(["a"], [False], []),
    FoldedParts("Title", [None, Facts([])]),
    Drawing(),
]


def empty_in_markdown(text: str) -> Iterator[str]:
    """Titles with nothing below them before a title of the same rank, or the end."""
    for line, below in zip_longest(lines := _filled(text), lines[1:], fillvalue=""):
        rank = _rank(line)
        if rank and (not below or below == "</details>" or 0 < _rank(below) <= rank):
            yield line


def _filled(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _rank(line: str) -> int:
    """Of a title 2 or more, the less the higher it is; a fold ranks as a minor title."""
    marks = re.match(r"(#{2,6}) ", line)
    if marks:
        return len(marks[1])
    return 3 if line.startswith("<details>") else 0


def empty_in_terminal(text: str) -> Iterator[str]:
    """Underlined titles with nothing below them before the next one, or the end."""
    lines = _filled(text)
    underlined = [i for i, line in enumerate(lines) if line and not line.strip("─")]
    for at, following in pairwise([*underlined, len(lines) + 1]):
        if following == at + 2:
            yield lines[at - 1]


def test_the_checks_find_what_is_empty() -> None:
    assert list(empty_in_markdown("## A\n\n## B\n\n### C\n\ntext\n### D\n")) == ["## A", "### D"]
    assert list(empty_in_terminal("A\n─\n\nB\n─\ntext\n\nC\n─\n")) == ["A", "C"]


def test_sections_without_content_are_left_out_and_their_titles_with_them() -> None:
    minor = [Section("Minor", [part], is_minor=True) for part in NOTHING]
    sections = [
        Section("Gone", NOTHING),
        Section("Kept by a minor one"),
        *minor,
        Section("Filled", ["text"], is_minor=True),
        Section("Gone, too"),
        *minor,
        Section("Last", ["text"]),
    ]
    for draw in (document_terminal, document_markdown):
        text = draw(Document("", sections))
        assert "Gone" not in text
        assert "Minor" not in text
        assert text.index("Kept by") < text.index("Filled") < text.index("Last")


def test_a_drawing_is_content_where_it_is_drawn() -> None:
    document = Document("", [Section("Chart", [Drawing(markdown=["```mermaid", "```"])])])
    assert "Chart" in document_markdown(document)
    assert "Chart" not in document_terminal(document)


def test_a_title_goes_with_the_last_of_what_stood_below_it() -> None:
    lines = [f"line {i} {'x' * 40}" for i in range(100)]
    sections = [
        Section("Answer", ["text"]),
        Section("Details"),
        Section("First", [Bullets(lines)], is_minor=True, weight=Weight.TABLE),
        Section("Second", [Bullets(lines)], is_minor=True, weight=Weight.TABLE),
    ]
    text = document_markdown(Document("", sections), 150)
    assert not list(empty_in_markdown(text))
    assert text.rstrip().endswith("*Left out to fit 150 characters: Details.*")


def _arguments(tmp_path: Path) -> Iterator[list[object]]:
    """Every kind of report that is not of one input by its content."""
    sample = ROOT / "sample_traces" / "sync_bound"
    yield ["analyze", *ranks("two_ranks/straggler_batch.base")]
    yield ["analyze", COMPILED / "break_once.trace.json.gz", COMPILED / "break_once.log.gz"]
    yield ["analyze", DATA / "memory" / "kv_cat.base.trace.json.gz"]
    yield ["memory", *sorted((DATA / "memory").glob("kv_cat.base.*"))]
    yield ["compile", COMPILED / "break_once.log.gz", COMPILED / "break_once.trace.json.gz"]
    yield ["compare", sample, ROOT / "sample_traces" / "sync_fixed"]
    yield ["whatif", sample]
    yield ["fleet", *write_job(tmp_path / "job", {2: 300})]


def _each_form(run: Callable[..., tuple[int, str, str]], arguments: list[object]) -> list[str]:
    status, whole, _ = run(*arguments, "--full")
    if status:  # a command that always says all
        whole = run(*arguments)[1]
    status, markdown, _ = run(*arguments, "--format", "markdown")
    assert (status, bool(whole)) == (0, True)
    return [*empty_in_terminal(whole), *empty_in_markdown(markdown)]


@pytest.mark.parametrize("path", ALONE, ids=[f"{path.parent.name}/{path.name}" for path in ALONE])
def test_no_title_of_a_report_stands_above_nothing(
    run: Callable[..., tuple[int, str, str]], path: Path
) -> None:
    assert _each_form(run, ["analyze", path]) == []


def test_no_title_of_another_command_stands_above_nothing(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    for arguments in _arguments(tmp_path):
        assert _each_form(run, arguments) == [], arguments
