"""The pages on findings: what each means, how it is decided, what to do about it. One Markdown file a finding in
`findings/`, named by its id; parts between `<!-- ... -->` and `<!-- end -->` are written by `docs/generate.py`."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

from traceanalyzer.frozen import dataclass

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

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
    return [_page(name, file) for name, file in sorted(_files().items())]


def finding_page(finding_id: str) -> FindingPage | None:
    """The page of a finding or recommendation, the one with the longest fitting id; None if there is none."""
    fitting = {name: file for name, file in _files().items() if f"{finding_id}-".startswith(f"{name}-")}
    name = max(fitting, key=len, default=None)
    return None if name is None else _page(name, fitting[name])


def _files() -> dict[str, Traversable]:
    """The files of all pages by id."""
    folder = files("traceanalyzer.report") / "findings"
    return {file.name.removesuffix(".md"): file for file in folder.iterdir() if file.name.endswith(".md")}


def _page(finding_id: str, file: Traversable) -> FindingPage:
    text = file.read_text(encoding="utf-8")
    title = TITLE.search(text)
    return FindingPage(finding_id, title[1] if title else finding_id, MARKS.sub("", text))
