"""A document as one HTML file that opens anywhere: no request leaves it, scripts only add."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import takewhile
from typing import Any

from traceanalyzer.report import document as doc
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.frame import framed, heading, page_scripts
from traceanalyzer.report.html.markup import Markup, join, prose, tag
from traceanalyzer.report.html.table_parts import facts, html_table, plain_table

HEADING = "h2"
BELOW = "h3"
ROWS = 100  # rows that a table shows


def document_html(document: doc.Document, rows: int = ROWS) -> str:
    """The document as a self-contained page whose tables show so many `rows`; sections without
    content are left out."""
    drawn = [(section, _body(section, rows)) for section in _headed(document.sections)]
    shown = [
        (section.id or f"s{i}", section, body)
        for i, (section, body) in enumerate(drawn)
        if body or _has_below(drawn[i + 1 :], section)
    ]
    levels = _levels([section for _, section, _ in shown])
    links = [
        tag("a", section.title, href=f"#{id_}")
        for (id_, section, _), level in zip(shown, levels, strict=True)
        if not section.folded and level != BELOW
    ]
    skip = [
        tag("a", "Skip to the summary", href=f"#{id_}", class_="skip") for id_, _, _ in shown[:1]
    ]
    navigation = tag("header", tag("nav", *links, aria_label="Sections"))
    main = tag(
        "main",
        *(_section(*one, level) for one, level in zip(shown, levels, strict=True)),
    )
    footer = tag("footer", f"Made by {document.made_by} from files alone.")
    return framed(document.title, *skip, navigation, main, footer, page_scripts(*document.scripts))


def _has_below(after: Sequence[tuple[doc.Section, Markup]], section: doc.Section) -> bool:
    """Whether a heading has sections with content below it."""
    below = takewhile(lambda one: one[0].belongs_to_before, after)
    return not section.belongs_to_before and any(body for _, body in below)


def _levels(sections: Sequence[doc.Section]) -> list[str]:
    """The level of each section's heading: minor ones stand below the part that they belong to."""
    levels = list[str]()
    for section in sections:
        is_below = section.is_minor and not section.untitled and HEADING in levels
        levels.append(BELOW if is_below else HEADING if levels else "h1")
    return levels


def _headed(sections: Sequence[doc.Section]) -> list[doc.Section]:
    """The sections; the page's heading is the verdict that the first one begins with, in place of
    its title."""
    answers = [
        part for section in sections[:1] for part in section.parts if isinstance(part, doc.Verdict)
    ]
    if not answers:
        return list(sections)
    others = (part for part in sections[0].parts if part is not answers[0])
    first = [
        doc.Drawing(partial(heading, answers[0].text)),
        *answers[0].about,
        *others,
    ]
    return [replace(sections[0], parts=first, untitled=True), *sections[1:]]


def _body(section: doc.Section, rows: int) -> Markup:
    body = join(*(_drawn(part, section.title, rows) for part in section.parts if part))
    return (
        tag("details", tag("summary", "What it is made of"), body)
        if body and section.folded
        else body
    )


def _section(id_: str, section: doc.Section, body: Markup, heading: str) -> Markup:
    if section.untitled:
        return tag("section", body, id=id_, tabindex=-1, aria_label=section.title)
    title = tag(heading, section.title, id=f"{id_}-title")
    shown = _titled_once(section.title, body)
    return tag("section", title, shown, id=id_, tabindex=-1, aria_labelledby=f"{id_}-title")


def _titled_once(title: str, body: Markup) -> Markup:
    """What stands under a title; tables and charts of the same title say it to screen readers
    alone."""
    for name in ("caption", "h3"):
        body = Markup(body.replace(tag(name, title), tag(name, title, class_="said")))
    return body


def _drawn(part: doc.Part, title: str, rows: int) -> Markup | None:
    return _renderers()[type(part)](part, title, rows)


@cache
def _renderers() -> dict[type[Any], Callable[[Any, str, int], Markup | None]]:
    """How each kind of part is drawn."""
    return {
        str: lambda part, *_: tag("p", prose(part)),
        doc.Paragraph: lambda part, *_: tag(
            "p",
            prose(part.text),
            class_="quiet" if part.style == "dim" else None,
        ),
        doc.Verdict: lambda part, *_: join(
            tag("p", part.text, class_="headline"), *(tag("p", text) for text in part.about)
        ),
        doc.Facts: lambda part, *_: facts(part.facts) if part.facts else None,
        doc.Items: _items,
        doc.Bullets: lambda part, *_: (
            tag("ul", *(tag("li", prose(text)) for text in part.texts)) if part.texts else None
        ),
        doc.Table: _table,
        doc.TextTable: _texts,
        doc.FoldedParts: _fold,
        doc.Drawing: lambda part, *_: None if part.make is None else part.make(),
    }


def _fold(part: doc.FoldedParts, title: str, rows: int) -> Markup | None:
    inner = join(*(_drawn(one, title, rows) for one in part.parts if one))
    return tag("details", tag("summary", part.title), inner) if inner else None


def _texts(part: doc.TextTable, title: str, rows: int) -> Markup | None:
    return (
        plain_table(part.title or title, part.headers, part.rows[:rows], part.numeric)
        if part.rows
        else None
    )


def _items(part: doc.Items, *_: object) -> Markup:
    drawn = []
    for item in part.items:
        evidence = [doc.evidence_line(one) for one in item.evidence or ()]
        listed = [tag("li", text) for text in (*evidence, *item.details)]
        drawn.append(
            tag(
                "li",
                tag("p", tag("strong", item.title)),
                *(tag("p", text) for text, _ in item.lines),
                tag("ul", *listed) if listed else None,
            )
        )
    return tag("ol", *drawn)


def _table(part: doc.Table, title: str, rows: int) -> Markup | None:
    if not part.rows:
        return None
    title = part.title or title
    more = f"; `traceanalyzer show {part.command}` prints all" if part.command else ""
    drawn = html_table(
        title,
        part.rows,
        limit=rows,
        origin_ns=part.origin_ns,
        link=part.link,
        more=more,
    )
    return (
        tag(
            "details",
            tag("summary", f"{title} ({figure(len(part.rows))})"),
            _titled_once(title, drawn),
        )
        if part.folded
        else drawn
    )
