"""The documentation site, as far as it can be known without mkdocs: every page is there, and links
lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import ROOT, pages
from docs.site import LINK, report_page, staged


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    return target, staged(target, lambda recording: f"<!doctype html>{recording.name}")


def test_the_gallery_has_ten_reports(site):
    target, _ = site
    linked = re.findall(
        r"\]\((gallery/\w+\.html)\)", (target / "docs" / "gallery.md").read_text(encoding="utf-8")
    )
    assert len(linked) == 10
    assert all((target / "docs" / name).is_file() for name in linked)
    assert report_page(ROOT / "sample_traces" / "cuda_graph").lower().startswith("<!doctype html>")


def test_every_page_is_there(site):
    target, names = site
    assert len(names) >= len(pages())
    assert all((target / name).is_file() for name in names)
    assert (target / "docs" / "page.png").is_file()


def test_links_lead_to_pages_or_to_the_repository(site):
    target, names = site
    links = 0
    for name in names:
        if name.suffix != ".md":
            continue
        for match in LINK.finditer((target / name).read_text(encoding="utf-8")):
            links += 1
            assert (target / name.parent / match[2]).exists(), f"{name}: {match[2]}"
    assert links > 100


def test_the_navigation_names_pages_that_are_there(site):
    target, _ = site
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = re.findall(
        r"(\S+\.md)$", config.partition("\nnav:")[2].partition("\nnot_in_nav")[0], re.MULTILINE
    )
    assert len(nav) > 20
    assert all((target / Path(name)).is_file() for name in nav)


def test_the_picture_is_small():
    assert (ROOT / "docs" / "page.png").stat().st_size < 200_000
