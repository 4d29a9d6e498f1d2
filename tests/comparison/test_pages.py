"""The page and the picture of a comparison."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from benchmarks.chromium import Chromium, chromium
from tests.recorded import ROOT
from traceanalyzer import load
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.document import ComparisonPage
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.build import report_of
from traceanalyzer.report.timeline.step_timeline import step_timeline


@pytest.fixture(scope="module")
def page():
    sides = [measured(load(ROOT / "sample_traces" / name)) for name in ("sync_bound", "sync_fixed")]
    comparison = compare_reports(*(report_of(side) for side in sides), ("base", "fix"))
    return ComparisonPage(comparison, [step_timeline(side.critical) for side in sides])


def bars(text):
    """What is said of the waterfall's bars."""
    said = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            given = dict(attrs)
            if tag == "rect" and "data-def" in given:
                said.append(given["data-def"])

    Reader().feed(text[text.index('id="chart-waterfall"') : text.index("</figure>")])
    return said


def test_the_waterfall_leads_from_a_to_b_by_all_changes(page):
    first, *parts, last = bars(page.html())
    assert first == "A: base: 1.39 ms"
    assert last == "B: fix: 1.00 ms"
    assert len(parts) == 5
    assert parts[0].endswith("-0.423 ms")
    assert parts[-1].startswith("the rest (5 smaller or unchanged): ")


def test_without_recordings_there_are_no_timelines(page):
    alone = ComparisonPage(page.comparison)
    assert "Timelines" not in alone.html()
    assert "<canvas" not in alone.html()


def test_the_picture_is_an_svg_of_the_waterfall(page):
    root = ElementTree.fromstring(page.svg())  # noqa: S314 - our own
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "A: base" in texts
    assert "-0.423 ms" in texts


@pytest.mark.skipif(chromium() is None, reason="no Chromium is installed")
def test_both_steps_are_on_one_time_axis(page, tmp_path):
    file = tmp_path / "change.html"
    file.write_text(page.html(), encoding="utf-8")
    with Chromium.start() as browser:
        opened = browser.open(file)
        titles = opened.evaluate(
            "[...document.querySelectorAll('#timeline-lanes button')].map(e => e.dataset.lane)"
        )
        assert {"A: GPU 0 idle", "B: GPU 0 idle", "A: critical path", "B: critical path"} <= set(
            titles
        )
        ends = opened.evaluate("shownTimeline.view[1]")
        assert ends == max(step.window[1] for step in page.steps)
        assert opened.complaints == []
        assert opened.requests == [file.as_uri()]
