"""The order of integers of few values, without comparing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import I64

_DIGIT_BITS = 16
"""numpy sorts numbers of so many bits by their digits, in a tenth of the time of comparing them."""


def stable_order(values: NDArray[Any]) -> I64:
    """`np.argsort(values, kind="stable")` of an integer column, quicker where its values lie in a narrow range."""
    if len(values) < 2:
        return np.arange(len(values))
    low, high = int(values.min()), int(values.max())
    if high - low >= 1 << _DIGIT_BITS:
        return np.argsort(values, kind="stable")
    return np.argsort(np.subtract(values, low, dtype=np.int64).astype(np.uint16), kind="stable")
