"""Which strings a test picks out: tables hold codes of strings, so a test runs once for each string."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from traceanalyzer.trace import Bool


def texts_where(strings: list[str], test: Callable[[str], object]) -> Bool:
    """For each string whether the test holds; one entry more, False, for the code -1."""
    return np.fromiter((*(bool(test(text)) for text in strings), False), bool, len(strings) + 1)
