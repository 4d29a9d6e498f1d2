"""Pages in a real browser; their tests are skipped where no Chromium is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chromium import Chromium, chromium
from traceanalyzer import load
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.build import report_of
from traceanalyzer.report.html import render_html
from traceanalyzer.report.html.made_details import details_of

SAMPLES = Path(__file__).resolve().parents[3] / "sample_traces"


def report_and_details(*paths):
    """What the page of these recordings is made from."""
    of = measured(load(*paths))
    return report_of(of, 300), details_of(of)


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests."""
    if chromium() is None:
        pytest.skip("no Chromium is installed")
    with Chromium.start() as running:
        yield running


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where the pages are."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def sync_report():
    """Report and details of a step that waits in `.item()`."""
    return report_and_details(SAMPLES / "sync_bound")


@pytest.fixture(scope="session")
def sync_page(folder, sync_report):
    """Its page."""
    file = folder / "sync.html"
    file.write_text(render_html(*sync_report), encoding="utf-8")
    return file
