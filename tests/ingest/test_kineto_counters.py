"""Counters in Kineto traces: the GPU's are samples, those of the viewer are left out, damaged ones harm nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.analysis.groups.counters import MIN_SAMPLES, busy_counters
from traceanalyzer.analysis.measure import Measurements
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from pathlib import Path


def sample(ts: float, value: Any, name: str = "dram__throughput.pct", **changes: Any) -> dict[str, Any]:
    row = {"ph": "C", "cat": "hardware_counters", "name": name, "pid": "GPU 0 Counters", "ts": ts, "args": {"": value}}
    return row | changes


def test_samples_of_the_gpus_counters_are_read(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.launched("k", 0, 10, 1000)
    for i in range(MIN_SAMPLES):
        trace.add(sample(20 + i, 81.6))
    trace.add(sample(5000, 3.0))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": trace.rows}))
    (read,) = load([path]).traces
    assert read.gpu_metrics.value.tolist() == [82] * MIN_SAMPLES + [3]
    assert set(read.gpu_metrics.device.tolist()) == {0}
    assert busy_counters(Measurements(read)) == [("dram__throughput.pct", 82.0, MIN_SAMPLES)]


@pytest.mark.parametrize(
    "row",
    [
        sample(1, 5, cat="cpu_op"),
        {"ph": "C", "name": "memory", "pid": 1, "ts": 1, "args": {"a": 1, "b": 2}},
        sample(1, "much"),
        sample(1, 5, args=None),
        sample(1, 1e300),
        sample("never", 5),
    ],
)
def test_other_counters_are_left_out(row: dict[str, Any], tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.launched("k", 0, 10, 1000)
    trace.add(row)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": trace.rows}))
    (read,) = load([path]).traces
    assert len(read.gpu_metrics) == 0
    assert len(read.device_ops) == 1
