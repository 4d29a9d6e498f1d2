"""Commands as they are asked, and what they leave in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from traceanalyzer.base.reading import read_with
from traceanalyzer.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEFT = ("table_entries.left_rows", "kept_report", "predictions.left", "html.kept_details")
"""Modules of `report` with what a report leaves for other commands."""


def told(*words: object) -> str:
    """What a command prints that succeeds."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def assert_told_again(words: list[str], file: Path, refuse: Callable[[], None]) -> None:
    """A command prints the same without a cache, with an empty one, and once what it needed before
    is refused."""
    without = told(*words, file, "--no-cache")
    read_with(cache=True)
    assert told(*words, file) == without
    refuse()
    assert told(*words, file) == without


def kept(folder: Path) -> list[Path]:
    """The answers and pages in a cache folder."""
    return sorted(folder.glob("*.answer"))
