"""Recordings without steps, compared by as much work."""

from dataclasses import replace

import pytest

from tests.comparison.build import idle, part, report
from traceanalyzer.analysis.time.repeats import Repeats
from traceanalyzer.comparison.compare import compare_reports


def window(repeats, *parts):
    """A recording without steps that holds the parts of `repeats` repeats, 300 ms long."""
    single = [
        replace(
            p,
            batch_ms=[],
            calls=p.calls * repeats,
            ms=300 / repeats / sum(q.ms for q in parts) * p.ms * repeats,
        )
        for p in parts
    ]
    return report(
        *single, step_time_ms=None, step_source="none", launches_per_step=float(10 * repeats)
    )


def repeating(repeats, *parts, name="block"):
    made = window(repeats, *parts)
    return replace(
        made, metrics=replace(made.metrics, repeats=Repeats(repeats, 300 / repeats, 157, 1.0, name))
    )


BEFORE = repeating(16, part("mm", "flash", 10), idle("sync", 1, "item", "cudaStreamSynchronize"))
AFTER = repeating(14, part("mm", "flash", 10), idle("sync", 3, "item", "cudaStreamSynchronize"))


def test_windows_of_one_length_are_compared_by_what_repeats_in_both():
    found = compare_reports(BEFORE, AFTER)
    assert (found.verdict, found.per) == ("likely_slower", "per repeat")
    assert (found.a.step_ms, found.b.step_ms) == pytest.approx((300 / 16, 300 / 14))
    assert sum(c.difference_ms for c in found.changes) == pytest.approx(300 / 14 - 300 / 16)
    assert "per step" not in found.headline
    assert "ms per repeat (+14.3%)" in found.headline


def test_other_repeats_leave_the_counts_of_kernels():
    other = replace(
        AFTER, metrics=replace(AFTER.metrics, repeats=replace(AFTER.metrics.repeats, name="other"))
    )
    found = compare_reports(BEFORE, other)
    assert (found.verdict, found.per) == ("likely_slower", "for as much work")
    assert found.b.step_ms == pytest.approx(300 * 16 / 14)


def test_recordings_of_other_work_are_compared_as_they_are():
    found = compare_reports(window(1, part("mm", "a", 1)), window(1, part("mm", "b", 1)))
    assert found.per == "for the recording"
    assert "per step" not in found.headline


def test_another_launch_shape_is_other_work():
    from tests.report.reports import full

    (row, *_) = full().tables["kernels"]
    sides = []
    for ms, shape in ((10.0, "3,969 blocks of 64 threads"), (9.0, "1,008 blocks of 256 threads")):
        made = report(part(None, "tile", ms))
        sides.append(
            replace(
                made,
                tables=made.tables | {"kernels": [replace(row, name="tile", launch_shape=shape)]},
            )
        )
    found = compare_reports(*sides)
    assert found.verdict == "faster"
    assert "same GPU work" not in found.headline
    assert (
        "tile (3,969 blocks of 64 threads) → tile (1,008 blocks of 256 threads)" in found.headline
    )
    assert (
        compare_reports(sides[0], replace(sides[1], tables=sides[0].tables)).verdict == "no_change"
    )
