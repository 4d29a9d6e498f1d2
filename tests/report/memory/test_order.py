"""The order of a memory report: four parts on paper, advice first on a page, effort beside gain."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.document import memory_document
from traceanalyzer.report.printed import Printed

SNAPSHOT = Path(__file__).parents[2] / "data" / "memory" / "kv_cat.base.snapshot.pickle.gz"


@pytest.fixture(scope="module")
def shown() -> Printed:
    return memory_document(memory_report(read_snapshot(SNAPSHOT)))


def test_paper_has_the_four_parts_in_order(shown: Printed) -> None:
    lines = shown.terminal().split("\n")
    titles = [line for line, under in pairwise(lines) if under.startswith("──")]
    assert titles[0] == "Summary"
    assert titles[-2:] == ["Findings", "Recommendations"]


def test_a_page_opens_with_advice_and_what_it_is_against(shown: Printed) -> None:
    titles = re.findall(r"<h2[^>]*>([^<]+)", shown.html())
    assert titles[:2] == ["Recommendations", "Findings"]


def test_advice_says_what_it_takes(shown: Printed) -> None:
    assert "reserved; effort: one line; id: expandable_segments" in shown.terminal()
