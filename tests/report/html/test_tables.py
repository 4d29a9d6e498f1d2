"""Tables: what a person reads, what is sorted by, what is left out and said to be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceanalyzer.base.figures import metric
from traceanalyzer.report.html.markup import tag
from traceanalyzer.report.html.table_parts import PRINTED_COLUMNS, html_table, plain_table


@dataclass(frozen=True)
class Row:
    """A row."""

    name: str = metric("what it is called")
    total_ms: float | None = metric("how long it took", "ms")
    start_ns: int = metric("when it began", "ns")


ROWS = [Row("gemm", 1234.5678, 5_000_000), Row("add", None, 9_000_000)]


def made(rows=ROWS, **options):
    return html_table("Things", rows, **({"limit": 10} | options))


def test_headers_are_buttons_that_have_their_definition():
    assert (
        '<button type="button" class="sort" data-def="how long it took">total (ms)</button>'
        in made()
    )


def test_cells_are_for_people_and_sorted_by_what_was_measured():
    assert 'data-v="1234.57">1,235</td>' in made()
    assert '<td class="number">-</td>' in made()


def test_moments_are_sorted_by_the_recordings_clock():
    assert 'data-v="5000000">0.000</td>' in made()


def test_what_is_left_out_is_counted():
    assert "1 more rows left out; ask for all." in made(limit=1, more="; ask for all")
    assert "left out" not in made()


def test_long_tables_can_be_searched():
    assert 'type="search"' not in made()
    assert "Search in Things" in made(ROWS * 10, limit=20)


def test_rows_link_to_their_place():
    linked = made(link=lambda row: tag("a", "show", href=f"#{row.name}") if row.total_ms else None)
    assert linked.count("<td></td>") == 1
    assert '<a href="#gemm">show</a>' in linked
    assert "Timeline" not in made(link=lambda row: None)


def test_names_are_cut_and_shown_in_full_under_the_pointer():
    @dataclass(frozen=True)
    class Kernel:
        """A kernel."""

        name: str = metric("name")
        full_name: str = metric("in full")

    text = html_table("Kernels", [Kernel("k" * 500, "f" * 5_000)], limit=1)
    assert len(text) < 2_500
    assert 'title="ffff' in text


def test_a_text_among_figures_can_be_broken_into_lines():
    text = plain_table("Things", ["a", "b"], [["1.23 ms", "k" * 80]], [True, True])
    assert '<td class="number">1.23 ms</td><td class="long">kkk' in text


def test_a_screen_reader_hears_what_the_table_is():
    for text in (made(), plain_table("Things", ["a"], [["b"]], [False])):
        assert "<caption>Things</caption>" in text
        assert 'role="group" aria-label="Things"' in text
        assert len(re.findall(r"<th[^>]* scope=\"col\"|<th scope=\"col\"", text)) == text.count(
            "<th "
        )


def test_the_style_sheet_prints_as_many_columns_as_the_remark_says():
    from importlib.resources import files

    style = (files("traceanalyzer.report.html") / "assets" / "page.css").read_text()
    assert f"td:nth-child(n + {PRINTED_COLUMNS + 1})" in style
