"""Threads make what one makes, in order, and what fails in one of them is raised."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from traceanalyzer.base.limits import limits, raised
from traceanalyzer.base.parallel import (
    AHEAD,
    LEAST_THREADED_ROWS,
    MOST_THREADS,
    both_threaded,
    parallel_map,
    pipelined,
)
from traceanalyzer.base.reading import read_with


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    yield
    read_with(jobs=1)


@pytest.mark.parametrize(
    ("jobs", "rows", "several"),
    [(1, LEAST_THREADED_ROWS, False), (8, LEAST_THREADED_ROWS - 1, False), (8, 10**9, True)],
)
def test_what_is_made_comes_in_order(jobs: int, rows: int, several: bool) -> None:
    met = threading.Barrier(MOST_THREADS, timeout=30)
    used = set()

    def made(number: int) -> int:
        if several and number < MOST_THREADS:
            met.wait()
        used.add(threading.get_ident())
        return number * number

    read_with(jobs=jobs)
    assert parallel_map(made, range(20), rows) == [number * number for number in range(20)]
    assert len(used) == (MOST_THREADS if several else 1)
    assert parallel_map(made, [], rows) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failure_is_raised(jobs: int) -> None:
    read_with(jobs=jobs)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        parallel_map(lambda number: 1 // number, [2, 1, 0, 3], LEAST_THREADED_ROWS)
    assert threading.active_count() == before


def test_limits_hold_in_threads_too() -> None:
    read_with(jobs=2)
    met = threading.Barrier(2, timeout=30)

    def limit() -> int:
        met.wait()
        return limits().text

    with raised(text=77):
        assert both_threaded(limit, limit, LEAST_THREADED_ROWS) == (77, 77)


@pytest.mark.parametrize("jobs", [1, 2])
def test_work_beside_comes_in_order_and_not_far_behind(jobs: int) -> None:
    begun = []
    used = set()

    def items() -> Iterator[int]:
        for number in range(40):
            begun.append(number)
            yield number

    def made(number: int) -> int:
        used.add(threading.get_ident())
        return number * number

    read_with(jobs=jobs)
    for number, found in enumerate(pipelined(made, items())):
        assert found == number * number
        assert len(begun) <= number + 1 + AHEAD
    assert len(begun) == 40
    assert (threading.get_ident() in used) == (jobs == 1)
    assert list(pipelined(made, [])) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_fails_beside_is_raised_where_it_would_come(jobs: int) -> None:
    before = threading.active_count()

    def made(number: int) -> float:
        return 1 / number

    def items() -> Iterator[int]:
        yield from (2, 1)
        raise OSError("the disk")

    read_with(jobs=jobs)
    found = pipelined(made, [2, 1, 0, 4])
    assert [next(found), next(found)] == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(found)
    with pytest.raises(OSError, match="the disk"):
        list(pipelined(made, items()))
    given_up = pipelined(made, [1] * 40)
    next(given_up)
    given_up.close()
    assert threading.active_count() == before
