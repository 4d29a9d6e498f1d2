"""Trees of Triton's Proton: sums of kernels, rates where the program states its work, and nothing
of idle time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.ingest.rocm.test_amd import FORMATS
from traceanalyzer.analysis.tables.profiled import ProfiledRow
from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report

TREE = FORMATS / "cuda.hatchet"
H100 = {
    "arch": "90",
    "bus_width": 5120,
    "clock_rate": 1980000,
    "memory_clock_rate": 2619000,
    "num_sms": 132,
}


def node(name: str, *children: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    return {
        "frame": {"name": name, "type": "function"},
        "metrics": metrics,
        "children": list(children),
    }


def kernel(name: str, time_ns: int, count: int = 1, **metrics: Any) -> dict[str, Any]:
    return node(name, **{"time (ns)": time_ns, "count": count, "device_id": "0", **metrics})


def write(path: Path, *children: dict[str, Any]) -> Path:
    tree = node("ROOT", *children, **{"time (ns)": 0, "count": 0})
    path.write_text(json.dumps([tree, {"CUDA": {"0": H100}}]))
    return path


def rows(path: Path) -> list[ProfiledRow]:
    return build_report(load([path])).tables["profiled"]


def test_kernels_are_summed_over_scopes(tmp_path: Path) -> None:
    made = write(
        tmp_path / "x.hatchet",
        node("a", kernel("f", 3_000_000, 2), kernel("g", 500_000)),
        kernel("f", 1_000_000),
    )
    found = {row.name: (row.calls, row.self_device_ms, row.kind) for row in rows(made)}
    assert found == {"f": (3, 4.0, "kernel"), "g": (1, 0.5, "kernel")}


def test_nothing_is_told_of_idle_time(tmp_path: Path) -> None:
    report = build_report(load([TREE]))
    assert (report.inputs[0].kind, report.summary.bottleneck) == ("proton", "inconclusive")
    assert (report.metrics.gpu_idle_share, report.metrics.gpu_busy_share, report.devices) == (
        None,
        None,
        [],
    )
    assert "proton.start" in report.summary.headline
    assert (
        sum(row.calls or 0 for row in rows(TREE)),
        sum(row.self_device_ms or 0 for row in rows(TREE)),
    ) == (
        11,
        0.4096,
    )


def test_rates_and_the_share_of_the_limits(tmp_path: Path) -> None:
    made = write(
        tmp_path / "x.hatchet",
        kernel("matmul", 1_000_000, flops16=500e9, bytes=1e8),
        kernel("copy", 1_000_000, bytes=2e9),
        kernel("plain", 1_000_000),
        node("scope", kernel("inside", 1_000_000), bytes=1e9),
        node("two", kernel("one", 1_000_000), kernel("other", 1_000_000), bytes=1e9),
    )
    found = {row.name: (row.tflops, row.gbs, row.roofline_share) for row in rows(made)}
    assert found["matmul"] == (
        500.0,
        100.0,
        pytest.approx(500 / 989.4, rel=0.01),
    )  # an H100 SXM, by SMs and bandwidth
    assert found["copy"] == (None, 2000.0, pytest.approx(2000 / 3350, rel=0.01))
    assert found["plain"] == found["one"] == found["other"] == (None, None, None)
    assert found["inside"][1] == 1000.0


def test_msgpack_is_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "x.hatchet_msgpack"
    packed.write_bytes(msgspec.msgpack.encode(json.loads(TREE.read_text())))
    assert rows(packed) == rows(TREE)


def test_cycles_are_no_times(tmp_path: Path) -> None:
    with pytest.raises(EmptyRecordingError, match="it counts cycles"):
        load([write(tmp_path / "x.hatchet", node("f", cycles=500, normalized_cycles=2.5))])
    trace = tmp_path / "x.chrome_trace"
    pid = "matmul Core0 CTA0 [measure in clock cycle (assume 1GHz)]"
    event = {
        "name": "loop",
        "cat": "matmul",
        "ph": "X",
        "pid": pid,
        "tid": "warp 0 (line 0)",
        "ts": 0.1,
        "dur": 0.4,
    }
    trace.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": [event]}))
    with pytest.raises(UnreadableInputError, match="clock cycles"):
        load([trace])


@pytest.mark.parametrize(
    "text", ['[{"frame": {}, "metrics": ', '[{"frame": 1, "metrics": [], "children": 7}, 3]']
)
def test_damaged_trees_are_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.hatchet"
    path.write_text(text)
    with pytest.raises((UnreadableInputError, EmptyRecordingError)):
        load([path])


def test_deep_trees_end(tmp_path: Path) -> None:
    path = tmp_path / "x.hatchet"
    path.write_text('[{"frame": {"name": "a"}, "metrics": {}, "children": ' * 100_000)
    with pytest.raises(UnreadableInputError, match="cut off or damaged"):
        load([path])
