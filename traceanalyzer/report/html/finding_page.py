"""A finding's own page, folded below it: what it means, how it was decided, what to do."""

from __future__ import annotations

from markdown_it import MarkdownIt

from traceanalyzer.report.explain import finding_page
from traceanalyzer.report.html.markup import Markup, tag

TITLE = "What it means, how it was decided, what to do"
SECTION = "\n## "
EXAMPLE = f"{SECTION}Example\n"
BELOW_A_FINDING = "\n#### "


def explained(finding_id: str) -> Markup | None:
    """The page without its title and its example: the report's own finding is one; None where there is no page."""
    page = finding_page(finding_id)
    if page is None:
        return None
    _, _, sections = page.text.partition(SECTION)
    text = (SECTION + sections).partition(EXAMPLE)[0].replace(SECTION, BELOW_A_FINDING)
    drawn = Markup(MarkdownIt("commonmark", {"html": False}).render(text))
    return tag("details", tag("summary", TITLE), tag("div", drawn))
