"""Rows put together by wide keys, where each group becomes one row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import I64


def rows_by_key(*keys: NDArray[np.integer | np.bool_]) -> list[I64]:
    """Rows that are equal in all of the keys, a group each, in order; groups in ascending order of their keys.

    Unlike those of `grouping.Groups` the keys may be of any size together (bytes, codes of several texts).
    """
    if not len(keys[0]):
        return []
    table = np.stack([np.asarray(key, np.int64) for key in keys])
    _, group = np.unique(table, axis=1, return_inverse=True)
    group = group.reshape(-1)
    return np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
