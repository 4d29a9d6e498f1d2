"""Builds the documentation site: `python -m docs.site` (needs `pip install mkdocs-material`).

The pages are those that GitHub shows. They are copied beside each other as they lie in the
repository, so that links between them lead to the same places, and links to code lead to the
repository.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from docs.generate import GALLERY, ROOT, pages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = ROOT / "build" / "site-source"
MORE = (
    "CHANGELOG.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "sample_traces/README.md",
    "benchmarks/README.md",
)
PICTURES = ("*.png", "*.svg", "*.ipynb")
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
"""Links without a scheme: to files."""
CODE = f"https://github.com/{os.environ.get('GITHUB_REPOSITORY', 'OWNER/REPO')}/blob/main/"


def report_page(recording: Path) -> str:
    """The report of a recording as a page."""
    import traceanalyzer as ta
    from traceanalyzer.report.html import render_html

    return render_html(ta.analyze(recording))


def staged(target: Path = SOURCE, draw: Callable[[Path], str] = report_page) -> list[Path]:
    """Copies the pages to `target`, with links that lead somewhere from there, and draws the
    gallery's reports; gives the names of the pages."""
    shutil.rmtree(target, ignore_errors=True)
    for name in GALLERY:
        page = target / "docs" / "gallery" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(draw(ROOT / "sample_traces" / name), encoding="utf-8")
    sources = [*pages(), *(ROOT / name for name in MORE)]
    names = [source.relative_to(ROOT) for source in sources]
    pictures = [p.relative_to(ROOT) for pattern in PICTURES for p in (ROOT / "docs").rglob(pattern)]
    known = {*names, *pictures}
    for name in (*names, *pictures):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        (target / name).write_text(
            LINK.sub(lambda m, here=name: _link(m, here, known), text), encoding="utf-8"
        )
    return [*names, *pictures]


def _link(match: re.Match[str], here: Path, known: set[Path]) -> str:
    """The link as it is where it leads to a page, else to the repository."""
    whole = (ROOT / here.parent / match[2]).resolve()
    if not whole.is_relative_to(ROOT) or whole.relative_to(ROOT) in known:
        return match[0]
    if (
        whole.parent == ROOT / "sample_traces"
        and whole.name in GALLERY
        and here.name == "gallery.md"
    ):
        return f"{match[1]}gallery/{whole.name}.html{match[3]}"
    return f"{match[1]}{CODE}{whole.relative_to(ROOT).as_posix()}{match[3]}"


if __name__ == "__main__":
    staged()
    mkdocs = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(ROOT / "mkdocs.yml"),
    ]
    sys.exit(subprocess.run(mkdocs, check=False).returncode)  # noqa: S603
