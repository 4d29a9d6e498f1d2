"""Device ops by what stands in their names."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from traceanalyzer.analysis.groups.ops import with_text


def _of_texts(texts: list[str]) -> Any:
    """A recording that has nothing but texts."""
    return SimpleNamespace(trace=SimpleNamespace(strings=texts))


def test_a_pattern_is_found_in_names_that_differ_in_their_numbers() -> None:
    texts = [f"{kind}_{number}" for number in range(5000) for kind in ("gemm", "copy")]
    column = np.array([0, 9999, 1, -1, 8000, 0], np.int32)
    found = with_text(_of_texts(texts), column, re.compile("copy"))
    assert found.tolist() == [False, True, True, False, False, False]


def test_a_pattern_is_found_in_few_names() -> None:
    column = np.array([1, 0, -1, 1], np.int32)
    found = with_text(_of_texts(["gemm", "copy"]), column, re.compile("copy"))
    assert found.tolist() == [True, False, False, True]
