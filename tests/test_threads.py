"""Threads make what one makes, in order, and what fails in one of them is raised."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from traceanalyzer.limits import limits, raised
from traceanalyzer.reading import read_with
from traceanalyzer.threads import LEAST_ROWS, MOST, at_once, both


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    yield
    read_with(jobs=1)


@pytest.mark.parametrize(
    ("jobs", "rows", "several"), [(1, LEAST_ROWS, False), (8, LEAST_ROWS - 1, False), (8, 10**9, True)]
)
def test_what_is_made_comes_in_order(jobs: int, rows: int, several: bool) -> None:
    met = threading.Barrier(MOST, timeout=30)
    used = set()

    def made(number: int) -> int:
        if several and number < MOST:
            met.wait()
        used.add(threading.get_ident())
        return number * number

    read_with(jobs=jobs)
    assert at_once(made, range(20), rows) == [number * number for number in range(20)]
    assert len(used) == (MOST if several else 1)
    assert at_once(made, [], rows) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failure_is_raised(jobs: int) -> None:
    read_with(jobs=jobs)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        at_once(lambda number: 1 // number, [2, 1, 0, 3], LEAST_ROWS)
    assert threading.active_count() == before


def test_limits_hold_in_threads_too() -> None:
    read_with(jobs=2)
    met = threading.Barrier(2, timeout=30)

    def limit() -> int:
        met.wait()
        return limits().text

    with raised(text=77):
        assert both(limit, limit, LEAST_ROWS) == (77, 77)
