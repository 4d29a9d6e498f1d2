"""What was reserved at a moment, from the last state backwards."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from traceanalyzer.analysis.memory.segments import ranges_at, reserved_of
from traceanalyzer.trace.snapshot import CODE

HISTORY = [
    ("segment_map", 100, 100),
    ("segment_map", 200, 100),
    ("segment_alloc", 1000, 50),
    ("alloc", 1000, 10),
    ("segment_unmap", 300, 100),
    ("segment_free", 2000, 20),
]
"""At its end 100 to 300 is mapped and 1000 to 1050 reserved."""


def memory() -> SimpleNamespace:
    columns = {
        "action": [CODE[name] for name, _, _ in HISTORY],
        "address": [address for _, address, _ in HISTORY],
        "size": [size for _, _, size in HISTORY],
    }
    segments = [
        SimpleNamespace(address=100, size=200, is_expandable=True),
        SimpleNamespace(address=1000, size=50, is_expandable=False),
    ]
    return SimpleNamespace(
        events=SimpleNamespace(**{name: np.array(column) for name, column in columns.items()}),
        segments=segments,
    )


@pytest.mark.parametrize(
    ("moment", "ranges"),
    [
        (6, [(100, 200), (1000, 50)]),
        (5, [(100, 200), (1000, 50), (2000, 20)]),
        (
            4,
            [(100, 300), (1000, 50), (2000, 20)],
        ),  # the unmapped range went on where the mapped one ends
        (2, [(100, 300), (2000, 20)]),
        (1, [(100, 100), (300, 100), (2000, 20)]),
        (0, [(300, 100), (2000, 20)]),
    ],
)
def test_ranges_of_a_moment(moment: int, ranges: list[tuple[int, int]]) -> None:
    assert ranges_at(memory(), moment) == ranges


def test_what_is_reserved_is_their_sum() -> None:
    found = reserved_of(memory())
    assert found.rows.tolist() == [0, 1, 2, 4, 5]
    assert found.bytes.tolist() == [120, 220, 320, 370, 270, 250]
