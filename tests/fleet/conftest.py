"""The command line, as tests of commands run it."""

from __future__ import annotations

from tests.cli.conftest import run

__all__ = ["run"]
