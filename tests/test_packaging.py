"""What installs the program agrees with itself: names, versions, packages."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

from tests.recorded import ROOT
from traceanalyzer.base import extras
from traceanalyzer.version import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")


def test_the_distribution_has_a_name_of_its_own() -> None:
    assert PROJECT["name"] == extras.DISTRIBUTION == "gpu-traceanalyzer"
    assert list(PROJECT["scripts"]) == ["traceanalyzer"]


def test_the_recipe_needs_what_the_project_needs() -> None:
    listed = re.findall(r"^    - (\S+) >=(\S+)$", RECIPE.partition("  run:\n")[2], re.MULTILINE)
    wanted = [tuple(one.split(">=")) for one in PROJECT["dependencies"]]
    assert listed == [("python", "3.11"), *wanted]
    assert f'version = "{__version__}"' in RECIPE


def test_no_text_installs_the_package_of_somebody_else() -> None:
    texts = [
        *(ROOT / "traceanalyzer").rglob("*.py"),
        *(ROOT / "traceanalyzer").rglob("*.txt"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "AGENTS.md",
    ]
    wrong = re.compile(r"(?:pip|pipx|uv tool|uv pip) install '?traceanalyzer\b")
    assert [str(path) for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_an_extra_is_installed_by_the_packages_that_it_needs(monkeypatch) -> None:
    lines = ["click>=8", "mcp>=2.1; extra == 'mcp'", 'pyarrow>=15 ; extra == "parquet"']
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert extras.how_to_install("mcp") == "pip install 'mcp>=2.1'"
    assert extras.how_to_install("parquet") == "pip install 'pyarrow>=15'"
    monkeypatch.setattr(metadata, "requires", lambda _: None)
    assert extras.how_to_install("mcp") == "pip install 'gpu-traceanalyzer[mcp]'"
