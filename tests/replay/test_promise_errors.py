"""Ranges of promises by what promises of their kind were off."""

from __future__ import annotations

import math

import pytest

from traceanalyzer.replay.promise_errors import LEAST_ERROR, Errors, errors_of


def test_what_gains_more_is_known_less() -> None:
    errors = Errors(-1.0, 0.5)
    little = errors.around(10.0, 10.0)
    much = errors.around(1.0, 10.0)
    assert little == pytest.approx((10 * math.exp(-LEAST_ERROR), 10 * math.exp(LEAST_ERROR / 2)))
    assert much[1] == pytest.approx(math.exp((LEAST_ERROR + math.log(10)) / 2))
    assert much[1] / 1.0 > little[1] / 10.0


def test_a_combination_has_the_errors_of_its_last_remedy() -> None:
    assert errors_of("remove_syncs+cuda_graph") == errors_of("cuda_graph")
    assert errors_of("launches_free") is None
