"""The nsys reader on real exports, against figures computed from the raw tables one row at a
time."""

from __future__ import annotations

import gzip
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from tests.recorded import NSYS, ROOT, label, recording
from traceanalyzer.ingest import nsys
from traceanalyzer.trace import DeviceOpKind, Trace, WaitKind

EXPORTS = [*NSYS, *sorted((ROOT / "sample_traces").glob("nsys_*/*.sqlite.gz"))]

Lane = tuple[int, int]
Spans = list[tuple[int, int]]

TABLES = {
    DeviceOpKind.KERNEL: "CUPTI_ACTIVITY_KIND_KERNEL",
    DeviceOpKind.MEMCPY: "CUPTI_ACTIVITY_KIND_MEMCPY",
    DeviceOpKind.MEMSET: "CUPTI_ACTIVITY_KIND_MEMSET",
    DeviceOpKind.GRAPH: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}


def open_copy(packed: Path, folder: Path) -> sqlite3.Connection:
    target = folder / packed.stem
    target.write_bytes(gzip.decompress(packed.read_bytes()))
    return sqlite3.connect(target)


def raw_spans(db: sqlite3.Connection) -> dict[tuple[int, int, int], Spans]:
    """Spans by (pid, device, kind), straight from the tables."""
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    spans: dict[tuple[int, int, int], Spans] = defaultdict(list)
    for kind, table in TABLES.items():
        if table in tables:
            for start, end, device, owner in db.execute(
                f'SELECT start, "end", deviceId, globalPid FROM {table}'
            ):
                spans[owner >> 24 & 0xFFFFFF, device, kind].append((start, end))
    return spans


def covered(spans: Spans) -> int:
    """Length of the union, by walking through it."""
    total = 0
    reach = None
    for start, end in sorted(spans):
        if reach is None or start > reach:
            total += end - start
            reach = end
        elif end > reach:
            total += end - reach
            reach = end
    return total


def gaps(spans: Spans) -> list[int]:
    found = []
    reach = None
    for start, end in sorted(spans):
        if reach is not None and start > reach:
            found.append(start - reach)
        reach = end if reach is None else max(reach, end)
    return found


def spans_of(trace: Trace, device: int, kinds: tuple[DeviceOpKind, ...] = tuple(TABLES)) -> Spans:
    ops = trace.device_ops
    return [
        (start, end)
        for start, end, on, kind in zip(
            ops.start.tolist(),
            ops.end.tolist(),
            ops.device.tolist(),
            ops.kind.tolist(),
            strict=True,
        )
        if on == device and kind in kinds
    ]


@pytest.mark.parametrize("packed", EXPORTS, ids=label)
def test_device_totals_equal_those_of_the_raw_tables(packed: Path, tmp_path: Path) -> None:
    expected = raw_spans(open_copy(packed, tmp_path))
    seen = set()
    for trace in nsys.read(packed):
        for device in trace.devices:
            lane = (trace.process.pid or 0, device.id)
            seen.add(lane)
            raw = [
                span
                for (*where, _), spans in expected.items()
                if tuple(where) == lane
                for span in spans
            ]
            ours = spans_of(trace, device.id)
            assert covered(ours) == covered(raw)
            assert gaps(ours) == gaps(raw)
            assert (min(ours)[0], max(end for _, end in ours)) == (
                min(raw)[0],
                max(end for _, end in raw),
            )
            for kind in TABLES:
                assert sorted(spans_of(trace, device.id, (kind,))) == sorted(
                    expected.get((*lane, kind), [])
                )
    assert seen == {(pid, device) for pid, device, _ in expected}


@pytest.mark.parametrize("packed", EXPORTS, ids=label)
def test_launches_are_joined_within_a_process(packed: Path, tmp_path: Path) -> None:
    db = open_copy(packed, tmp_path)
    query = (
        "SELECT k.start, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24 "
        "JOIN StringIds s ON s.id = r.nameId WHERE k.globalPid >> 24 & 16777215 = ?"
    )
    for trace in nsys.read(packed):
        calls = dict(
            zip(trace.api_calls.correlation.tolist(), trace.api_calls.name.tolist(), strict=True)
        )
        ops = trace.device_ops
        ours = sorted(
            (start, trace.text(calls[correlation]))
            for start, correlation, kind in zip(
                ops.start.tolist(), ops.correlation.tolist(), ops.kind.tolist(), strict=True
            )
            if kind == DeviceOpKind.KERNEL and correlation in calls
        )
        raw = sorted(
            (start, name.partition("_v")[0])
            for start, name in db.execute(query, (trace.process.pid,))
        )
        assert [start for start, _ in ours] == [start for start, _ in raw]
        assert [name for _, name in ours] == [name for _, name in raw]


@pytest.mark.parametrize("packed", EXPORTS, ids=label)
def test_nothing_is_lost_or_private(packed: Path) -> None:
    traces = nsys.read(packed)
    health = traces[0].health
    assert (health.lost, health.clipped, health.truncated) == (0, 0, False)
    assert not [
        text for trace in traces for text in trace.strings if "/home/" in text or "/Users/" in text
    ]


def test_waits_between_streams_name_both() -> None:
    (trace,) = nsys.read(recording("nsys/slow_dataloader.base"))
    waits = trace.waits.take(trace.waits.kind == WaitKind.STREAM_WAIT_EVENT)
    assert len(waits) == 96
    assert {
        (s, t) for s, t in zip(waits.source_stream.tolist(), waits.stream.tolist(), strict=True)
    } == {
        (7, 30),
        (30, 7),
    }
