"""The table of how far promises were off, against the promises that it is made from."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from benchmarks.promise_errors import (
    Promise,
    ends,
    held_out,
    kinds,
    paces,
    promises,
    quantile,
    spreads,
)
from traceanalyzer.replay.promise_errors import Pace, errors_of


def test_the_table_has_the_quantiles_of_all_promises() -> None:
    found = promises()
    listed = [remedy for remedies in kinds().values() for remedy in remedies]
    assert len(listed) == len(set(listed))
    assert {one.remedy for one in found} <= set(listed)
    made = ends(found)
    for name, remedies in kinds().items():
        kept = errors_of(remedies[0])
        assert kept is not None
        assert kept.low == pytest.approx(made[name].low, abs=0.001)
        assert kept.high == pytest.approx(made[name].high, abs=0.001)
        assert kept.pace.device == pytest.approx(made[name].pace.device, abs=0.001)
        assert kept.pace.host == pytest.approx(made[name].pace.host, abs=0.001)


def test_most_ranges_hold_that_were_made_from_other_sets() -> None:
    ranges = held_out(promises())
    assert sum(one.holds for one in ranges) >= 0.89 * len(ranges)
    assert statistics.median(one.of_promise for one in ranges) < 0.92


def test_a_range_of_the_other_sets_does_not_know_its_own() -> None:
    calm = [Promise("calm", f"c{i}", "compile", 10.0, 5.0, 5.5) for i in range(40)]
    wild = [Promise("wild", "w", "compile", 10.0, 5.0, 2.0)]
    ranges = held_out([*calm, *wild])
    assert not ranges[-1].holds
    assert ranges[-1].of_promise == pytest.approx(0.1)
    assert ranges[-1].of_step == pytest.approx(0.05)


def test_a_range_of_few_errors_ends_with_the_largest() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert quantile([3.0, 1.0, 2.0], 0.05) == 1.0
    assert quantile(list(range(1, 20)), 0.95) == 19
    assert quantile(list(range(1, 40)), 0.95) == 38


def test_the_fewer_promises_a_kind_has_the_more_it_is_like_all() -> None:
    far = [Promise("a", "p", "compile", 10.0, 5.0, 5.0 * math.e)] * 5
    exact = [Promise("a", "p", "cuda_graph", 10.0, 5.0, 5.0)]
    few = spreads([*far, *exact])
    many = spreads([*far, *exact * 5])
    assert few["fused"] == pytest.approx(1.0)
    assert few["graph"] == pytest.approx(5 / 6)
    assert many["graph"] == pytest.approx(0.5)
    assert few["loader"] == pytest.approx(1.0)


def test_promises_of_one_pace_are_told_from_those_of_the_other() -> None:
    near = [Promise("a", "p", "compile", 10.0, 5.0, 5.0 * math.exp(0.1), 5.0)] * 90
    far = [Promise("a", "p", "compile", 10.0, 5.0, 5.0 * math.exp(0.3), 1.0)] * 90
    pace = paces([*near, *far])
    assert pace.device == pytest.approx(0.9 / 3 + 0.1)
    assert pace.host == pytest.approx(1.0)
    assert paces([replace(one, compute=None) for one in near]) == Pace()


def test_one_promise_far_off_does_not_set_the_range_of_its_kind() -> None:
    near = [Promise("a", "p", "compile", 10.0, 5.0, 5.0 * math.exp(0.1))] * 30
    own = [Promise("a", "p", "cuda_graph", 10.0, 5.0, 5.0 * math.exp(0.1))] * 15
    far = Promise("a", "p", "cuda_graph", 10.0, 5.0, 0.5)
    assert ends([*near, *own, far])["graph"].low > math.log(0.5)
