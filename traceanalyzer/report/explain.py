"""The pages on findings: what each means, how it is decided, what to do about it. One Markdown file a finding in
`findings/`, named by its id; parts between `<!-- ... -->` and `<!-- end -->` are written by `docs/generate.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

MARKS = re.compile(r"^<!-- .* -->\n", re.MULTILINE)
TITLE = re.compile(r"^\*\*(.*?)\*\*", re.MULTILINE)


@dataclass(frozen=True)
class FindingPage:
    """A finding explained. `id` is that of the finding; ids that go on after a hyphen share the page."""

    id: str
    title: str
    text: str
    """Markdown."""


def finding_pages() -> list[FindingPage]:
    """All pages, by id."""
    found = [f for f in (files("traceanalyzer.report") / "findings").iterdir() if f.name.endswith(".md")]
    pages = [_page(f.name.removesuffix(".md"), f.read_text(encoding="utf-8")) for f in found]
    return sorted(pages, key=lambda page: page.id)


def finding_page(finding_id: str) -> FindingPage | None:
    """The page of a finding or recommendation, the one with the longest fitting id; None if there is none."""
    fitting = [page for page in finding_pages() if f"{finding_id}-".startswith(f"{page.id}-")]
    return max(fitting, key=lambda page: len(page.id), default=None)


def _page(finding_id: str, text: str) -> FindingPage:
    title = TITLE.search(text)
    return FindingPage(finding_id, title[1] if title else finding_id, MARKS.sub("", text))
