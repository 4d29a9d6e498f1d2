"""Values of rows that may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import I32, I64


def at(values: NDArray[Any], rows: I32 | I64, otherwise: float) -> NDArray[Any]:
    """The values of these rows, `otherwise` for row -1; without the copy of all values that appending it would be."""
    if not len(values):
        return np.full(len(rows), otherwise, values.dtype)
    result = values[rows]
    result[rows < 0] = otherwise
    return result
