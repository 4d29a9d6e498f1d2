"""A page draws what a report of a long recording left beside it, and only where it is that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ingest.cache.asked import kept, told
from tests.ingest.cache.test_answers import refuse
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli.answers import analyze
from traceanalyzer.report.html import kept_details

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ("analyze", "--format", "html")


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
    monkeypatch.setattr(analyze, "MOST_DETAILED", 10)
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
