"""A finding's page below the finding."""

from __future__ import annotations

import pytest

from traceanalyzer.report.explain import finding_pages
from traceanalyzer.report.html.finding_section import explained


@pytest.mark.parametrize("name", [page.id for page in finding_pages()])
def test_a_page_is_below_its_finding_without_title_and_example(name):
    text = explained(name)
    assert "<h4>How it was decided</h4>" in text
    assert "<h1>" not in text
    assert "Example" not in text
    assert "<!--" not in text


def test_an_id_without_a_page_has_none():
    assert explained("no-such-finding") is None
