"""Ranges of promises by what promises of their kind were off."""

from __future__ import annotations

import math

import pytest

from traceanalyzer.replay.promise_errors import LEAST_OF_PROMISE, Errors, Pace, errors_of


def test_a_range_is_as_wide_as_promises_of_its_kind_were_off() -> None:
    low, high = Errors(-0.5, 0.25).around(10.0, 20.0)
    assert low == pytest.approx(10.0 * math.exp(-0.5))
    assert high == pytest.approx(10.0 * math.exp(0.25))


def test_the_more_a_promise_gains_the_wider_its_range() -> None:
    errors = Errors(-0.5, 0.25)
    small, half, large = (errors.around(10.0, step)[1] for step in (10.5, 20.0, 100.0))
    assert small < half < large
    assert errors.around(10.0, 9.0) == errors.around(10.0, 10.0)


def test_a_step_that_the_gpu_paces_has_a_narrower_range_than_one_of_the_host() -> None:
    errors = Errors(-0.5, 0.25, Pace(device=0.5, host=2.0))
    by_device, unknown, by_host = (errors.around(10.0, 20.0, c)[1] for c in (9.0, None, 5.0))
    assert by_device == pytest.approx(10.0 * math.exp(0.125))
    assert unknown == pytest.approx(10.0 * math.exp(0.25))
    assert by_host == pytest.approx(10.0 * math.exp(0.5))


def test_no_range_goes_below_a_tenth_of_the_promise() -> None:
    assert Errors(-3.0, 1.0).around(10.0, 20.0)[0] == pytest.approx(10.0 * LEAST_OF_PROMISE)


def test_a_combination_has_the_errors_of_its_last_remedy() -> None:
    assert errors_of("remove_syncs+cuda_graph") == errors_of("cuda_graph")
    assert errors_of("launches_free") is None
