from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.build import TraceBuilder
from tests.recorded import KINETO, label, recording
from traceanalyzer.analysis.tables.copies import copy_stats
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import CopyKind, DeviceOpKind, MemoryKind

RECORDINGS = [
    path for path in KINETO if path.parent.name == "kineto" or path.name.startswith("copy")
]
MB = 1_000_000


def recorded(path: Path) -> Measurements:
    from traceanalyzer.ingest import load

    return measure(load([path]).traces[0])


def copying(
    *,
    call="cudaMemcpyAsync",
    size=4 * MB,
    returns=12,
    source=MemoryKind.PINNED,
    target=MemoryKind.DEVICE,
    direction=CopyKind.HOST_TO_DEVICE,
) -> TraceBuilder:
    """A copy at 20-120 us by a call that starts at 10 and returns at `returns`."""
    builder = (
        TraceBuilder().op("aten::to", 5, 14).op("aten::copy_", 8, 13).call(call, 10, returns, 1)
    )
    return builder.kernel(
        "Memcpy",
        20,
        120,
        1,
        kind=DeviceOpKind.MEMCPY,
        bytes=size,
        copy_kind=direction,
        source_memory=source,
        target_memory=target,
        stream=7,
    )


def only(builder: TraceBuilder):
    (row,) = copy_stats(measure(builder.build()).timed)
    return row


def test_a_copy_has_its_place_and_its_speed():
    row = only(copying())
    assert (row.direction, row.source_memory, row.target_memory) == (
        "host to device",
        "pinned",
        "device",
    )
    assert (row.size, row.call, row.op) == (
        "1 MB to 64 MB",
        "cudaMemcpyAsync",
        "aten::to > aten::copy_",
    )
    assert (row.count, row.bytes) == (1, 4 * MB)
    assert row.total_ms == pytest.approx(0.1)
    assert row.bandwidth_gbs == pytest.approx(40)


def test_small_copies_have_no_bandwidth():
    assert only(copying(size=MB - 1)).bandwidth_gbs is None


def test_a_size_that_was_not_recorded_is_not_zero():
    row = only(copying(size=-1))
    assert (row.size, row.bytes, row.bandwidth_gbs) == ("not recorded", None, None)


def test_a_copy_of_unknown_memory_says_so():
    row = only(copying(source=MemoryKind.UNKNOWN))
    assert row.source_memory is None


@pytest.mark.parametrize(
    ("case", "blocking"),
    [
        ({}, False),
        ({"source": MemoryKind.PAGEABLE}, True),
        ({"source": MemoryKind.PAGEABLE, "size": 64_000}, False),
        ({"source": MemoryKind.PAGEABLE, "size": 64_001}, True),
        ({"call": "cudaMemcpy"}, True),
        ({"call": "cudaMemcpy", "size": 1000}, False),
        ({"call": "cuMemcpyHtoDAsync"}, False),
        ({"call": "cudaMemcpy", "size": 1000, "direction": CopyKind.DEVICE_TO_HOST}, True),
        (
            {
                "call": "cudaMemcpy",
                "direction": CopyKind.DEVICE_TO_DEVICE,
                "source": MemoryKind.DEVICE,
            },
            False,
        ),
        ({"returns": 125}, False),
        ({"source": MemoryKind.UNKNOWN}, False),
        ({"source": MemoryKind.UNKNOWN, "returns": 125}, True),
    ],
)
def test_whether_the_host_waits(case, blocking):
    assert only(copying(**case)).blocking is blocking


def test_without_the_call_nothing_is_said_about_the_host():
    builder = TraceBuilder().kernel("Memcpy", 0, 9, kind=DeviceOpKind.MEMCPY, bytes=5)
    row = only(builder)
    assert (row.blocking, row.call, row.op) == (None, None, None)


def test_copies_beside_compute_or_a_collective_are_not_exposed_and_share_the_rest():
    builder = (
        copying()
        .kernel("gemm", 0, 40, stream=8)
        .kernel("ncclDevKernel_AllReduce", 30, 60, stream=9)
    )
    builder.kernel("Memcpy", 100, 140, kind=DeviceOpKind.MEMCPY, bytes=100, stream=10)
    first, second = sorted(
        copy_stats(measure(builder.build()).timed), key=lambda row: -row.total_ms
    )
    # 60-100 the first alone, 100-120 both, 120-140 the second.
    assert first.exposed_ms == pytest.approx(0.050)
    assert second.exposed_ms == pytest.approx(0.030)


@pytest.mark.parametrize("path", RECORDINGS, ids=label)
def test_rows_add_up_to_the_copies_of_the_steady_steps(path):
    ctx = recorded(path)
    ops = ctx.trace.device_ops
    rows = copy_stats(ctx.timed)
    steps = ctx.timed.steps.steady_count
    copies = [
        i
        for i in range(len(ops))
        if ops.kind[i] == 2 and ctx.timed.steps.of_op[i] >= ctx.timed.steps.warmup
    ]
    assert sum(row.count for row in rows) * steps == pytest.approx(len(copies))
    assert sum(row.bytes or 0 for row in rows) * steps == pytest.approx(
        sum(int(ops.bytes[i]) for i in copies)
    )
    assert sum(row.total_ms for row in rows) * steps == pytest.approx(
        sum(int(ops.end[i] - ops.start[i]) for i in copies) / 1e6
    )
    assert all(0 <= row.exposed_ms <= row.total_ms * (1 + 1e-9) for row in rows)


def test_pageable_and_pinned_batches():
    base = copy_stats(recorded(recording("kineto/slow_dataloader.base")).timed)[0]
    fixed = copy_stats(recorded(recording("kineto/slow_dataloader.fix")).timed)[0]
    assert (base.source_memory, base.blocking) == ("pageable", True)
    assert (fixed.source_memory, fixed.blocking) == ("pinned", False)
    assert base.bandwidth_gbs == pytest.approx(13.3, abs=0.1)
    assert fixed.bandwidth_gbs == pytest.approx(52.8, abs=0.1)
