"""What is worked out some rows at a time is the same whatever their number."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given

from tests.analysis.test_any_trace import any_rows, measure
from tests.recorded import ROOT
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
    with patch.object(gaps, "AT_ONCE", rows), patch.object(critical_path, "AT_ONCE", rows):
        same(whole.gaps, parts.gaps)
        same(whole.critical_path, parts.critical_path)
        assert (whole.path_time, whole.path) == (parts.path_time, parts.path)


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


@pytest.mark.parametrize("path", NSYS, ids=lambda path: path.name)
def test_of_a_recording(path) -> None:
    trace = load([path]).traces[0]
    check(Measurements(trace), Measurements(trace), 500)
