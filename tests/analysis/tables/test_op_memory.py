"""Operators by memory: on hand-made allocator events, and on a recording whose cache grows by
`torch.cat`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kineto_builder import KinetoTrace
from tests.snapshots import MIB, SEGMENT, content, event, segment, snapshot
from traceanalyzer.analysis.tables.op_memory import BEFORE, OUTSIDE, OpMemory
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest.run import load
from traceanalyzer.report.memory.traced import traced

DATA = Path(__file__).parents[2] / "data" / "memory"
ADDRESS = 1 << 40


def op(name: str, start: float, end: float, thread: int = 1) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start,
        "dur": end - start,
    }


def memory(at: float, size: int, address: int, total: int, device: int = 0) -> dict[str, Any]:
    args = {
        "Bytes": size,
        "Addr": ADDRESS + address,
        "Total Allocated": total,
        "Device Type": 1,
        "Device Id": device,
    }
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": at,
        "args": args,
    }


def rows(tmp_path: Path, events: list[dict[str, Any]]) -> dict[str, OpMemory]:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return {row.name: row for row in measured(load([path])).critical.op_memory}


def test_each_byte_belongs_to_who_allocated_it(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        [
            op("aten::linear", 0, 50),
            op("aten::mul", 85, 90),
            op("aten::addmm", 10, 40),
            op("aten::empty", 12, 14),
            op("MulBackward0", 20, 30, thread=2),
            memory(13, 1000, 0, 6000),
            memory(25, 500, 1, 6500),
            memory(45, 200, 2, 6700),
            memory(60, -1000, 0, 5700),
            memory(70, 300, 3, 6000),
            memory(80, -4000, 9, 2000),
        ],
    )
    assert {
        name: (r.allocated_bytes, r.freed_bytes, r.held_at_peak_bytes) for name, r in found.items()
    } == {
        "aten::addmm": (1000, 1000, 1000),
        "MulBackward0": (500, 0, 500),
        "aten::linear": (200, 0, 200),
        OUTSIDE: (300, 0, 0),
        BEFORE: (0, 4000, 5000),
    }
    assert found["aten::addmm"].net_bytes == 0
    assert found["aten::addmm"].allocations == 1


@pytest.mark.parametrize("broken", ["text", None, -5, 1 << 70])
def test_addresses_that_are_none_name_nothing(tmp_path: Path, broken: object) -> None:
    event = memory(10, 100, 0, 100)
    event["args"]["Addr"] = broken
    assert rows(tmp_path, [op("aten::mm", 0, 20), event]) == {}


def test_a_cache_that_is_copied_is_named() -> None:
    found = measured(load([DATA / "kv_cat.base.trace.json.gz"])).critical
    table = found.op_memory
    assert table[0].name == "aten::cat"
    assert table[0].net_bytes > 0
    assert found.memory is not None
    assert sum(row.held_at_peak_bytes for row in table) == found.memory.peak


EPOCH_US = 1_790_000_000_000_000
"""The trace's base time: its times count from here, the snapshot's from 1970."""
STEP_US = 300
BLOCKS = 8


def with_snapshot(folder: Path, wrong_by_us: int = 0) -> dict[str, OpMemory]:
    """Two steps that each make and free eight tensors of 1 MiB in one operator, with a history and
    no `[memory]` rows; another MiB was allocated before the trace, and stays."""
    trace = KinetoTrace(metadata={"schemaVersion": 1, "baseTimeNanoseconds": EPOCH_US * 1000})
    events = [event("alloc", SEGMENT, MIB, time_us=EPOCH_US - 5000)]
    for step in range(2):
        begin = 1000 + step * STEP_US
        trace.step(step, begin, STEP_US - 10)
        for block in range(BLOCKS):
            at = begin + 10 + 30 * block
            address = SEGMENT + (1 + block) * MIB
            trace.op("aten::mul", at, 12)
            trace.op("aten::empty", at + 2, 4)
            events.append(event("alloc", address, MIB, time_us=EPOCH_US + at + 4 + wrong_by_us))
        for block in range(BLOCKS):
            address = SEGMENT + (1 + block) * MIB
            events += [
                event(action, address, MIB, time_us=EPOCH_US + begin + 280) for action in ENDS
            ]
    held = segment([(SEGMENT, MIB, MIB, "active_allocated")], 9 * MIB)
    run = load([trace.write(folder / "trace.json")])
    return {
        row.name: row for row in traced(run, snapshot(folder, content(events, [held]))).operators
    }


ENDS = ("free_requested", "free_completed")


def test_a_history_of_the_same_time_names_the_operators_too(tmp_path: Path) -> None:
    found = with_snapshot(tmp_path)
    assert {
        name: (r.allocations, r.allocated_bytes, r.freed_bytes, r.held_at_peak_bytes)
        for name, r in found.items()
    } == {
        "aten::mul": (BLOCKS, BLOCKS * MIB, BLOCKS * MIB, BLOCKS * MIB),
        BEFORE: (0, 0, 0, MIB),
    }


@pytest.mark.parametrize("wrong_by_us", [14, -18, 100_000_000])
def test_a_history_by_another_clock_or_of_another_time_names_nothing(
    tmp_path: Path, wrong_by_us: int
) -> None:
    assert with_snapshot(tmp_path, wrong_by_us) == {}


def test_events_outside_operators_belong_to_none(tmp_path: Path) -> None:
    """The last event of the host is an API call, of which there are more than ranges."""
    calls = [
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaDeviceSynchronize",
            "pid": 1,
            "tid": 1,
            "ts": at,
            "dur": 2,
        }
        for at in (60, 70, 80)
    ]
    found = rows(
        tmp_path,
        [op("aten::mm", 0, 10), *calls, memory(20, 1000, 0, 1000), memory(50, -1000, 0, 0)],
    )
    assert list(found) == [OUTSIDE]
    assert found[OUTSIDE].allocated_bytes == 1000
