"""Commands of tables print the rows that a report left, and only where these are the rows wanted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.ingest.cache.asked import told
from tests.recorded import ROOT
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli import cli
from traceanalyzer.report import kept_tables
from traceanalyzer.report.table_entries import left_rows

if TYPE_CHECKING:
    from pathlib import Path

LEFT = [
    ["gaps"],
    ["gaps", "--format", "json"],
    ["gaps", "--top", "3"],
    ["gaps", "--by", "time"],
    ["kernels"],
    ["kernels", "--format", "csv"],
    ["kernels", "--sort", "calls", "--columns", "name,calls"],
    ["ops", "--top", "2"],
    ["path"],
    ["phases", "--format", "markdown"],
    ["syncs"],
]
NOT_LEFT = [
    ["gaps", "--min-us", "5"],
    ["ops", "--by-shape"],
    ["kernels", "--device", "0"],
    ["iterations"],
]
LOADED = """
import sys
from traceanalyzer.cli import main
from traceanalyzer.ingest.cache import identity
identity.SETTLED_S = -1
try:
    main()
finally:
    for name in ("ingest.kineto.reader", "diagnosis.selection", "replay.tape"):
        print(name, f"traceanalyzer.{name}" in sys.modules)
"""


@pytest.fixture(autouse=True)
def only_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither models nor answers of them are kept, and no command prints a page again."""
    monkeypatch.setattr("traceanalyzer.ingest.cache.models.place", lambda: None)
    monkeypatch.setattr("traceanalyzer.cli.io.again._question", lambda _: None)


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> object:
        raise AssertionError("it was read, not answered")

    monkeypatch.setattr("traceanalyzer.ingest.load", load)


def test_tables_that_a_report_left_are_printed_without_reading(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = [told(*words, trace_file, "--no-cache") for words in LEFT]
    read_with(cache=True)
    told("analyze", trace_file)
    refuse(monkeypatch)
    assert [told(*words, trace_file) for words in LEFT] == without


def test_tables_are_left_once(
    cache: Path, trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []
    keep = kept_tables.keep_page
    monkeypatch.setattr(kept_tables, "keep_page", lambda *page: (kept.append(page), keep(*page)))
    read_with(cache=True)
    told("analyze", trace_file)
    told("analyze", trace_file, "--top", "3", "-o", str(tmp_path / "page.html"))
    assert len(kept) == 1


def test_what_the_rows_do_not_tell_is_worked_out(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = [told(*words, trace_file, "--no-cache") for words in NOT_LEFT]
    read_with(cache=True)
    told("analyze", trace_file)
    assert [told(*words, trace_file) for words in NOT_LEFT] == without
    refuse(monkeypatch)
    for words in NOT_LEFT:
        with pytest.raises(AssertionError):
            told(*words, trace_file)


def test_a_table_that_was_cut_answers_no_more_than_it_has(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [["gaps", "--format", "json"], ["path", "--top", "1"], ["kernels", "--top", "1"]]
    without = [told(*words, trace_file, "--no-cache") for words in asked]
    read_with(cache=True)
    for limited in (kept_tables, left_rows):
        monkeypatch.setattr(limited, "MOST_ROWS", 1)
    told("analyze", trace_file)
    assert [told(*words, trace_file) for words in asked] == without
    refuse(monkeypatch)
    assert [told(*words, trace_file) for words in asked[1:]] == without[1:]
    with pytest.raises(AssertionError):
        told(*asked[0], trace_file)


def test_moments_count_from_the_first_of_more_steps_than_are_kept(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        ["gaps", "--top", "1", "--columns", "start_ns,duration_ns"],
        ["steps", "--top", "1", "--columns", "start_ns,duration_ms"],
    ]
    without = [told(*words, trace_file, "--no-cache") for words in asked]
    assert all("from the start of step" in text for text in without)
    read_with(cache=True)
    for limited in (kept_tables, left_rows):
        monkeypatch.setattr(limited, "MOST_ROWS", 1)
    told("analyze", trace_file)
    refuse(monkeypatch)
    assert [told(*words, trace_file) for words in asked] == without


def test_a_redacted_table_is_worked_out(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("kernels", "--redact-name", "gemm.*")
    without = told(*words, trace_file, "--no-cache")
    read_with(cache=True)
    told("analyze", trace_file)
    assert told(*words, trace_file) == without


def test_an_answer_loads_nothing_that_reads_or_measures(cache: Path, trace_file: Path) -> None:
    told("analyze", trace_file)
    result = subprocess.run(
        [sys.executable, "-c", LOADED, "kernels", str(trace_file)],
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = result.stdout.splitlines()[-3:]
    assert loaded == [
        "ingest.kineto.reader False",
        "diagnosis.selection False",
        "replay.tape False",
    ]


def test_what_tells_no_times_leaves_no_tables(cache: Path, tmp_path: Path) -> None:
    source = ROOT / "tests" / "data" / "memory" / "half_batch.snapshot.pickle.gz"
    file = str(shutil.copy(source, tmp_path / "memory.pickle.gz"))
    told("analyze", file)
    result = CliRunner().invoke(cli, ["gaps", file])
    assert result.exit_code == 1
    assert "tells no times" in str(result.exception)
