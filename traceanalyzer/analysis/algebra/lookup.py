"""Where values stand among sorted keys, without a loop over values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from traceanalyzer.trace import I32, I64


def look_up(keys: I32 | I64, wanted: I32 | I64) -> I64:
    """For each wanted value its place among the keys (ascending; the first of equal ones), -1 where it is not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    result: I64 = np.where(keys[place] == wanted, place, -1)
    return result
