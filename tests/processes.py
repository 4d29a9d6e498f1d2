"""Processes that the program starts, noted."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def noted_processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """A list of what is started from now on."""
    made: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*given: Any, **options: Any) -> Any:
        made.append(popen(*given, **options))
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    return made
