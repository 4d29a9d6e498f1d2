"""A recording on a CPU whose steps took far longer than those timed before it."""

from types import SimpleNamespace

import pytest

from traceanalyzer.report.build import _disturbed
from traceanalyzer.trace import Stopwatch


def measurements(recorded_ms, timed_ms, device=None):
    stopwatch = Stopwatch(int(timed_ms * 1e6), None, None, False, False, None)
    return SimpleNamespace(
        trace=SimpleNamespace(stopwatch=stopwatch),
        timed=SimpleNamespace(device=device, steps=SimpleNamespace(found=True)),
        mean_step_ms=recorded_ms,
    )


def test_how_many_times_as_long_is_said():
    (note,) = _disturbed(measurements(204.0, 12.75))
    assert note.startswith("The recorded steps took 16 times as long")


@pytest.mark.parametrize("found", [measurements(20.0, 12.75), measurements(204.0, 12.75, device=0)])
def test_a_profilers_usual_cost_and_recordings_of_a_gpu_are_not_noted(found):
    assert list(_disturbed(found)) == []
