"""When the profiler itself is a finding."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import Condition


def stepped(**fields: object) -> Measurements:
    """Four steps of a millisecond, each a kernel after a launch."""
    b = TraceBuilder()
    for i in range(4):
        at = 1000.0 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 1000)
        b.call("cudaLaunchKernel", at + 10, at + 14, i + 1).kernel("k", at + 20, at + 900, i + 1)
    return measure(b.build(**fields))


@pytest.mark.parametrize(
    ("plain_us", "told"), [(900, False), (840, False), (830, True), (500, True)]
)
def test_a_step_that_the_profiler_makes_a_fifth_longer_is_a_finding(
    plain_us: int, told: bool
) -> None:
    m = stepped(unprofiled_step_ns=plain_us * 1000)
    findings = {finding.id: finding for finding in diagnose(m).findings}
    assert ("profiler-cost" in findings) is told
    if told:
        cost = next(
            e.value for e in findings["profiler-cost"].evidence if e.metric == "profiler's cost"
        )
        assert cost == pytest.approx(m.mean_step_ms * 1000 / plain_us - 1)


def test_a_condition_that_spoils_the_figures_is_a_finding_and_one_that_does_not_is_none() -> None:
    conditions = (
        Condition("CUDA_LAUNCH_BLOCKING", "1", "nothing overlaps"),
        Condition("PyTorch", "2.11.0"),
    )
    found = [
        f.id
        for f in diagnose(stepped(conditions=conditions)).findings
        if f.id.startswith("condition-")
    ]
    assert found == ["condition-cuda-launch-blocking"]
