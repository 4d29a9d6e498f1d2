"""A finding's page below the finding."""

from __future__ import annotations

import pytest

import traceanalyzer as ta
from tests.report.html.conftest import SAMPLES
from traceanalyzer.diagnosis.pages import finding_pages
from traceanalyzer.report.html.finding_section import drawn_findings, finding_text


@pytest.mark.parametrize("name", finding_pages())
def test_a_page_is_below_its_finding_without_title_and_example(name):
    text = finding_text(name)
    assert "<h4>How it was decided</h4>" in text
    assert "<h1>" not in text
    assert "Example" not in text
    assert "<!--" not in text


def test_an_id_without_a_page_has_none():
    assert finding_text("no-such-finding") is None


def test_the_line_of_code_and_the_command_are_below_the_finding():
    report = ta.analyze(SAMPLES / "wasteful_kernels")
    page = drawn_findings(report, None)
    assert (
        "<p>what limits its kernels: ncu --set basic --section WarpStateStats -k &#x27;regex:^(nchwToNhwcKernel|"
        in page
    )
