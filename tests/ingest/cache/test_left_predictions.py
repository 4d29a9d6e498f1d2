"""`whatif` prints the predictions that a report left, and only where these are the ones asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.ingest.cache.asked import told
from tests.ingest.cache.test_kept_tables import LOADED, only_tables, refuse
from traceanalyzer.base.reading import read_with
from traceanalyzer.ingest.cache.beside import ENVIRONMENT
from traceanalyzer.report.predictions import left  # before a test replaces what it imports

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["left", "only_tables"]
ASKED = [["whatif"], ["whatif", "--full"], ["whatif", "--format", "json"]]
OTHERS = [
    ["whatif", "--speedup", "gemm=2"],
    ["whatif", "--bucket-mb", "50"],
    ["whatif", "--redact-name", "gemm.*"],
    ["whatif", "--step", "0"],
    ["whatif", "--batch", "2x", "--batch-now", "8"],
]


def test_predictions_that_a_report_left_are_printed_without_reading(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = [told(*words, trace_file, "--no-cache") for words in ASKED]
    read_with(cache=True)
    told("analyze", trace_file)
    refuse(monkeypatch)
    assert [told(*words, trace_file) for words in ASKED] == without


def test_other_predictions_are_worked_out(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("analyze", trace_file)
    refuse(monkeypatch)
    for words in OTHERS:
        with pytest.raises(AssertionError):
            told(*words, trace_file)


@pytest.mark.parametrize("changed", ["written", "beside"])
def test_predictions_of_a_recording_that_changed_are_worked_out(
    changed: str, cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("analyze", trace_file)
    if changed == "written":
        trace_file.write_bytes(trace_file.read_bytes() + b"\n")
    else:
        trace_file.with_name(ENVIRONMENT).write_text("{}")
    refuse(monkeypatch)
    with pytest.raises(AssertionError):
        told("whatif", trace_file)


def test_they_load_nothing_that_reads_or_measures(cache: Path, trace_file: Path) -> None:
    told("analyze", trace_file)
    result = subprocess.run(
        [sys.executable, "-c", LOADED, "whatif", str(trace_file)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(result.stdout.splitlines()[-3:]) == {
        "ingest.kineto.reader False",
        "diagnosis.selection False",
        "replay.tape False",
    }
