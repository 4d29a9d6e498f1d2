"""The sections on torch.compile drawn for a terminal, as Markdown and as HTML, and its figures as JSON."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from traceanalyzer import __version__
from traceanalyzer.report.compiled import sections
from traceanalyzer.report.format import plain, shorten
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown_text import prose, table
from traceanalyzer.report.terminal_text import INDENT, SEPARATOR, Page

if TYPE_CHECKING:
    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.diagnosis.compile import CompileDiagnosis
    from traceanalyzer.report.compiled import Section

SCHEMA_VERSION = 2
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser that keeps to it cannot be made to send a request by anything in a log."""
LONGEST_CELL = 300


def as_json(compiled: Compiled, diagnosis: CompileDiagnosis, inputs: list[dict[str, Any]]) -> str:
    """The contract's JSON."""
    return dump(
        {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "traceanalyzer", "version": __version__},
            "inputs": inputs,
            "headline": diagnosis.headline,
            "compile": compiled,
            "findings": diagnosis.findings,
            "recommendations": diagnosis.recommendations,
        }
    )


def as_markdown(compiled: Compiled, diagnosis: CompileDiagnosis) -> str:
    """Markdown for an issue."""
    lines: list[str] = []
    for section in sections(compiled, diagnosis):
        lines += [f"## {prose(section.title)}", ""]
        for text in section.lines:
            lines += [prose(text), ""]
        if section.rows:
            head, body = table(section.headers, section.numeric, section.rows)
            lines += [*head, *body, ""]
        if section.remark:
            lines += [prose(section.remark), ""]
    return "\n".join(lines)


def as_terminal(compiled: Compiled, diagnosis: CompileDiagnosis, width: int, colour: bool) -> str:
    """Text of a terminal."""
    from rich.table import Table
    from rich.text import Text

    page = Page(width, colour)
    for section in sections(compiled, diagnosis):
        page.heading(section.title)
        for text in section.lines:
            page.line(text, indent=INDENT)
        if section.rows:
            drawn = Table(box=None, padding=(0, SEPARATOR, 0, 0), pad_edge=False, header_style="bold")
            for header, right in zip(section.headers, section.numeric, strict=True):
                drawn.add_column(Text(header), justify="right" if right else "left", overflow="fold")
            for row in section.rows:
                drawn.add_row(*(Text(shorten(plain(cell), LONGEST_CELL)) for cell in row))
            page.draw(drawn)
        if section.remark:
            page.line(section.remark, "dim", INDENT)
    return page.text().lstrip("\n")


def as_html(compiled: Compiled, diagnosis: CompileDiagnosis) -> str:
    """One file that opens anywhere and asks for nothing."""
    css = (files("traceanalyzer.report.html") / "assets" / "page.css").read_text(encoding="utf-8")
    body = html_sections(compiled, diagnosis)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>torch.compile</title><style>{css}</style></head><body><main>{body}</main></body></html>\n"
    )


def html_sections(compiled: Compiled, diagnosis: CompileDiagnosis) -> str:
    """The sections alone, to stand in a page."""
    return "".join(_html_section(section) for section in sections(compiled, diagnosis))


def _html_section(section: Section) -> str:
    parts = [f"<section><h2>{_safe(section.title)}</h2>"]
    parts += [f"<p>{_safe(text)}</p>" for text in section.lines]
    if section.rows:
        heads = "".join(f'<th scope="col">{_safe(header)}</th>' for header in section.headers)
        rows = "".join("<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in section.rows)
        parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
    if section.remark:
        parts.append(f"<p>{_safe(section.remark)}</p>")
    return "".join([*parts, "</section>"])


def _safe(text: str) -> str:
    return escape(plain(text))
