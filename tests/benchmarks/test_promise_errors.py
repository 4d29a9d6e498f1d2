"""The table of how far promises were off, against the promises that it is made from."""

from __future__ import annotations

import pytest

from benchmarks.promise_errors import Promise, ends, held_out, kinds, promises, quantile
from traceanalyzer.replay.promise_errors import errors_of


def test_the_table_has_the_quantiles_of_all_promises() -> None:
    found = promises()
    listed = [remedy for remedies in kinds().values() for remedy in remedies]
    assert len(listed) == len(set(listed))
    assert {one.remedy for one in found} <= set(listed)
    for remedies in kinds().values():
        made = ends(found, remedies)
        kept = errors_of(remedies[0])
        assert kept is not None
        assert kept.low == pytest.approx(made.low, abs=0.001)
        assert kept.high == pytest.approx(made.high, abs=0.001)


def test_six_in_seven_ranges_hold_that_were_made_from_other_sets() -> None:
    found = promises()
    every = next(line for line in held_out(found) if line.startswith("all"))
    held = int(every.split()[1])
    assert held >= 0.86 * len(found)


def test_a_range_of_few_errors_ends_with_the_largest() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert quantile([3.0, 1.0, 2.0], 0.05) == 1.0
    assert quantile(list(range(1, 20)), 0.95) == 19
    assert quantile(list(range(1, 40)), 0.95) == 38


def test_a_kind_of_few_promises_has_a_wider_range() -> None:
    wild = [Promise("a", "p", "compile", 10.0, 5.0, timed) for timed in (2.0, 4.0, 9.0)]
    exact = [Promise("a", "p", "cuda_graph", 10.0, 5.0, 5.0)]
    few = ends([*wild, *exact], ["cuda_graph"])
    many = ends([*wild, *exact * 30], ["cuda_graph"])
    assert few.low < many.low <= 0.0 <= many.high < few.high
