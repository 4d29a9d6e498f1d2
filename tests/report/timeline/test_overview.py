"""Stretches with more events than a screen has pixels: blocks that say how much of them is
filled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recorded import ROOT
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest import load
from traceanalyzer.report.timeline import overview as module
from traceanalyzer.report.timeline.lanes import Category
from traceanalyzer.report.timeline.overview import (
    DrawnBlocks,
    DrawnStretch,
    merged_blocks,
    overview,
)
from traceanalyzer.report.timeline.several import timelines


def blocks(rows):
    """Events (lane, category, start, length), each filled."""
    lane, category, start, length = np.array(rows, np.int64).reshape(-1, 4).T
    columns = {
        "lane": lane,
        "category": category,
        "start": start,
        "end": start + length,
        "filled": length,
    }
    return DrawnBlocks.from_columns({**columns, "row": np.arange(len(lane))})


def test_short_ones_near_each_other_are_one_and_know_how_much_they_fill():
    made = merged_blocks(
        blocks([(0, 0, 0, 4), (0, 0, 6, 4), (0, 0, 30, 50), (0, 3, 2, 1), (1, 0, 8, 2)]), 10
    )
    rows = zip(made.lane, made.category, made.start, made.end, made.filled, made.count, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [
        (0, 0, 0, 10, 8, 2),
        (0, 0, 30, 80, 50, 1),
        (0, 3, 2, 3, 1, 1),
        (1, 0, 8, 10, 2, 1),
    ]


events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 200), st.integers(0, 30)),
    max_size=40,
)


@given(events, st.integers(1, 40))
def test_merging_loses_neither_time_nor_events(rows, least):
    before = blocks(rows)
    after = merged_blocks(blocks(rows), least)
    for lane in range(3):
        for category in range(2):
            old, new = ((of.lane == lane) & (of.category == category) for of in (before, after))
            assert before.filled[old].sum() == after.filled[new].sum()
            assert old.sum() == after.count[new].sum()
            assert before.start[old].min(initial=999) == after.start[new].min(initial=999)
            assert before.end[old].max(initial=0) == after.end[new].max(initial=0)


@pytest.fixture(scope="module")
def run():
    of = measured(load([ROOT / "sample_traces" / "launch_bound"]))
    return of.critical


@pytest.mark.parametrize("most", [9_000, 40])
def test_however_coarse_a_stream_has_the_time_of_its_ops(run, monkeypatch, most):
    monkeypatch.setattr(module, "MAX_BLOCKS", most)
    steps = run.timed.steps
    ops = run.trace.device_ops
    start = int(steps.start[0])
    end = int(steps.end[-1])
    made = overview([DrawnStretch(run, start, end, -start, steps=True)], start, "all")
    assert len(made.events) <= most
    lanes = [lane.title for lane in made.lanes]
    assert made.lanes[lanes.index("steps")].level == 0
    (stream,) = [i for i, title in enumerate(lanes) if " stream " in title]
    here = made.events.lane == stream
    shown = ((made.events.end - made.events.start) * made.events.filled / 100)[here].sum()
    real = np.clip(np.minimum(ops.end, end) - np.maximum(ops.start, start), 0, None).sum()
    assert shown == pytest.approx(real, abs=0.005 * (end - start)), "to half a percent of a block"


def test_all_steps_can_be_chosen_with_their_idle_time_by_cause(run):
    of = measured(load([ROOT / "sample_traces" / "launch_bound"]))
    every = next(
        one for one in timelines(of) if one.title.endswith(f"all {len(run.timed.steps)} steps")
    )
    assert [name for name in every.names if name.startswith("step ")] == [
        f"step {run.timed.steps.first + i}" for i in range(len(run.timed.steps))
    ]
    kinds = {Category(code) for code in every.events.category.tolist()}
    assert {Category.COMPUTE, Category.IDLE_LAUNCH, Category.OPERATOR} <= kinds


def test_ranks_have_rows_of_their_hosts():
    every = timelines(measured(load([ROOT / "sample_traces" / "straggler"])))[-1]
    assert every.title.startswith("2 ranks, step ")
    for rank in (0, 1):
        mine = [lane.title for lane in every.lanes if lane.title.startswith(f"rank {rank} ")]
        assert any("idle" in title for title in mine)
        assert any("stream" in title for title in mine)
        assert any("thread" in title for title in mine)
