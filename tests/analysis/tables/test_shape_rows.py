"""Operators whose input shapes change from step to step."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from tests.analysis.build import TraceBuilder
from tests.recorded import ROOT
from traceanalyzer import load
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.trace import RangeKind


def steps(*lengths: int) -> Measurements:
    """Steps of one product with a weight, and of one operator that is the same in all."""
    b = TraceBuilder()
    for i, length in enumerate(lengths):
        at = 1000.0 * (i + 1)
        b.annotation(f"ProfilerStep#{i}", at, at + 1000)
        b.op("aten::mm", at + 1, at + 9, shapes=json.dumps([[length, 64], [64, 512]]))
        b.call("cudaLaunchKernel", at + 2, at + 3, 2 * i + 1)
        b.kernel("gemm", at + 10, at + 10 + length, 2 * i + 1, stream=7)
        b.op("aten::relu", at + 500, at + 509, shapes="[[8, 8]]").call(
            "cudaLaunchKernel", at + 502, at + 503, 2 * i + 2
        )
        b.kernel("relu", at + 510, at + 520, 2 * i + 2, stream=7)
    return measure(b.build())


def test_what_changes_is_told_with_its_shapes() -> None:
    (row,) = steps(100, 200, 100, 100).shape_rows
    assert (row.name, row.steps, row.different, row.changed) == ("aten::mm", 4, 2, 2)
    assert row.shapes == "[100, 64] in 3, [200, 64] in 1"
    assert (row.least_elements, row.median_elements, row.most_elements) == (6400, 6400, 12800)
    assert (row.shortest_ms, row.longest_ms) == (pytest.approx(0.1), pytest.approx(0.2))


def test_equal_steps_have_none() -> None:
    assert steps(100, 100, 100).shape_rows == []


def test_without_steps_there_is_nothing_to_compare() -> None:
    b = (
        TraceBuilder()
        .op("aten::mm", 0, 10, shapes="[[1, 2]]")
        .op("aten::mm", 20, 30, shapes="[[1, 3]]")
    )
    assert measure(b.build()).shape_rows == []


@pytest.mark.parametrize("name", ["changing_shapes", "wasteful_kernels"])
def test_a_recording_by_hand(name: str) -> None:
    m = measured(load(str(ROOT / "sample_traces" / name))).critical
    ranges = m.trace.host_ranges
    chosen = m.timed.steps
    shapes: dict[str, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for i in range(len(ranges)):
        if ranges.kind[i] != RangeKind.OP or ranges.shapes[i] < 0:
            continue
        for step in range(chosen.warmup, len(chosen)):
            if chosen.host_start[step] <= ranges.start[i] < chosen.host_end[step]:
                shapes[m.trace.strings[ranges.name[i]]][step][
                    m.trace.strings[ranges.shapes[i]]
                ] += 1
    expected: dict[str, Any] = {}
    for operator, by_step in shapes.items():
        kinds = [sorted(by_step[step].items()) for step in sorted(by_step)]
        if any(kind != kinds[0] for kind in kinds):
            expected[operator] = (len(kinds), sum(a != b for a, b in pairwise(kinds)))
    found = {row.name: (row.steps, row.changed) for row in m.shape_rows}
    working = {row.name for row in m.ops if row.device_self_ms > 0}
    assert found == {
        operator: counts for operator, counts in expected.items() if operator in working
    }
