"""Markdown for a GitHub issue: order, size, and names that try to be more than text."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report.reports import HOSTILE, empty, full, hostile, kernel, tables
from tests.report.snapshots import matches_snapshot
from traceanalyzer.diagnosis.finding import Evidence, Finding
from traceanalyzer.report.markdown.escape import cell, markdown_table, prose
from traceanalyzer.report.markdown.issue import BRIEF, GITHUB_LIMIT, ROOM, render_markdown

SECTIONS = [
    "Summary",
    "Metrics",
    "Findings",
    "Recommendations",
    "How to reproduce",
    "Recording health",
    "Details",
]
GFM = MarkdownIt("commonmark").enable("table")


def tokens(text):
    return [inner for token in GFM.parse(text) for inner in (token, *(token.children or ()))]


def test_a_full_report():
    assert matches_snapshot(render_markdown(full(), 10**9), "full.md")


def test_a_brief_report_is_what_an_issue_gets():
    text = render_markdown(full())
    assert len(text) <= BRIEF
    assert matches_snapshot(text, "brief.md")


def test_a_report_that_knows_nothing():
    assert matches_snapshot(render_markdown(empty()), "empty.md")


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
def test_sections_come_in_order(report):
    assert re.findall(r"^## (.*)$", render_markdown(report, 10**9), re.MULTILINE) == SECTIONS


def test_the_first_screen_holds_the_answer():
    screen = "\n".join(render_markdown(full()).splitlines()[:25])
    for expected in (
        "sync-bound (clear)",
        "15.9 ms mean of 48 steps",
        "What to change",
        "1.69x",
        "| idle | 6.83 |",
    ):
        assert expected in screen


def test_long_tables_are_folded():
    text = render_markdown(full(), 10**9)
    assert text.count("<details>") == text.count("</details>")
    assert "<details><summary><b>Steps</b> (50 rows)</summary>" in text


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
def test_there_is_no_nan_and_no_long_fraction(report):
    text = render_markdown(report)
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert not re.search(r"\d\.\d{6,}", text.replace("4242.1754000000", "in a file's name"))


def test_hostile_names_stay_text():
    found = tokens(render_markdown(hostile()))
    html = {t.content for t in found if t.type in ("html_block", "html_inline")}
    assert all(re.match(r"</?(details|summary|b)>", part) for part in html)
    assert not [
        t for t in found if t.type in ("link_open", "image", "s_open", "hr", "fence", "code_block")
    ]
    headings = [t.content for before, t in pairwise(found) if before.type == "heading_open"]
    assert not [h for h in headings if "out" in h and "details" not in h]


def test_hostile_names_do_not_break_tables():
    head, rows = markdown_table(["a", "b"], [False, False], [(name, name) for name in HOSTILE])
    parsed = tokens("\n".join([*head, *rows]))
    assert sum(t.type == "tr_open" for t in parsed) == len(HOSTILE) + 1
    assert sum(t.type == "td_open" for t in parsed) == 2 * len(HOSTILE)


@given(st.text(max_size=300))
def test_any_text_is_one_cell(text):
    head, rows = markdown_table(["a", "b"], [False, False], [(text, "last")])
    found = tokens("\n".join([*head, *rows]))
    assert sum(t.type == "td_open" for t in found) == 2
    assert not [
        t
        for t in found
        if t.type in ("html_inline", "link_open", "image", "strong_open", "em_open")
    ]


@given(st.text(max_size=300))
def test_any_text_is_one_paragraph(text):
    kinds = {t.type for t in tokens(f"{prose(text)}")}
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}


@pytest.mark.parametrize(
    "trigger", ["@octocat", "#1", "GH-2", "https://evil.example", "www.evil.example", ":tada:"]
)
def test_nothing_in_prose_is_turned_into_a_link_or_an_emoji(trigger):
    assert trigger not in prose(f"by {trigger} now")
    assert prose(f"by {trigger} now").replace("\u200b", "") == f"by {trigger} now"
    assert cell(trigger).startswith("`")


def test_a_report_of_any_size_can_be_posted():
    evidence = [Evidence("time", 1.0, "ms", "x" * 5000)] * 20
    big = replace(
        full(),
        devices=full().devices * 64,
        tables=tables() | {"kernels": [kernel("k" * 5000 + str(i), 1.0) for i in range(3000)]},
        findings=[Finding(str(i), "host", "y" * 5000, "low", 1.0, evidence) for i in range(300)],
        recommendations=full().recommendations * 300,
        notes=["z" * 5000 + str(i) for i in range(300)],
        inputs=full().inputs * 512,
    )
    text = render_markdown(big, GITHUB_LIMIT - ROOM)
    assert len(text) <= GITHUB_LIMIT
    left_out = re.findall(r"^\*([\d,]+) more (\w+) left out\.\*$", text, re.MULTILINE)
    assert {what for _, what in left_out} >= {"findings", "recommendations"}
    assert "Notes" in text.rpartition("*Left out to fit")[2] or "notes" in {
        what for _, what in left_out
    }
    assert text.count("<details>") == text.count("</details>")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS[:-1]
    assert "Details" in text.rpartition("*Left out to fit")[2]
    assert re.search(r"^\*Left out to fit 61,440 characters: .*\.\*$", text, re.MULTILINE)


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
@pytest.mark.parametrize("limit", [4_000, 6_000, 8_000, 12_000, 20_000, 30_000])
def test_a_report_of_any_length_is_whole_and_says_what_is_missing(report, limit):
    text = render_markdown(report, limit)
    whole = render_markdown(report, 10**9, in_brief=limit <= BRIEF)
    assert len(text) <= limit
    assert {line for line in text.splitlines() if "left out" not in line.lower()} <= set(
        whole.splitlines()
    )
    for title in ("Summary", "Metrics", "Findings", "Recommendations"):
        assert f"## {title}\n" in text
    missing = text[text.rindex("Left out to fit") :] if "Left out to fit" in text else ""
    for title in re.findall(
        r"(?:^### |<summary><b>)([A-Z][^<\n]*)", whole[whole.index("## Metrics") :], re.MULTILINE
    ):
        assert title in text or title in missing or "Details" in missing
    lines = text.splitlines()
    assert sum(line.startswith("<details>") for line in lines) == lines.count("</details>")
    assert sum(line.startswith("```mermaid") for line in lines) == lines.count("```")
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.endswith(" |") for line in tables)


def test_the_least_important_goes_first():
    lengths = [len(render_markdown(full(), limit)) for limit in range(4_000, 30_000, 1_000)]
    assert lengths == sorted(lengths)
    for limit, there, gone in (
        (6_000, "host-waits", "Operators</b>"),
        (4_500, "Stop reading GPU values", "Operators</b>"),
    ):
        text = render_markdown(full(), limit)
        assert there in text
        assert gone not in text


def test_rows_are_dropped_from_the_bottom_and_counted():
    rows = [kernel(f"kernel number {i}", 1.0) for i in range(2000)]
    text = render_markdown(replace(full(), tables={"kernels": rows}), GITHUB_LIMIT)
    table = text[text.index("Kernels by device time") :]
    kept = [int(i) for i in re.findall(r"kernel number (\d+) ", table)]
    assert kept == list(range(len(kept)))
    assert f"*{2000 - len(kept):,} more rows left out.*" in text
    assert len(kept) > 100
