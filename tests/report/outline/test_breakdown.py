"""Parts of the step's wall-clock time."""

from dataclasses import replace

import pytest

from tests.report.reports import full
from traceanalyzer.report.outline import breakdown


def parts_of(within_ms: float) -> dict[str, float]:
    report = full()
    report = replace(report, metrics=replace(report.metrics, copied_within_gpu_ms=within_ms))
    return {part.name: part.ms for part in breakdown.finest(breakdown.budget(report))}


def test_exposed_copies_within_the_gpu_are_a_row_of_their_own():
    whole = parts_of(0.0)["exposed copy"]
    parts = parts_of(0.9 * whole)
    assert parts["copy: within the GPU"] == pytest.approx(0.9 * whole)
    assert parts["copy: other copies"] == pytest.approx(0.1 * whole)
    assert "exposed copy" not in parts
    assert sum(parts.values()) == pytest.approx(sum(parts_of(0.0).values()))
