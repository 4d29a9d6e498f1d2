"""The report's device figures and budgets against `brute_force`, on every real recording at
hand."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests import brute_force
from tests.analyzed import loaded, reported
from tests.recorded import EVERY, label
from traceanalyzer.report.tables import table

TOLERANCE_NS = 1
"""The bar is a microsecond; times are integers of nanoseconds on both sides, so only the last bit
may differ."""
CAUSES = ("launch", "sync", "input", "host", "communication", "profiler", "other")

every_recording = pytest.mark.parametrize("path", EVERY, ids=label, scope="module")
"""Of the module: all tests of one recording follow one another, so that each is read one time."""


@lru_cache(maxsize=2)
def raw(path: Path) -> dict[brute_force.Lane, list[brute_force.Op]]:
    return brute_force.read(path)


@every_recording
def test_devices_are_those_of_the_raw_file(path):
    lanes = raw(path)
    devices = reported(path).devices
    assert sorted(lane.device for lane in lanes) == sorted(d.device for d in devices)
    # The rank of a process of an nsys export is not in its device rows, so there two lanes may be
    # told apart by nothing but their figures: any order will do.
    left = list(devices)
    for lane, ops in lanes.items():
        expected = brute_force.figures(ops)
        candidates = [d for d in left if d.device == lane.device and lane.rank in (None, d.rank)]
        assert candidates, f"{lane} is not reported"
        wrong = {id(d): brute_force.same_as(d, expected, TOLERANCE_NS) for d in candidates}
        best = min(candidates, key=lambda d: len(wrong[id(d)]))
        assert not wrong[id(best)], f"{lane}: {'; '.join(wrong[id(best)])}"
        left.remove(best)


@every_recording
def test_gaps_are_those_of_the_raw_file(path):
    expected = sorted(
        (lane.device, *gap) for lane, ops in raw(path).items() for gap in brute_force.gaps_of(ops)
    )
    gaps = table(loaded(path), "gaps")
    assert sorted((gap.device, gap.start_ns, gap.duration_ns) for gap in gaps) == expected
    assert [gap.start_ns for gap in gaps] == sorted(gap.start_ns for gap in gaps)
    assert {gap.cause for gap in gaps} <= set(CAUSES)


@every_recording
def test_budget_is_a_partition_of_the_step(path):
    metrics = reported(path).metrics
    budget = metrics.budget_ms
    idle = metrics.idle_ms
    parts = [budget.compute, budget.exposed_communication, budget.exposed_copy, budget.idle]
    assert min(parts) >= 0
    if metrics.step_time_ms is not None:
        assert sum(parts) == pytest.approx(metrics.step_time_ms.mean, rel=1e-3)
        assert metrics.gpu_idle_share == pytest.approx(
            budget.idle / metrics.step_time_ms.mean, abs=1e-3
        )
    assert metrics.gpu_busy_share + metrics.gpu_idle_share == pytest.approx(1)
    causes = [getattr(idle, cause) for cause in CAUSES]
    assert min(causes) >= 0
    assert sum(causes) == pytest.approx(budget.idle, rel=1e-3, abs=1e-6)


@every_recording
def test_steps_hold_what_the_raw_file_holds_in_their_windows(path):
    report = reported(path)
    lanes = raw(path)
    if len(lanes) > 1:
        pytest.skip("the rows of steps do not say which of several devices they are of")
    (ops,) = lanes.values()
    steady = []
    for row in report.tables["steps"]:
        inside = [op for op in ops if op.end >= row.start_ns and op.start <= row.end_ns]
        lasted, _ = brute_force.sweep(inside, (row.start_ns, row.end_ns))
        assert row.duration_ms * 1e6 == pytest.approx(row.end_ns - row.start_ns, abs=TOLERANCE_NS)
        for part in ("compute", "exposed_communication", "exposed_copy", "idle"):
            shown = getattr(row, f"{part}_ms") * 1e6
            assert shown == pytest.approx(lasted[part], abs=TOLERANCE_NS), (row.name, part)
        if not row.warmup:
            steady.append(lasted)
    for part in ("compute", "exposed_communication", "exposed_copy", "idle") if steady else ():
        mean = sum(lasted[part] for lasted in steady) / len(steady)
        assert getattr(report.metrics.budget_ms, part) * 1e6 == pytest.approx(
            mean, abs=TOLERANCE_NS
        ), part


@every_recording
def test_step_windows_follow_one_another(path):
    rows = reported(path).tables["steps"]
    for before, after in pairwise(rows):
        assert before.end_ns == after.start_ns
    steady = [row.duration_ms for row in rows if not row.warmup]
    if steady:
        step = reported(path).metrics.step_time_ms
        assert (step.count, step.min, step.max) == (len(steady), min(steady), max(steady))
        assert step.mean == pytest.approx(sum(steady) / len(steady))
