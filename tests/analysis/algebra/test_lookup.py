from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra.lookup import look_up

numbers = st.lists(st.integers(-3, 9), max_size=8)


@given(numbers, numbers)
def test_each_value_is_found_where_it_stands_first(keys: list[int], wanted: list[int]) -> None:
    keys.sort()
    expected = [keys.index(value) if value in keys else -1 for value in wanted]
    assert look_up(np.array(keys, np.int64), np.array(wanted, np.int64)).tolist() == expected
