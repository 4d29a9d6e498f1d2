"""Whose time a Python frame's is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from traceanalyzer.analysis.causes.frames import _recursive


@pytest.mark.parametrize(
    ("row", "place", "counted_above"),
    [(2, -1, True), (2, 1, False), (1, -1, False), (0, -1, False), (3, 0, True), (3, 2, False)],
)
def test_a_frame_within_one_of_its_name_is_counted_there(
    row: int, place: int, counted_above: bool
) -> None:
    """Frames f > g > f > g, each called by the one before; a place ends the search."""
    stacks = SimpleNamespace(name=[0, 1, 0, 1], parent=[-1, 0, 1, 2])
    assert _recursive(stacks, row, place) is counted_above
