"""Every real recording, against its raw JSON."""

from __future__ import annotations

import gzip
from collections import Counter
from decimal import Decimal

import msgspec
import pytest

from tests.recorded import EVERY_FILE, KINETO, label
from traceanalyzer.ingest import load
from traceanalyzer.ingest.mangled import demangled
from traceanalyzer.trace import DeviceOpKind, RangeKind

SYNCS = [path for path in EVERY_FILE if "python_hidden.base.syncevents" in path.name]
RAW = msgspec.json.Decoder(float_hook=Decimal)
KINDS = {
    "kernel": DeviceOpKind.KERNEL,
    "gpu_memcpy": DeviceOpKind.MEMCPY,
    "gpu_memset": DeviceOpKind.MEMSET,
}
HOST_KINDS = {
    "cpu_op": RangeKind.OP,
    "user_annotation": RangeKind.ANNOTATION,
    "python_function": RangeKind.PYTHON,
}


def ns(value) -> int:
    return int(Decimal(value) * 1000)


def placed(args) -> tuple[int, ...]:
    return tuple(
        args.get(key, -1) for key in ("device", "stream", "correlation", "bytes", "External id")
    )


@pytest.mark.parametrize("path", [*KINETO, *SYNCS], ids=label)
def test_every_row_of_a_real_recording_is_read_exactly(path):
    raw = RAW.decode(gzip.decompress(path.read_bytes()))
    rows = [e for e in raw["traceEvents"] if e["ph"] == "X"]
    (trace,) = load([path]).traces
    texts = trace.strings

    wanted = Counter(
        (
            KINDS[e["cat"]],
            demangled(e["name"]),
            ns(e["ts"]),
            ns(e["ts"]) + ns(e["dur"]),
            *placed(e["args"]),
        )
        for e in rows
        if e["cat"] in KINDS
    )
    ops = trace.device_ops
    columns = (
        ops.start,
        ops.end,
        ops.device,
        ops.stream,
        ops.correlation,
        ops.bytes,
        ops.external_id,
    )
    found = zip(ops.kind, (texts[c] for c in ops.name), *(c.tolist() for c in columns), strict=True)
    assert Counter(found) == wanted

    calls = trace.api_calls
    wanted = Counter(
        (e["name"], ns(e["ts"]), ns(e["dur"]))
        for e in rows
        if e["cat"] in ("cuda_runtime", "cuda_driver")
    )
    lengths = (calls.end - calls.start).tolist()
    assert (
        Counter(zip((texts[c] for c in calls.name), calls.start.tolist(), lengths, strict=True))
        == wanted
    )

    ranges = trace.host_ranges
    wanted = Counter(
        (HOST_KINDS[e["cat"]], e["name"], ns(e["ts"]), str(e["tid"]))
        for e in rows
        if e["cat"] in HOST_KINDS
    )
    tids = [trace.threads[t].tid for t in ranges.thread]
    assert (
        Counter(
            zip(
                ranges.kind,
                (texts[c] for c in ranges.name),
                ranges.start.tolist(),
                tids,
                strict=True,
            )
        )
        == wanted
    )

    assert len(trace.waits) == sum(e["cat"] == "cuda_sync" for e in rows)
    assert len(trace.overheads) == sum(e["cat"] == "overhead" for e in rows)
    assert len(trace.device_ranges) == sum(e["cat"] == "gpu_user_annotation" for e in rows)
    assert trace.health.events == len(raw["traceEvents"])
    health = trace.health
    assert (health.clipped, health.lost, health.repaired, health.truncated) == (0, 0, 0, False)
    assert trace.rank == raw.get("distributedInfo", {}).get("rank")
    assert trace.epoch_ns == raw["baseTimeNanoseconds"]
