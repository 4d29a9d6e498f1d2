"""What one rank of many can tell of its communication: how little of it the links need."""

from __future__ import annotations

import pytest

from tests.analysis.collectives import GEMM, Ranked
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.rules.communication import exposed_communication
from traceanalyzer.trace import Device

H200_LINK = 450e9
"""Bytes a second in each direction."""


@pytest.mark.parametrize(("reduction_us", "told"), [(5000, True), (12, False)])
def test_what_the_links_need_is_told_where_it_is_little(reduction_us: float, told: bool) -> None:
    ranked = Ranked()
    for step in range(3):
        at = 10_000 * step
        ranked.annotation(f"ProfilerStep#{step}", at, at + 9_900)
        ranked.launched(GEMM, at + 20, at + 500, at + 5)
        ranked.collective(at + 600, at + 600 + reduction_us, at + 10, elements=1_000_000)
    m = measure(ranked.trace(world=2, devices=(Device(0, "NVIDIA H200"),)))
    (draft,) = exposed_communication(m, m.linked.is_kernel)
    links = [e.value for e in draft.evidence if e.metric == "time at the rate of the links"]
    assert links == ([pytest.approx(4e6 / H200_LINK * 1e3, rel=0.01)] if told else [])
