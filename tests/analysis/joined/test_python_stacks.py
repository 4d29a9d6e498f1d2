from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.build import US, TraceBuilder
from traceanalyzer.analysis.joined.python_stacks import PythonStacks


def stacks() -> PythonStacks:
    b = TraceBuilder().python("train.py(10): main", 0, 100).python("train.py(20): step", 10, 90)
    b.python("/opt/lib/site-packages/torch/nn/module.py(5): __call__", 20, 60).python(
        "nn.Module: Linear_0", 21, 59
    )
    b.python("<built-in method item of Tensor object>", 30, 40).python(
        "loader.py(3): fetch", 0, 50, thread=1
    )
    return PythonStacks.build(b.op("aten::item", 31, 39).build())


def innermost(s: PythonStacks, thread: int, time: int) -> str | None:
    frame = int(s.frames_at(np.array([thread]), np.array([time]))[0])
    return s.strings[s.name[frame]] if frame >= 0 else None


def test_the_innermost_frame_at_a_moment() -> None:
    s = stacks()
    assert innermost(s, 0, 35 * US) == "<built-in method item of Tensor object>"
    assert innermost(s, 0, 45 * US) == "nn.Module: Linear_0"
    assert innermost(s, 0, 70 * US) == "train.py(20): step"
    assert innermost(s, 0, 95 * US) == "train.py(10): main"
    assert innermost(s, 1, 10 * US) == "loader.py(3): fetch"


def test_nothing_outside_the_frames() -> None:
    s = stacks()
    assert innermost(s, 0, 100 * US) is None
    assert innermost(s, 1, 60 * US) is None
    assert innermost(s, 7, 10 * US) is None
    assert s.source_line(0, -5) is None


def test_the_source_line_is_the_programs_own() -> None:
    s = stacks()
    assert s.source_line(0, 35 * US) == "train.py(20): step"
    only_library = PythonStacks.build(
        TraceBuilder().python("torch/utils/data.py(7): next", 0, 9).build()
    )
    assert only_library.source_line(0, 5 * US) == "torch/utils/data.py(7): next"


def test_the_stack_goes_from_the_outside_in() -> None:
    s = stacks()
    frame = int(s.frames_at(np.array([0]), np.array([70 * US]))[0])
    around = int(s.parent[frame])
    assert [s.strings[s.name[one]] for one in (around, frame)] == [
        "train.py(10): main",
        "train.py(20): step",
    ]
    assert s.parent[around] == -1


def test_without_stacks_there_is_no_answer() -> None:
    s = PythonStacks.build(TraceBuilder().op("aten::mm", 0, 5).build())
    assert innermost(s, 0, 1) is None


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(1, 20)), max_size=20),
    st.integers(0, 1),
    st.integers(-1, 45),
)
def test_a_frame_that_was_found_was_running(
    rows: list[tuple[int, int, int]], thread: int, time: int
) -> None:
    b = TraceBuilder()
    for t, start, length in rows:
        b.python("f", start, start + length, thread=t)
    s = PythonStacks.build(b.build())
    frame = int(s.frames_at(np.array([thread]), np.array([time * US]))[0])
    running = np.flatnonzero((s.thread == thread) & (s.start <= time * US) & (s.end > time * US))
    assert frame == -1 or frame in running
