"""The order of a memory report: four parts, effort beside gain."""

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


PARTS = ["Summary", "Metrics", "Findings", "Recommendations", "Details"]


def test_the_four_parts_are_in_order_on_paper_and_on_a_page(shown: Printed) -> None:
    lines = shown.terminal().split("\n")
    titles = [line for line, under in pairwise(lines) if under.startswith("──")]
    assert titles == PARTS
    headings = re.findall(r"<h[23][^>]*>([^<]+)", shown.html())
    assert [one for one in headings if one in PARTS[1:]] == PARTS[1:]


def test_the_summary_of_a_page_says_what_to_change(shown: Printed) -> None:
    page = shown.html()
    assert page.index("What to change") < page.index(">Metrics</h2>")
    assert "What to change" not in shown.terminal()


def test_advice_says_what_it_takes(shown: Printed) -> None:
    assert "reserved at best; effort: one line; remedy: expandable_segments" in " ".join(
        shown.terminal().split()
    )


def test_what_goes_on_to_grow_has_a_promise_for_the_recorded_steps_alone(shown: Printed) -> None:
    text = " ".join(shown.terminal().split())
    assert "1.54 → 0.849 GiB at the peak, with room for the recorded steps alone" in text
    assert "at its final size (64 MiB for each step that it is to hold)" in text
