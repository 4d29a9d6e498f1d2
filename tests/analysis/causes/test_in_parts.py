"""What is worked out some rows at a time is the same whatever their number."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.test_any_trace import any_rows, measure_rows
from tests.recorded import ROOT
from traceanalyzer.analysis.algebra import lookup
from traceanalyzer.analysis.causes import critical_path, gaps
from traceanalyzer.analysis.time import host_pieces
from traceanalyzer.analysis.time.host_pieces import HostPieces
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from traceanalyzer.analysis.time.host_timeline import ThreadTimeline
    from traceanalyzer.trace import Table

NSYS = sorted((ROOT / "tests" / "recordings" / "nsys").glob("*.sqlite.gz"))


def same(one: Table, other: Table) -> None:
    for f in fields(one):
        assert getattr(one, f.name).tolist() == getattr(other, f.name).tolist(), f.name


def check(whole: Measurements, parts: Measurements, rows: int) -> None:
    for a, b in zip(whole.timed.timeline.threads, _threads(parts, rows), strict=True):
        assert (a.moments.tolist(), a.state.tolist()) == (b.moments.tolist(), b.state.tolist())
        assert pieces(a) == pieces(b)
    with (
        patch.object(lookup, "AT_ONCE", rows),
        patch.object(gaps, "AT_ONCE", rows),
        patch.object(critical_path, "AT_ONCE", rows),
    ):
        assert whole.linked.launch.tolist() == parts.linked.launch.tolist()
        assert (whole.timed.steps.start.tolist(), whole.timed.steps.end.tolist()) == (
            parts.timed.steps.start.tolist(),
            parts.timed.steps.end.tolist(),
        )
        assert whole.timed.steady_calls.tolist() == parts.timed.steady_calls.tolist()
        for name in ("by", "op", "start", "lag"):
            assert (
                getattr(whole.started.bindings, name).tolist()
                == getattr(parts.started.bindings, name).tolist()
            )
        assert whole.rated.roofline.bound.tolist() == parts.rated.roofline.bound.tolist()
        np.testing.assert_array_equal(
            whole.rated.roofline.attainable, parts.rated.roofline.attainable
        )
        same(whole.causes.gaps, parts.causes.gaps)
        same(whole.causes.critical_path, parts.causes.critical_path)
        assert (whole.path_time, whole.path, whole.ops) == (parts.path_time, parts.path, parts.ops)


def _threads(m: Measurements, rows: int) -> list[ThreadTimeline]:
    with patch.object(host_pieces, "AT_ONCE", rows):
        return m.timed.timeline.threads


def pieces(one: ThreadTimeline) -> list[tuple[int, int, int]]:
    return [
        piece
        for cut in one.pieces
        for piece in zip(*(c.tolist() for c in (cut.start, cut.end, cut.node)), strict=True)
    ]


def test_pieces_are_cut_once_and_few_are_kept() -> None:
    run = load([NSYS[0]])
    for kept in (1, 1000):
        with (
            patch.object(host_pieces, "AT_ONCE", 64),
            patch.object(host_pieces, "MOST_KEPT", kept),
        ):
            thread = measure(run.traces[0]).timed.timeline.threads[0]
            each = pieces(thread)
            newly_cut = patch.object(HostPieces, "_newly_cut", side_effect=AssertionError)
            with newly_cut as made, suppress(AssertionError):
                assert pieces(thread) == each
            assert made.called == (kept == 1)
            assert len(thread.pieces._kept) <= kept


@given(any_rows)
def test_of_any_trace(rows) -> None:
    check(measure_rows(rows), measure_rows(rows), 2)


moments = st.integers(-100, 10**6)


@given(any_rows, moments, moments)
def test_the_pieces_of_a_window_are_those_of_the_whole_that_lie_in_it(rows, one, other) -> None:
    low, high = sorted((one, other))
    for thread in _threads(measure_rows(rows), 2):
        cut = thread.pieces.within(low, high)
        found = list(zip(cut.start.tolist(), cut.end.tolist(), cut.node.tolist(), strict=True))
        assert set(found) <= set(pieces(thread))
        assert [p for p in found if p[0] < high and p[1] > low] == [
            p for p in pieces(thread) if p[0] < high and p[1] > low
        ]


@pytest.mark.parametrize("path", NSYS, ids=lambda path: path.name)
def test_of_a_recording(path) -> None:
    trace = load([path]).traces[0]
    check(measure(trace), measure(trace), 500)
