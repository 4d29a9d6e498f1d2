"""Traces of unitrace: joins, tiles, damage, and a second reading by code that shares nothing with
the reader."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest

from tests.ingest.rocm.test_amd import FORMATS, busy, only, union
from traceanalyzer.base.errors import EmptyRecordingError, TraceAnalyzerError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import CopyKind, DeviceOpKind, RangeKind

MADE = FORMATS / "unitrace_made.json.gz"
BASE = 1_773_239_776_677_000
DEVICE = 4294967294


def line(
    ph: str,
    name: str,
    cat: str,
    ts: float,
    dur: float | None = None,
    *,
    device: bool = False,
    **more: object,
) -> str:
    lane = {"tid": 4294967295, "pid": DEVICE} if device else {"tid": 7, "pid": 5}
    event = {"ph": ph, **lane, "name": name, "cat": cat, **more}
    times = (
        f', "ts": {BASE}.250000'
        if ts is None
        else f', "ts": {BASE + int(ts)}.{int(ts % 1 * 1e6):06d}'
    )
    return json.dumps(event)[:-1] + times + ("" if dur is None else f', "dur": {dur:.6f}') + "}"


EVENTS = (
    line("X", "urEnqueueKernelLaunch", "cpu_op", 1, 20, id=0),
    line("X", "zeCommandListAppendLaunchKernel", "cpu_op", 5, 4, id=0),
    line("s", "dep", "Flow_H2D_31_0", 5, id=31),
    line("X", "zeCommandListAppendMemoryCopy", "cpu_op", 30, 4, id=0),
    line("s", "dep", "Flow_H2D_32_0", 30, id=32),
    line(
        "X",
        "gemm[SIMD32 {64; 8; 2} {256; 1; 1}]",
        "gpu_op",
        40,
        10.5,
        device=True,
        args={"id": "31"},
    ),
    line(
        "X",
        "Tile #1: gemm[SIMD32 {64; 8; 2} {256; 1; 1}]",
        "gpu_op",
        41,
        10.25,
        device=True,
        args={"id": "31"},
    ),
    line(
        "X",
        "zeCommandListAppendMemoryCopy(D2M)[4096]",
        "gpu_op",
        60,
        5,
        device=True,
        args={"id": "32"},
    ),
    line(
        "X",
        "zeCommandListAppendMemoryFill[64 bytes]",
        "gpu_op",
        70,
        1,
        device=True,
        args={"id": "99"},
    ),
    line("X", "zeCommandListAppendBarrier", "gpu_op", 80, 50, device=True, args={"id": "33"}),
    line("X", "MPI_Allreduce", "cpu_op", 90, 5, id=0),
    line("B", "step", "cpu_op", 0, id=0),
    line("E", "step", "cpu_op", 100, id=0),
    line("B", "never closed", "cpu_op", 101, id=0),
)
NAMES = (
    '{"ph": "M", "name": "process_name", "pid": 5, "ts": 1.5, "args": {"name": "HOST<node0>"}}',
    f'{{"ph": "M", "name": "process_name", "pid": {DEVICE}, "ts": 1.5, "args": '
    '{"name": "DEVICE<node0>[Intel(R) Data Center GPU Max 1550] 0:29:0:0 #0"}}',
)


def write(path: Path, *lines: str, closed: bool = True) -> Path:
    path.write_text('{ "traceEvents":[\n' + ",\n".join(lines) + ("\n]\n}\n" if closed else ",\n"))
    return path


def test_commands_are_joined_with_the_calls_that_appended_them(tmp_path: Path) -> None:
    trace = only(write(tmp_path / "app.5.json", *NAMES, *EVENTS))
    ops = trace.device_ops
    assert [trace.text(code) for code in ops.name] == [
        "gemm",
        "gemm",
        "zeCommandListAppendMemoryCopy(D2M)",
        "zeCommandListAppendMemoryFill",
    ]
    assert ops.kind.tolist() == [DeviceOpKind.KERNEL] * 2 + [
        DeviceOpKind.MEMCPY,
        DeviceOpKind.MEMSET,
    ]
    assert (ops.end - ops.start).tolist() == [10_500, 10_250, 5_000, 1_000]
    assert (ops.blocks.tolist()[0], ops.threads.tolist()[0]) == (1024, 256)
    assert (ops.bytes.tolist()[2], ops.copy_kind.tolist()[2]) == (4096, CopyKind.DEVICE_TO_HOST)
    launched = dict(
        zip(trace.api_calls.correlation.tolist(), trace.api_calls.name.tolist(), strict=True)
    )
    assert [trace.text(launched.get(i, -1)) for i in ops.correlation.tolist()] == [
        "zeCommandListAppendLaunchKernel",
        "zeCommandListAppendLaunchKernel",
        "zeCommandListAppendMemoryCopy",
        None,
    ]
    ranges = {
        trace.text(code): kind
        for code, kind in zip(trace.host_ranges.name, trace.host_ranges.kind, strict=True)
    }
    assert ranges == {"MPI_Allreduce": RangeKind.LIBRARY, "step": RangeKind.ANNOTATION}
    assert (trace.process.pid, trace.process.host) == (5, "node0")
    assert trace.devices[0].name == "Intel(R) Data Center GPU Max 1550"
    assert (trace.health.lost, trace.health.truncated) == (1, False)


def test_a_program_that_crashed_leaves_what_there_is(tmp_path: Path) -> None:
    trace = only(write(tmp_path / "app.5.json", *EVENTS, EVENTS[0][:30], closed=False))
    assert (len(trace.device_ops), trace.health.truncated, trace.health.lost) == (4, True, 2)
    assert "not closed" in trace.health.notes[0]


def test_without_work_it_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyRecordingError, match="unitrace --chrome-kernel-logging"):
        load([write(tmp_path / "app.5.json", *NAMES)])


def test_against_its_lines() -> None:
    rows = [
        json.loads(text.strip().rstrip(","), parse_float=Decimal)
        for text in gzip.decompress(MADE.read_bytes()).decode().splitlines()
        if '"cat": "gpu_op"' in text
    ]
    times = [(int(row["ts"] * 1000), int((row["ts"] + row["dur"]) * 1000)) for row in rows]
    trace = only(MADE)
    assert busy(trace) == union(times)
    assert len(trace.device_ops) == len(rows)
    assert set(trace.device_ops.correlation.tolist()) <= set(trace.api_calls.correlation.tolist())
    report = build_report(load([MADE]))
    assert (report.inputs[0].kind, report.metrics.launches is not None) == ("unitrace", True)


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_an_error_of_ours_or_counted(tmp_path: Path, seed: int) -> None:
    data = bytearray(write(tmp_path / "whole.json", *NAMES, *EVENTS).read_bytes())
    chance = random.Random(seed)  # noqa: S311
    for _ in range(30):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = tmp_path / "damaged.json"
    path.write_bytes(data[: chance.randrange(len(data))] if seed % 2 else data)
    with suppress(TraceAnalyzerError):
        build_report(load([path]))
