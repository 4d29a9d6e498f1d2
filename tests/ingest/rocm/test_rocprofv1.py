"""rocprof v1's timeline and table, made by hand as its scripts write them: all values are text, no
record has an id, arrows lead from calls to work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import CopyKind, DeviceOpKind, RangeKind

COPY, HIP, HSA, GPU = 1, 2, 3, 6
GEMM = "Cijk_Ailk_Bljk_HHS_MT64x64x32_SN_1LDSB0"
COLUMNS = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,BeginNs,EndNs,DurationNs"
)
KERNELS = ((f"{GEMM}.kd", 0, 70), ("void f<int, 2>(int*) [clone .kd]", 0, 70), ("g", 1, 80))
TABLE = "\n".join(
    [
        COLUMNS,
        *(
            f'{i},"{name}",{gpu},0,{i},{pid},71,2560,256,1024,{i * 1000 + 1},{i * 1000 + 401},400'
            for i, (name, gpu, pid) in enumerate(KERNELS)
        ),
    ]
)


def record(group: int, lane: int, name: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
    """An event of a process 70, times in ns."""
    args = {"BeginNs": begin, "EndNs": end, "pid": 70, "tid": 71, "Name": name, **more}
    return {
        "ph": "X",
        "name": name,
        "pid": group,
        "tid": lane,
        "ts": str(begin // 1000),
        "dur": str((end - begin) // 1000),
        "args": {key: str(value) for key, value in args.items()},
    }


def arrow(number: int, call: dict[str, Any], work: dict[str, Any]) -> list[dict[str, Any]]:
    middle = int(call["ts"]) + int(call["dur"]) // 2
    both = {"cat": "DataFlow", "id": number, "name": "dep"}
    return [
        both
        | {"ph": "s", "ts": min(middle, int(work["ts"])), "pid": call["pid"], "tid": call["tid"]},
        both | {"ph": "t", "ts": int(work["ts"]), "pid": work["pid"], "tid": work["tid"]},
    ]


def steps(count: int) -> list[dict[str, Any]]:
    """Each ms: a range, an input copied, two kernels, a wait; the GPU computes for 500 us of it."""
    events: list[dict[str, Any]] = [{}]
    for i in range(count):
        at = 1_000_000_000 + i * 1_000_000
        on_device = {"dev-id": 0, "queue-id": 0, "stream-id": 1}
        calls = [
            record(HIP, 71, "hipMemcpyAsync", at + 10_000, at + 20_000),
            record(HIP, 71, "hipLaunchKernel", at + 30_000, at + 36_000),
            record(HIP, 71, "hipModuleLaunchKernel", at + 40_000, at + 46_000),
        ]
        work = [
            record(COPY, 1, "CopyHostToDevice", at + 25_000, at + 125_000, **on_device),
            record(GPU, 1, "vec(float*)", at + 125_000, at + 225_000, **on_device),
            record(GPU, 1, f"{GEMM}.kd", at + 225_000, at + 625_000, **on_device),
        ]
        events += [record(0, 71, f"step {i}", at, at + 990_000), *calls, *work]
        events += [
            record(HIP, 71, "hipDeviceSynchronize", at + 50_000, at + 640_000),
            record(GPU, 1, "<barrier packet>", at + 625_000, at + 630_000, **on_device),
        ]
        for number, (call, done) in enumerate(zip(calls, work, strict=True)):
            events += arrow(3 * i + number, call, done)
    return events


def test_a_timeline_has_work_calls_and_what_launched_what(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": steps(5), "otherData": {}}))
    (trace,) = load([path]).traces
    ops = trace.device_ops
    assert (trace.source, trace.process.pid) == ("rocprof", 70)
    assert [trace.text(code) for code in ops.name[:3]] == ["Memcpy HtoD", "vec(float*)", GEMM]
    assert ops.kind[:3].tolist() == [DeviceOpKind.MEMCPY, *[DeviceOpKind.KERNEL] * 2]
    assert ops.copy_kind[0] == CopyKind.HOST_TO_DEVICE
    launched = dict(zip(trace.api_calls.correlation, trace.api_calls.name, strict=True))
    assert [trace.text(launched[code]) for code in ops.correlation[:3]] == [
        "hipMemcpyAsync",
        "hipLaunchKernel",
        "hipModuleLaunchKernel",
    ]
    assert len(trace.host_ranges.kind) == 5
    assert set(trace.host_ranges.kind) == {RangeKind.ANNOTATION}
    report = build_report(load([path]))
    assert report.devices[0].busy_ms == pytest.approx(5 * 0.6)
    assert report.metrics.step_time_ms is not None
    assert report.metrics.step_time_ms.mean == pytest.approx(1, rel=0.02)


def test_work_that_two_layers_recorded_counts_once(tmp_path: Path) -> None:
    """HSA's copies and the queue's dispatches beside the runtime's own records."""
    more = [
        record(COPY, -1, "async-copy", 1_000_026_000, 1_000_124_000),
        record(GPU, 71, GEMM, 1_000_225_000, 1_000_625_000, **{"gpu-id": 0, "queue-id": 0}),
        record(HSA, 71, "hsa_signal_wait", 1_000_640_000, 1_000_650_000),
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": steps(1) + more}))
    (trace,) = load([path]).traces
    assert len(trace.device_ops) == 3
    alone = [{}, *(event for event in more if event["pid"] != COPY)]
    path.write_text(json.dumps({"traceEvents": alone}))
    (trace,) = load([path]).traces
    assert [trace.text(code) for code in trace.device_ops.name] == [GEMM]
    assert trace.host_ranges.kind.tolist() == [RangeKind.LIBRARY]


def test_a_timeline_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    text = "\n,".join(json.dumps(event) for event in steps(4))
    path = tmp_path / "results.json"
    path.write_text('{ "traceEvents":[' + text[: len(text) // 2])
    (trace,) = load([path]).traces
    assert 3 <= len(trace.device_ops) < 12
    assert trace.health.truncated
    path.write_text('{ "traceEvents":[{"BeginNs": {')
    with pytest.raises(UnreadableInputError, match="rocprof's JSON is damaged"):
        load([path])


def test_a_table_of_kernels_is_a_timeline_of_them(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(f"{TABLE}\n3,broken")
    first, second = load([path]).traces
    names = [first.text(code) for code in first.device_ops.name]
    assert names == [GEMM, "void f<int, 2>(int*)"]
    assert first.device_ops.blocks.tolist() == [10, 10]
    assert (first.health.lost, first.process.pid) == (1, 70)
    assert second.device_ops.device.tolist() == [1]
    assert len(first.api_calls) == 0
