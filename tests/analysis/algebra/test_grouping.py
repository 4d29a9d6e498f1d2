from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra.grouping import Groups

rows = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 2), st.integers(-1, 50)), max_size=40)


@given(rows)
def test_figures_of_each_group(table: list[tuple[int, int, int]]) -> None:
    a, b, value = np.array(table, np.int64).reshape(-1, 3).T
    groups = Groups.of(a, b)
    keys = sorted({(r[0], r[1]) for r in table})
    assert len(groups) == len(keys)
    assert [(int(a[f]), int(b[f])) for f in groups.first] == keys
    low, middle, high = groups.quantiles(value, 0, 0.5, 0.95)
    common = groups.most_common(value)
    total = groups.sum(value)
    for g, key in enumerate(keys):
        members = [v for x, y, v in table if (x, y) == key]
        assert groups.count[g] == len(members)
        assert total[g] == sum(members)
        assert low[g] == min(members)
        assert middle[g] == pytest.approx(np.percentile(members, 50))
        assert high[g] == pytest.approx(np.percentile(members, 95))
        counts = Counter(v for v in members if v >= 0)
        best = max(counts.values(), default=0)
        assert common[g] == min((v for v, n in counts.items() if n == best), default=-1)


wide = st.lists(st.tuples(*[st.integers(-1, 2**62)] * 3), max_size=12)


@given(wide)
def test_keys_may_be_of_any_size_together(table: list[tuple[int, int, int]]) -> None:
    table = table + table[:3]
    groups = Groups.of(*np.array(table, np.int64).reshape(-1, 3).T)
    found = [{table[row] for row in rows} for rows in groups.rows]
    assert found == [{key} for key in sorted(set(table))]
    assert sorted(int(row) for rows in groups.rows for row in rows) == list(range(len(table)))
    assert all((np.diff(rows) > 0).all() for rows in groups.rows)
