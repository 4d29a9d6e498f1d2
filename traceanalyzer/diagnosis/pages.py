"""What is known of each finding: its page in `findings/`, one Markdown file named by its id.

The page begins with the finding's title and class; before them may stand what to do about it in a
line, as TOML in a comment. Parts between `<!-- ... -->` and `<!-- end -->` are written by
`docs/generate.py`."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, cast

from traceanalyzer.base import dataclass, regex
from traceanalyzer.diagnosis.finding import BottleneckClass, Words, begins_with_id, written

WORDS = regex(r"\A<!--\n(.*?)-->\n", re.DOTALL)
MARKS = regex(r"^<!-- .* -->\n", re.MULTILINE)
_FOLDER = Path(__file__).parent / "findings"
TITLE = regex(r"^\*\*(.*?)\*\*(?: Class `(\w+)`)?", re.MULTILINE)


@dataclass(frozen=True)
class FindingPage:
    """A finding explained. `id` is that of the finding; ids that go on after a hyphen share the
    page."""

    id: str
    title: str
    text: str  # Markdown
    cls: BottleneckClass
    words: dict[
        str, Any
    ]  # what to do, by name: `words`, and others where it depends on the program


def finding_pages() -> dict[str, FindingPage]:
    """All pages, by id."""
    names = (
        file.name.removesuffix(".md") for file in _FOLDER.iterdir() if file.name.endswith(".md")
    )
    return {name: page_of(name) for name in sorted(names)}


def finding_page(finding_id: str) -> FindingPage | None:
    """The page of a finding or recommendation, the one with the longest fitting id; None if there
    is none."""
    fitting = [page for name, page in finding_pages().items() if begins_with_id(finding_id, name)]
    return max(fitting, key=lambda page: len(page.id), default=None)


@cache
def page_of(finding_id: str) -> FindingPage:
    """The page of exactly that id. Raises FileNotFoundError."""
    text = (_FOLDER / f"{finding_id}.md").read_text(encoding="utf-8")
    words = WORDS.match(text)
    title = TITLE.search(text)
    name, cls = title.groups() if title else (finding_id, None)
    shown = MARKS.sub("", WORDS.sub("", text, count=1))
    found = tomllib.loads(words[1]) if words else {}
    return FindingPage(
        finding_id, name, shown, cast("BottleneckClass", cls or "inconclusive"), found
    )


def said(finding_id: str, which: str = "words", **figures: object) -> Words:
    """What the page of a finding says to do, with these figures in it."""
    return written(page_of(finding_id).words[which], **figures)
