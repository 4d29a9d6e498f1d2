"""Commands as they are asked, and what they leave in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from traceanalyzer.cli import cli

if TYPE_CHECKING:
    from pathlib import Path


def told(*words: object) -> str:
    """What a command prints that succeeds."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def kept(folder: Path) -> list[Path]:
    """The answers and pages in a cache folder."""
    return sorted(folder.glob("*.answer"))
