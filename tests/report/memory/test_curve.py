"""The curve of the memory page: areas that stack to what is allocated, and the peak in both
views."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.recorded import ROOT
from traceanalyzer.analysis.memory.course import Consumer, StepMemory
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.html.charts import View
from traceanalyzer.report.html.frame import heading
from traceanalyzer.report.html.pictures.plot import Dots, Lines
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.curves import curves
from traceanalyzer.report.memory.document import memory_document

SNAPSHOTS = sorted((ROOT / "tests" / "data" / "memory").glob("*.snapshot.pickle.gz"))


@pytest.fixture(scope="module", params=SNAPSHOTS[:2], ids=lambda path: path.name)
def report(request):
    return memory_report(read_snapshot(request.param))


def test_areas_stack_to_what_is_allocated(report):
    for device in report.memory:
        allocated = {at: used / 2**30 for at, used, _ in device.curve}
        for chart in curves(device):
            areas = [mark for mark in chart.plot.marks if isinstance(mark, Lines) and mark.base]
            (peak,) = [mark for mark in chart.plot.marks if isinstance(mark, Dots)]
            assert areas[-1].y == pytest.approx([allocated[at] for at in areas[-1].x])
            assert all(below.y == above.base for below, above in pairwise(areas))
            assert peak.dots[0].y == pytest.approx(max(allocated.values()))
            assert areas[-1].x[0] <= peak.dots[0].x <= areas[-1].x[-1]


def test_views_lie_within_the_curve_and_begin_with_the_steps(report):
    for device in report.memory:
        first_s = device.curve[0][0]
        last_s = device.curve[-1][0]
        for chart in curves(device):
            names = [view.name for view in chart.views]
            assert names[-1] == "all"
            assert ("the steps" in names) == (len(device.steps) > 1)
            assert all(first_s <= view.low < view.high <= last_s for view in chart.views)
        assert all(a.end_s <= b.start_s for a, b in pairwise(device.steps))
        assert all(step.start_s <= step.end_s for step in device.steps)


def test_a_first_step_that_loads_and_compiles_is_not_among_those_shown(report):
    (device, *_) = report.memory
    lasting = [(0.0, 5.0), (5.0, 5.1), (5.1, 5.2), (5.2, 5.3)]
    steps = [
        StepMemory(number, start_s, end_s, 0, 0, 0, {})
        for number, (start_s, end_s) in enumerate(lasting)
    ]
    few = replace(
        device,
        curve=((0.0, 1, 1), (5.3, 2, 2)),
        consumers=(Consumer("parameters", "category", (1, 2)),),
        steps=tuple(steps),
    )
    (chart,) = curves(few)
    assert chart.views[0] == View("the steps", 5.0, 5.3)


def test_the_page_needs_no_more_than_it_shows(report):
    text = memory_document(report).html()
    assert len(text) < 600_000
    assert "data-def=" in text
    assert text.count("<h1>") == 1
    assert heading(report.headline) in text
