"""The curve over time and what it is made of: it sums at every point, and keeps the peak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.memory.course import (
    CURVE_POINTS,
    TOP_LINES,
    MemoryLevel,
    edges_of,
    moments_of,
)
from traceanalyzer.analysis.memory.measure import measured_memory
from traceanalyzer.ingest.memory import read_snapshot

DATA = Path(__file__).parents[2] / "data" / "memory"


@pytest.mark.parametrize("name", ["base", "ring", "expandable", "kv_cat.base", "oom_leak"])
@pytest.mark.parametrize("kind", ["category", "line"])
def test_what_the_curve_is_made_of_sums_to_it(name: str, kind: str) -> None:
    device = measured_memory(read_snapshot(DATA / f"{name}.snapshot.pickle.gz"))[0]
    rows = [one for one in device.consumers if one.kind == kind]
    assert np.sum([one.bytes for one in rows], axis=0).tolist() == [
        allocated for _, allocated, _ in device.curve
    ]
    assert max(allocated for _, allocated, _ in device.curve) == device.peak_bytes
    assert len(rows) <= TOP_LINES + 1


def test_at_the_peak_the_categories_are_those_of_the_ledger() -> None:
    device = measured_memory(read_snapshot(DATA / "base.snapshot.pickle.gz"))[0]
    peak = [allocated for _, allocated, _ in device.curve].index(device.peak_bytes)
    found = {one.name: one.bytes[peak] for one in device.consumers if one.kind == "category"}
    assert found == {name: size for name, size in device.at_peak.items() if name in found}
    assert sum(found.values()) == device.peak_bytes


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=4 * CURVE_POINTS))
def test_thinning_keeps_order_and_the_highest(level: list[int]) -> None:
    n = len(level) - 1
    moments = moments_of(MemoryLevel(np.arange(n + 1), np.array(level)), edges_of(n))
    assert len(moments) == min(len(level) - 1, CURVE_POINTS)
    assert (np.diff(moments) > 0).all()
    if len(level) > 1:
        assert max(level[i] for i in moments.tolist()) == max(level[1:])
