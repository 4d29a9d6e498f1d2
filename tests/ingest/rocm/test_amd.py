"""Recordings of AMD's other formats, read a second time by code that shares nothing with the
readers."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import ROOT
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import CopyKind, DeviceOpKind, RangeKind, Trace

FORMATS = ROOT / "tests" / "data" / "formats"
JSON = FORMATS / "mi350x_results.json.gz"
RPD = FORMATS / "matmul_result.rpd.gz"
SLOW = "void at::slow<4>(int)"


def union(intervals: Iterable[tuple[int, int]]) -> int:
    busy = until = 0
    for start, end in sorted(intervals):
        busy += max(end - max(start, until), 0)
        until = max(until, end)
    return busy


def only(path: Path) -> Trace:
    (trace,) = load([path]).traces
    return trace


def busy(trace: Trace) -> int:
    return union(zip(trace.device_ops.start.tolist(), trace.device_ops.end.tolist(), strict=True))


def dispatches() -> list[dict[str, Any]]:
    (process,) = json.loads(gzip.decompress(JSON.read_bytes()))["rocprofiler-sdk-tool"]
    return process["buffer_records"]["kernel_dispatch"]


def test_rocprofv3_json_against_its_rows() -> None:
    rows = dispatches()
    trace = only(JSON)
    assert len(trace.device_ops) == len(rows)
    assert busy(trace) == union((row["start_timestamp"], row["end_timestamp"]) for row in rows)
    lengths = sorted(row["end_timestamp"] - row["start_timestamp"] for row in rows)
    assert sorted((trace.device_ops.end - trace.device_ops.start).tolist()) == lengths
    (device,) = trace.devices
    assert (device.id, device.name, device.sm_count) == (0, "AMD Instinct MI350X", 256)
    report = build_report(load([JSON]))
    assert report.devices[0].busy_ms == pytest.approx(busy(trace) / 1e6, abs=1e-6)
    assert report.metrics.launches_per_step is None


def made_json(**arrays: list[dict[str, Any]]) -> dict[str, Any]:
    """A recording of one process: agent 8 is its GPU."""
    kinds = [
        {"kind": "HIP_RUNTIME_API", "operations": ["hipInit", "hipLaunchKernel"]},
        {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
        {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
        {"kind": "HSA_CORE_API", "operations": ["hsa_signal_store_screlease"]},
    ]
    return {
        "metadata": {
            "node": {"hostname": "h"},
            "pid": 5,
            "command": ["/usr/bin/python", "--token=x"],
        },
        "agents": [
            {"type": 1, "id": {"handle": 7}},
            {"type": 2, "id": {"handle": 8}, "logical_node_type_id": 0},
        ],
        "strings": {"buffer_records": kinds, "marker_api": [{"key": 9, "value": "step 3"}]},
        "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": SLOW}],
        "buffer_records": arrays,
    }


def row(start: int, end: int, internal: int, ancestor: int = 0, **more: Any) -> dict[str, Any]:
    ids = {"internal": internal, "ancestor": ancestor}
    return {
        "start_timestamp": start,
        "end_timestamp": end,
        "correlation_id": ids,
        "thread_id": 5,
        **more,
    }


def kernel(start: int, end: int, internal: int, kernel_id: int = 1) -> dict[str, Any]:
    info = {"agent_id": {"handle": 8}, "queue_id": {"handle": 2}, "kernel_id": kernel_id}
    sizes = {"workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 130, "y": 1, "z": 1}}
    return row(start, end, internal, dispatch_info=info | sizes, stream_id={"handle": 3})


WHOLE = made_json(
    kernel_dispatch=[kernel(500, 900, 4), kernel(200, 400, 3, kernel_id=99)],
    hip_api=[row(100, 150, 3, kind=0, operation=1), row(160, 190, 2, kind=0, operation=1)],
    hsa_api=[row(165, 170, 4, 2, kind=3, operation=0)],
    marker_api=[row(90, 950, 9, kind=2, operation=1)],
    memory_copy=[
        row(
            910,
            940,
            2,
            kind=1,
            operation=1,
            bytes=64,
            src_agent_id={"handle": 7},
            dst_agent_id={"handle": 8},
        )
    ],
    scratch_memory=[{"kind": 77}],
)


def write(path: Path, *processes: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return path


def test_rocprofv3_json_joins_calls_copies_and_markers(tmp_path: Path) -> None:
    trace = only(write(tmp_path / "5_results.json", WHOLE))
    ops = trace.device_ops
    assert [trace.text(code) for code in ops.name] == ["unnamed kernel", SLOW, "Memcpy HtoD"]
    assert ops.correlation.tolist() == [3, 2, 2]  # SLOW: of the call that the call of HSA lies in
    assert ops.blocks.tolist() == [3, 3, -1]
    assert ops.stream.tolist() == [3, 3, -1]
    assert (ops.copy_kind[2], ops.bytes[2], ops.device[2]) == (CopyKind.HOST_TO_DEVICE, 64, 0)
    assert trace.api_calls.correlation.tolist() == [3, 2]
    assert [trace.text(code) for code in trace.host_ranges.name] == [
        "step 3",
        "hsa_signal_store_screlease",
    ]
    assert trace.host_ranges.kind.tolist() == [RangeKind.ANNOTATION, RangeKind.LIBRARY]
    assert (trace.process.name, trace.process.pid, trace.health.skipped) == ("python", 5, 1)


def test_rocprofv3_json_has_a_trace_a_process(tmp_path: Path) -> None:
    other = json.loads(json.dumps(WHOLE))
    other["metadata"]["pid"] = 6
    traces = load([write(tmp_path / "results.json", WHOLE, other)]).traces
    assert [trace.process.pid for trace in traces] == [5, 6]


def test_damaged_records_of_rocprofv3_json_are_lost(tmp_path: Path) -> None:
    arrays = {
        "kernel_dispatch": [
            kernel(1, 2, 1),
            {"start_timestamp": "x"},
            kernel(5, 2**80, 2),
            kernel(7, 9, 3),
        ]
    }
    trace = only(write(tmp_path / "results.json", made_json(**arrays)))
    assert (len(trace.device_ops), trace.health.lost) == (2, 2)


@pytest.mark.parametrize("cut", [60, 200, 900, 2000])
def test_a_cut_rocprofv3_json_is_one_line(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "results.json", WHOLE)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UnreadableInputError, match="cut off or damaged"):
        load([path])


def tables(folder: Path, guid: bool = False) -> Path:
    """What rocprofv3 writes as CSV, of three kernels."""
    first = {"Guid": "g1"} if guid else {}
    agent = "Agent 3"
    kernels = [
        {
            **first,
            "Kind": "KERNEL_DISPATCH",
            "Agent_Id": agent,
            "Queue_Id": 1,
            "Stream_Id": 1,
            "Kernel_Name": name,
            "Correlation_Id": i + 1,
            "Start_Timestamp": 100 * i + 1,
            "End_Timestamp": 100 * i + 51,
            "LDS_Block_Size": 0,
            "VGPR_Count": 8,
            "Workgroup_Size_X": 64,
            "Workgroup_Size_Y": 1,
            "Workgroup_Size_Z": 1,
            "Grid_Size_X": 640,
            "Grid_Size_Y": 1,
            "Grid_Size_Z": 1,
        }
        for i, name in enumerate((SLOW, "plain, with a comma", SLOW))
    ]
    calls = [
        {
            **first,
            "Domain": "HIP",
            "Function": "hipLaunchKernel",
            "Process_Id": 4,
            "Thread_Id": 4,
            "Correlation_Id": i,
            "Start_Timestamp": i,
            "End_Timestamp": i + 1,
        }
        for i in (1, 2, 3)
    ]
    markers = [{**calls[0], "Domain": "MARKER", "Function": "step 1", "End_Timestamp": 400}]
    ends = {"Source_Agent_Id": agent, "Destination_Agent_Id": "Agent 0"}
    times = {"Correlation_Id": 9, "Start_Timestamp": 500, "End_Timestamp": 520}
    copies = [
        {**first, "Kind": "MEMORY_COPY", "Direction": "MEMORY_COPY_DEVICE_TO_HOST", **ends, **times}
    ]
    agents = [
        {
            "Node_Id": i,
            "Agent_Type": "GPU" if i > 1 else "CPU",
            "Product_Name": f"AMD Instinct MI{i}00X",
            "Cu_Count": 304,
        }
        for i in range(4)
    ]
    parts = {
        "kernel_trace": kernels,
        "hip_api_trace": calls,
        "marker_api_trace": markers,
        "memory_copy_trace": copies,
        "agent_info": agents,
    }
    for name, rows in parts.items():
        with (folder / f"4_{name}.csv").open("w", newline="") as file:
            header = [key.swapcase() if guid and key != "Guid" else key for key in rows[0]]
            writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
            writer.writerows([header, *(row.values() for row in rows)])
    return folder / "4_kernel_trace.csv"


@pytest.mark.parametrize("guid", [False, True], ids=["rocprofv3", "rocpd convert"])
def test_rocprofv3_tables_are_read_together(tmp_path: Path, guid: bool) -> None:
    trace = only(tables(tmp_path, guid))
    ops = trace.device_ops
    assert [trace.text(code) for code in ops.name] == [
        SLOW,
        "plain, with a comma",
        SLOW,
        "Memcpy DtoH",
    ]
    assert (ops.end - ops.start).tolist() == [50, 50, 50, 20]
    assert (ops.correlation.tolist(), ops.device.tolist()) == ([1, 2, 3, 9], [1, 1, 1, 1])
    assert ops.blocks.tolist() == [10, 10, 10, -1]
    assert len(trace.api_calls) == 3
    assert [trace.text(code) for code in trace.host_ranges.name] == ["step 1"]
    assert (trace.process.pid, trace.devices[0].name) == (4, "AMD Instinct MI300X")
    assert load([tmp_path]).traces[0].path.endswith("kernel_trace.csv")


def test_tables_alone_and_without_kernels_are_named(tmp_path: Path) -> None:
    path = tables(tmp_path)
    with pytest.raises(UnreadableInputError, match=r"kernel_trace\.csv beside it"):
        load([tmp_path / "4_hip_api_trace.csv"])
    for other in tmp_path.glob("*.csv"):
        if other != path:
            other.unlink()
    trace = only(path)
    assert (trace.device_ops.device.tolist(), trace.collected.api) == ([3, 3, 3], False)
    assert any("numbers agents" in note for note in trace.health.notes)


@pytest.mark.parametrize(
    "text",
    ["Kernel_Name,a\rb,Start_Timestamp\n", '"Kernel_Name', "Kernel_Name" + ",x" * 90_000, "\0,\0"],
)
def test_texts_that_are_no_tables_are_not_taken_for_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x_kernel_trace.csv"
    path.write_text(text)
    with pytest.raises(UnreadableInputError):
        load([path])


def test_rows_of_tables_that_are_cut_are_lost(tmp_path: Path) -> None:
    path = tables(tmp_path)
    path.write_text(path.read_text()[:-60] + "\n\0,\n")
    trace = only(path)
    assert (int((trace.device_ops.kind == DeviceOpKind.KERNEL).sum()), trace.health.lost) == (2, 1)


def rpd_rows(path: Path) -> list[tuple[str, str, int, int, int | None]]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "x.rpd"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        database = sqlite3.connect(plain)
        found = database.execute(
            'SELECT t.string, d.string, o.start, o."end", l.api_id FROM rocpd_op o JOIN rocpd_string t ON '
            "t.id = o.opType_id JOIN rocpd_string d ON d.id = o.description_id LEFT JOIN rocpd_api_ops l "
            "ON l.op_id = o.id"
        ).fetchall()
        database.close()
        return found


def test_rpd_against_its_rows() -> None:
    rows = rpd_rows(RPD)
    trace = only(RPD)
    ops = trace.device_ops
    assert busy(trace) == union((start, end) for _, _, start, end, _ in rows)
    kernels = sorted(
        (end - start, name) for kind, name, start, end, _ in rows if kind == "KernelExecution"
    )
    mine = [
        (int(b - a), trace.text(n))
        for a, b, n, k in zip(ops.start, ops.end, ops.name, ops.kind, strict=True)
        if k == 1
    ]
    assert sorted(mine) == kernels
    assert int((ops.kind == DeviceOpKind.MEMCPY).sum()) == sum(
        kind.startswith("Copy") for kind, *_ in rows
    )
    assert sorted(ops.correlation.tolist()) == sorted(call for *_, call in rows if call)
    assert set(ops.correlation.tolist()) <= set(trace.api_calls.correlation.tolist())
    assert len(trace.overheads) == 5  # RPD's own calls, which stand among the program's
    assert build_report(load([RPD])).devices[0].busy_ms == pytest.approx(
        busy(trace) / 1e6, abs=1e-6
    )


@pytest.mark.parametrize("name", ["matmul_result.rpd.gz", "mi350x_results.json.gz"])
@pytest.mark.parametrize("seed", range(8))
def test_damage_is_an_error_of_ours_or_counted(tmp_path: Path, name: str, seed: int) -> None:
    import random

    data = bytearray(gzip.decompress((FORMATS / name).read_bytes()))
    chance = random.Random(seed)  # noqa: S311
    for _ in range(200):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if seed % 2:
        data = data[: chance.randrange(len(data))]
    path = tmp_path / name.removesuffix(".gz")
    path.write_bytes(data)
    with suppress(TraceAnalyzerError):
        build_report(load([path]))
