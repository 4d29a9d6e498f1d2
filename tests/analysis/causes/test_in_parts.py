"""What is worked out some rows at a time is the same whatever their number."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.test_any_trace import any_rows, measure
from tests.recorded import ROOT
from traceanalyzer.analysis.algebra import lookup
from traceanalyzer.analysis.causes import critical_path, gaps
from traceanalyzer.analysis.measure import Measurements
from traceanalyzer.analysis.time import host_pieces
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from traceanalyzer.analysis.time.host_timeline import ThreadTimeline
    from traceanalyzer.trace import Table

NSYS = sorted((ROOT / "tests" / "recordings" / "nsys").glob("*.sqlite.gz"))


def same(one: Table, other: Table) -> None:
    for f in fields(one):
        assert getattr(one, f.name).tolist() == getattr(other, f.name).tolist(), f.name


def check(whole: Measurements, parts: Measurements, rows: int) -> None:
    for a, b in zip(whole.timeline.threads, _threads(parts, rows), strict=True):
        assert (a.moments.tolist(), a.state.tolist()) == (b.moments.tolist(), b.state.tolist())
        assert pieces(a) == pieces(b)
    with (
        patch.object(lookup, "AT_ONCE", rows),
        patch.object(gaps, "AT_ONCE", rows),
        patch.object(critical_path, "AT_ONCE", rows),
    ):
        assert whole.launch.tolist() == parts.launch.tolist()
        assert (whole.steps.start.tolist(), whole.steps.end.tolist()) == (
            parts.steps.start.tolist(),
            parts.steps.end.tolist(),
        )
        assert whole.steady_calls.tolist() == parts.steady_calls.tolist()
        for name in ("by", "op", "since"):
            assert getattr(whole.bindings, name).tolist() == getattr(parts.bindings, name).tolist()
        assert whole.roofline.bound.tolist() == parts.roofline.bound.tolist()
        np.testing.assert_array_equal(whole.roofline.attainable, parts.roofline.attainable)
        same(whole.gaps, parts.gaps)
        same(whole.critical_path, parts.critical_path)
        assert (whole.path_time, whole.path, whole.ops) == (parts.path_time, parts.path, parts.ops)


def _threads(m: Measurements, rows: int) -> list[ThreadTimeline]:
    with patch.object(host_pieces, "AT_ONCE", rows):
        return m.timeline.threads


def pieces(one: ThreadTimeline) -> list[tuple[int, int, int]]:
    return [
        piece for cut in one.pieces for piece in zip(*(c.tolist() for c in (cut.start, cut.end, cut.node)), strict=True)
    ]


@given(any_rows)
def test_of_any_trace(rows) -> None:
    check(measure(rows), measure(rows), 2)


moments = st.integers(-100, 10**6)


@given(any_rows, moments, moments)
def test_the_pieces_of_a_window_are_those_of_the_whole_that_lie_in_it(rows, one, other) -> None:
    low, high = sorted((one, other))
    for thread in _threads(measure(rows), 2):
        cut = thread.pieces.within(low, high)
        found = list(zip(cut.start.tolist(), cut.end.tolist(), cut.node.tolist(), strict=True))
        assert set(found) <= set(pieces(thread))
        assert [p for p in found if p[0] < high and p[1] > low] == [
            p for p in pieces(thread) if p[0] < high and p[1] > low
        ]


@given(any_rows)
def test_what_starts_were_made_of_is_made_again(rows) -> None:
    m = measure(rows)
    since = m.bindings.since.tolist()
    m.let_go_of_starts()
    assert m.bindings.since.tolist() == since


@pytest.mark.parametrize("path", NSYS, ids=lambda path: path.name)
def test_of_a_recording(path) -> None:
    trace = load([path]).traces[0]
    check(Measurements(trace), Measurements(trace), 500)
