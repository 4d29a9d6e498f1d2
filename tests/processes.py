"""Processes that the program starts, noted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.base.parallel import children

if TYPE_CHECKING:
    import pytest


def noted_processes(monkeypatch: pytest.MonkeyPatch) -> list[children.Child[Any]]:
    """A list of what is started from now on."""
    made: list[children.Child[Any]] = []
    start = children._started

    def noted(work: Any) -> Any:
        made.append(start(work))
        return made[-1]

    monkeypatch.setattr(children, "_started", noted)
    return made
