"""Counters in Kineto traces: the GPU's are samples, those of the viewer are left out, damaged ones
harm nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import traceanalyzer as ta
from tests.kineto_builder import KinetoTrace
from traceanalyzer.analysis.groups.bounds import busy_counters
from traceanalyzer.analysis.roofline.bounds import MIN_SAMPLES
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from pathlib import Path


def sample(
    ts: float, value: Any, name: str = "dram__throughput.pct", **changes: Any
) -> dict[str, Any]:
    row = {
        "ph": "C",
        "cat": "hardware_counters",
        "name": name,
        "pid": "GPU 0 Counters",
        "ts": ts,
        "args": {"": value},
    }
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
    assert busy_counters(measure(read).timed) == [("dram__throughput.pct", 82.0, MIN_SAMPLES)]


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


@pytest.mark.parametrize(
    ("dram", "tensor", "cls"),
    [(85.0, 20.0, "memory"), (30.0, 75.0, "compute"), (40.0, 45.0, "inconclusive")],
)
def test_counters_say_what_limits_kernels_that_nobody_knows(
    dram: float, tensor: float, cls: str, tmp_path: Path
) -> None:
    trace = KinetoTrace()
    for step in range(3):
        at = 12_000 * step
        trace.annotation(f"ProfilerStep#{step}", at, at + 11_900)
        for i in range(10):
            trace.launched(
                f"solver_stage_{i % 2}",
                at + 20 * i + 1,
                at + 1000 * i + 300,
                900,
                graph=1 + 10 * step + i,
            )
    for at in range(0, 36_000, 100):
        trace.add(sample(at, dram))
        trace.add(
            sample(at, tensor, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")
        )
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": trace.rows}))
    summary = ta.analyze(path).summary
    assert summary.bottleneck == cls
