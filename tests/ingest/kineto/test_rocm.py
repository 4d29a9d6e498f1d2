"""Kineto traces of AMD GPUs, and rows that say what they hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.rocm.test_amd import FORMATS, busy, only, union
from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import DeviceOpKind

ROCM = {"roctracer_version": 4.1, "hip_runtime_version": 70253211}
MI300X = {
    "name": "AMD Instinct MI300X",
    "totalGlobalMem": 206141652992,
    "computeMajor": 9,
    "computeMinor": 4,
    "numSms": 304,
}


def kernel(ts: float, dur: float, device: int = 2, stream: int = 0, **args: Any) -> dict[str, Any]:
    own = {"device": device, "stream": stream, "correlation": int(ts), **args}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": device,
        "tid": stream,
        "ts": ts,
        "dur": dur,
        "args": own,
    }


def write(path: Path, events: list[dict[str, Any]], devices: int = 1, **head: Any) -> Path:
    described = [{"id": i, **MI300X} for i in range(devices)]
    path.write_text(
        json.dumps({**ROCM, "deviceProperties": described, **head, "traceEvents": events})
    )
    return path


@pytest.mark.parametrize("name", ["mi300x_bert", "mi300x_sglang_decode"])
def test_real_traces_against_their_rows(name: str) -> None:
    path = FORMATS / f"{name}.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    rows = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    trace = only(path)
    ns = [(round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000)) for e in rows]
    assert busy(trace) == union(ns)
    assert len(trace.device_ops) == len(rows)
    replayed = sum(e["args"]["kind"] == "Dispatch Task" for e in rows)
    assert int((trace.device_ops.graph == 0).sum()) == replayed
    (device,) = trace.devices
    assert (device.id, device.sm_count) == (rows[0]["args"]["device"], 304)
    report = build_report(load([path]))
    assert report.metrics.roofline is not None
    assert not any("hardware table" in note for note in report.notes)


def test_gpus_that_differ_are_described_in_their_order(tmp_path: Path) -> None:
    described = [
        {"id": 0, **MI300X},
        {"id": 1, **MI300X, "name": "AMD Instinct MI210", "numSms": 104},
    ]
    events = [kernel(10, 5, 3), kernel(20, 5, 2)]
    trace = only(write(tmp_path / "x.json", events, deviceProperties=described))
    assert [(d.id, d.name) for d in trace.devices] == [
        (2, "AMD Instinct MI300X"),
        (3, "AMD Instinct MI210"),
    ]
    assert any("in order" in note for note in trace.health.notes)


def test_of_many_described_gpus_those_in_use_are_listed(tmp_path: Path) -> None:
    trace = only(write(tmp_path / "x.json", [kernel(10, 5, 2)], devices=8))
    assert [device.id for device in trace.devices] == [2]


def test_the_allocator_counts_for_the_gpu_in_use(tmp_path: Path) -> None:
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Total Allocated": 512, "Addr": 1}
    events = [
        kernel(10, 5, 9),
        {"ph": "i", "name": "[memory]", "ts": 11, "s": "t", "pid": 1, "tid": 1, "args": args},
    ]
    assert only(write(tmp_path / "x.json", events)).memory_events.device.tolist() == [9]


def test_streams_that_are_addresses_stay_apart(tmp_path: Path) -> None:
    streams = [0x7F0012345670, 0x7F0012345680, 3]
    trace = only(
        write(
            tmp_path / "x.json",
            [kernel(10 * i + 10, 5, 2, stream) for i, stream in enumerate(streams)],
        )
    )
    assert len(set(trace.device_ops.stream.tolist())) == 3
    assert (trace.device_ops.stream >= 0).all()
    assert trace.health.repaired == 0


def test_a_row_that_overruns_the_next_ones_is_cut_and_counted(tmp_path: Path) -> None:
    events = [kernel(10, 1_000_000), *(kernel(50 * i + 60, 40) for i in range(20))]
    trace = only(write(tmp_path / "x.json", events))
    assert (trace.health.clipped, busy(trace)) == (1, 50_000 + 20 * 40_000)


def test_rows_of_cupti_ranges_and_mtia_say_what_they_hold(tmp_path: Path) -> None:
    def row(cat: str) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": cat,
            "name": "x",
            "pid": 0,
            "tid": 0,
            "ts": 1,
            "dur": 9,
            "args": {"dram__bytes.sum": 4.0},
        }

    ranges = [row("cuda_profiler_range")] * 2
    with pytest.raises(EmptyRecordingError, match="2 rows are counters of CUPTI's range profiler"):
        load([write(tmp_path / "ranges.json", ranges)])
    trace = only(write(tmp_path / "x.json", [*ranges, row("mtia_insight"), row("mtia_ccp_events")]))
    assert len(trace.device_ops) == 1
    assert any("CUPTI" in note for note in trace.health.notes)
    assert any("1 rows are MTIA's" in note for note in trace.health.notes)


@pytest.mark.parametrize(
    "text",
    [
        "[[-1, 0, 1024, 3], [1700000000123, 1, -5, 2]]",
        "[[1700000000123456, 1700000000123457, 1700000000123458], [[0]]]",
    ],
)
def test_memory_timelines_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.raw.json"
    path.write_text(text)
    with pytest.raises(UnreadableInputError, match="memory timeline"):
        load([path])


def test_dma_requests_of_mtia_are_copies(tmp_path: Path) -> None:
    def row(name: str, ts: float) -> dict[str, Any]:
        where = {"name": name, "pid": 0, "tid": 7, "ts": ts, "dur": 5, "args": {"device": 0}}
        return {"ph": "X", "cat": "mtia_ccp_events", **where}

    trace = only(write(tmp_path / "x.json", [row("matmul", 10), row("dma_request", 20)]))
    assert trace.device_ops.kind.tolist() == [DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY]
