"""Whose time a Python frame's is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.frames import _named, _parts
from traceanalyzer.analysis.joined.python_stacks import PythonStacks

NAMES = ["f", "g", "f", "g"]
"""Frames that each call the next, of 8, 6, 4 and 2 us."""


@pytest.mark.parametrize(
    ("place", "counted"),
    [
        (-1, {"f": 8000, "g": 6000}),
        (0, {"g": 6000, "f": 4000}),
        (1, {"f": 4000, "g": 2000}),
        (2, {"g": 2000}),
        (3, {}),
    ],
)
def test_a_frame_within_one_of_its_name_is_counted_there(
    place: int, counted: dict[str, int]
) -> None:
    """A place ends the search."""
    trace = TraceBuilder()
    for depth, name in enumerate(NAMES):
        trace.python(name, depth, 8 - depth)
    stacks = PythonStacks.build(trace.build())
    rows = np.arange(len(NAMES))
    parts = _parts(stacks, rows, stacks.end - stacks.start, place, 8000)
    assert dict(parts) == counted


def test_stacks_of_any_depth_are_gone_through_once() -> None:
    """Depth 5,000: the parent of each frame is asked for once, not up to the root."""
    trace = TraceBuilder()
    for depth in range(5000):
        trace.python(f"f{depth % 7}", depth, 20_000 - depth)
    stacks = PythonStacks.build(trace.build())
    asked = []

    class Counting:
        def __getitem__(self, row: int) -> int:
            asked.append(row)
            return int(parent[row])

    parent = stacks.parent
    stacks.__dict__["subtree_end"] = stacks.subtree_end
    stacks.__dict__["_nesting"] = stacks._nesting
    type(stacks).parent.func(stacks)
    stacks.__dict__["parent"] = Counting()
    _parts(stacks, np.arange(5000), stacks.end - stacks.start, -1, 20_000_000)
    assert len(asked) <= 5000


def test_functions_are_named_without_folders_and_addresses() -> None:
    named = {
        "/opt/conda/lib/video.py(129): preprocess": "video.py(129): preprocess",
        "<built-in method conv2d of type object at 0x7fc958507a00>": "conv2d",
        "<built-in function linear>": "linear",
        "nn.Module: Linear_0": "nn.Module: Linear_0",
    }
    assert {frame: _named(frame) for frame in named} == named
