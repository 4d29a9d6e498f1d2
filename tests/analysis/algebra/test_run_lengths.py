from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import tried
from traceanalyzer.analysis.algebra import columns as module
from traceanalyzer.analysis.algebra.columns import RunLengths, run_lengths


@pytest.fixture(scope="module", autouse=True)
def also_short_ones():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEWEST_ROWS", 1)
        patch.setattr(module, "SELDOM", 1)
        yield


@tried(5)
@given(st.data(), st.booleans())
def test_it_is_looked_up_like_the_array(data, counts) -> None:
    runs = data.draw(
        st.lists(st.tuples(st.integers(-1, 50), st.integers(1, 5)), min_size=1, max_size=8)
    )
    values = np.concatenate([start + np.arange(n) * counts for start, n in runs]).astype(np.int32)
    column = run_lengths(values, counts=counts)
    assert isinstance(column, RunLengths)
    assert len(column) == len(values)
    assert column.dtype == values.dtype
    rows = np.array(
        data.draw(st.lists(st.integers(-len(values), len(values) - 1), max_size=20)), np.int64
    )
    assert column[rows].tolist() == values[rows].tolist()
    assert [int(column[row]) for row in rows.tolist()] == values[rows].tolist()
    mask = np.isin(np.arange(len(values)), rows)
    assert column[mask].tolist() == values[mask].tolist()
    low = data.draw(st.integers(-9, 9))
    high = data.draw(st.integers(-9, 9))
    assert column[low:high].tolist() == values[low:high].tolist()
    assert np.asarray(column).tolist() == values.tolist()


def test_what_often_changes_is_kept_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SELDOM", 4)
    often = np.arange(40, dtype=np.int32) % 2
    seldom = np.arange(40, dtype=np.int32) // 20
    assert run_lengths(often) is often
    column = run_lengths(seldom)
    assert isinstance(column, RunLengths)
    assert column.first.tolist() == [0, 20]
