"""A page draws what a report of a long recording left beside it, and only where it is that."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.ingest.cache.asked import kept, told
from tests.ingest.cache.test_answers import refuse
from tests.ingest.cache.test_pages import refuse as refuse_to_read
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli.answers import left
from traceanalyzer.report.html import kept_details

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ("analyze", "--format", "html")
LOADED = """
import sys
from traceanalyzer.ingest.cache import identity
from traceanalyzer.cli import main
identity.LEAST_PACKED_BYTES = 0
identity.SETTLED_S = -1
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
MAKES_REPORTS = (
    *("diagnosis.diagnose", "diagnosis.ledger", "diagnosis.measurements", "diagnosis.remedies"),
    *("diagnosis.rules", "diagnosis.selection", "ingest.kineto", "replay.changes"),
    *(
        "replay.patterns",
        "replay.scenarios",
        "replay.whatif",
        "report.build",
        "report.html.made_details",
    ),
)
"""What no answer from what is kept has a use for."""


def test_a_page_of_what_a_report_left_is_the_same(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = told(*PAGE, trace_file, "--no-cache")
    read_with(cache=True)
    told("analyze", trace_file)
    refuse(monkeypatch)
    assert told(*PAGE, trace_file) == page


def test_of_the_longest_recordings_a_report_leaves_no_details(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left, "MOST_DETAILED", 10)
    monkeypatch.setattr(kept_details, "keep_details", lambda *_: pytest.fail("details were made"))
    told("analyze", trace_file)


def test_another_part_of_the_run_has_details_of_its_own(cache: Path, trace_file: Path) -> None:
    told("analyze", trace_file)
    without = told(*PAGE, trace_file, "--step", "0", "--no-cache")
    read_with(cache=True)
    assert told(*PAGE, trace_file, "--step", "0") == without


def test_a_page_leaves_what_it_drew(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(*PAGE, "--redact", trace_file)  # what is hidden on a page is not in what is kept
    page = told(*PAGE, trace_file, "--no-cache")
    read_with(cache=True)
    refuse(monkeypatch)
    assert told(*PAGE, trace_file) == page


def test_damaged_details_are_worked_out_again(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = told(*PAGE, trace_file, "--no-cache")
    read_with(cache=True)
    told("analyze", trace_file)
    assert kept(cache)
    monkeypatch.setattr(kept_details, "text_of_page", lambda _: '{"timelines": [{}]}')
    assert told(*PAGE, trace_file) == page


@pytest.mark.parametrize("format_", ["html", "markdown"])
def test_an_answer_from_what_is_kept_loads_nothing_that_measures_or_replays(
    cache: Path, trace_file: Path, format_: str
) -> None:
    told("analyze", trace_file)
    command = [sys.executable, "-c", LOADED, "analyze", str(trace_file), "--format", format_]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = set(done.stderr.splitlines())
    assert "traceanalyzer.report.kept_report" in loaded
    assert [name for name in MAKES_REPORTS if f"traceanalyzer.{name}" in loaded] == []


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "json"),
        ("--format", "markdown"),
        ("--full",),
        ("--format", "json", "--top", "3"),
        ("--format", "json", "--redact"),
    ],
)
def test_a_report_answers_the_next_question_without_reading(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    without = told("analyze", trace_file, *words, "--no-cache")
    read_with(cache=True)
    told("analyze", trace_file)
    refuse_to_read(monkeypatch)
    assert told("analyze", trace_file, *words) == without


def test_more_rows_than_were_left_are_worked_out(cache: Path, trace_file: Path) -> None:
    words = ("analyze", trace_file, "--format", "json", "--top", "1000")
    without = told(*words, "--no-cache")
    read_with(cache=True)
    told("analyze", trace_file)
    assert told(*words) == without


def test_a_result_in_the_folder_that_is_asked_about_is_replaced(
    cache: Path, trace_file: Path
) -> None:
    (old := trace_file.with_name("result.json")).write_text("{}")
    for _ in range(3):
        told("analyze", trace_file.parent)
        told("analyze", trace_file.parent, "-o", old)
        assert '"schema_version"' in old.read_text()
