"""What installs the program agrees with itself: names, versions, packages."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

from tests.recorded import ROOT
from traceanalyzer.base import extras
from traceanalyzer.version import __version__

TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TOML["project"]
BUILD = TOML["build-system"]
RECIPE = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
CONTAINER = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")

NAMES_IN_CONDA = {"isal": "python-isal"}
"""What conda-forge calls by another name."""


def test_the_distribution_has_a_name_of_its_own() -> None:
    assert PROJECT["name"] == extras.DISTRIBUTION == "gpu-traceanalyzer"
    assert list(PROJECT["scripts"]) == ["traceanalyzer"]


def test_the_recipe_needs_what_the_project_needs() -> None:
    listed = re.findall(r"^    - (\S+) >=(\S+)$", RECIPE.partition("  run:\n")[2], re.MULTILINE)
    pairs = (one.split(">=") for one in PROJECT["dependencies"])
    wanted = [(NAMES_IN_CONDA.get(name, name), minimum) for name, minimum in pairs]
    assert listed == [("python", "3.11"), *wanted]
    assert f'version = "{__version__}"' in RECIPE


def test_the_recipe_says_what_the_project_says() -> None:
    assert f"name: {PROJECT['name']}" in RECIPE
    assert f"license: {PROJECT['license']}" in RECIPE
    assert f"license_file: {PROJECT['license-files'][0]}" in RECIPE
    minimum = PROJECT["requires-python"]
    assert RECIPE.count(f"- python {minimum}") == 2, "where it is built and where it runs"
    ((command, target),) = PROJECT["scripts"].items()
    assert f"- {command} = {target}" in RECIPE
    assert "noarch: python" in RECIPE
    (backend,) = BUILD["requires"]
    assert f"    - {backend}\n" in RECIPE.partition("  host:\n")[2].partition("  run:\n")[0]


def test_the_container_copies_all_that_the_build_reads() -> None:
    copied = {
        name.rstrip("/")
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", CONTAINER, re.MULTILINE)
        for name in line.split()
    }
    read = {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "traceanalyzer"}
    assert read <= copied
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    (version,) = set(re.findall(r"^FROM \S+:(\d+\.\d+)-slim", CONTAINER, re.MULTILINE))
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert f"{PROJECT['name']} && rm" in CONTAINER
    assert 'ENTRYPOINT ["traceanalyzer"]' in CONTAINER
    assert re.search(r"^USER (?!root)", CONTAINER, re.MULTILINE)


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
    assert extras.how_to_install("mcp") == "pip install -e '.[mcp]' in the clone"
    monkeypatch.setattr(extras, "_CLONE", ROOT / "no such folder" / "pyproject.toml")
    assert extras.how_to_install("mcp") == "pip install 'gpu-traceanalyzer[mcp]'"
