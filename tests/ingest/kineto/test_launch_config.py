"""What newer recordings state of launches: graph nodes, occupancy limits, Triton's options."""

from __future__ import annotations

import msgspec
import pytest

from tests.ingest.kineto.test_kineto import read  # noqa: F401 a fixture
from tests.kineto_builder import KinetoTrace
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest.kineto.arguments import Occupancies, Occupancy
from traceanalyzer.trace import OccupancyLimit as Limit

NOT_RECORDED = Occupancy(-1, 0)
LIMITED = {
    "activeBlocksPerMultiprocessor": 2,
    "limitingFactors": "REGS|SMEM",
    "blockLimitRegs": 2,
    "blockLimitSharedMem": 2,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (msgspec.json.encode(LIMITED), Occupancy(2, Limit.REGISTERS | Limit.SHARED_MEMORY)),
        (b'{"activeBlocksPerMultiprocessor": 16, "limitingFactors": "none"}', Occupancy(16, 0)),
        (b'{"limitingFactors": "BARRIERS|SOMETHING"}', Occupancy(-1, Limit.BARRIERS)),
        (b'{"activeBlocksPerMultiprocessor": 99999999999999}', NOT_RECORDED),
        (b'{"activeBlocksPerMultiprocessor": "2"}', NOT_RECORDED),
        (b'"full"', NOT_RECORDED),
        (b"", NOT_RECORDED),
    ],
)
def test_occupancy_as_stated_or_not_at_all(text: bytes, expected: Occupancy) -> None:
    assert Occupancies()[text] == expected


def test_each_field_reaches_the_table_of_kernels(read) -> None:  # noqa: F811
    t = KinetoTrace()
    t.op(
        "triton_poi_fused_add_0",
        0,
        90,
        kernel_backend="triton",
        kernel_kwargs="XBLOCK=16,YBLOCK=2",
        num_warps="4",
        num_stages=1,
    )
    for i in range(4):
        t.launched("triton_poi_fused_add_0", 10 * i + 1, 10 * i + 5, 2, graph=1)
        t.rows[-1]["args"] |= {
            "graph id": 12,
            "graph node id": (12 << 32) + i % 2,
            "occupancy": LIMITED,
        }
        t.rows[-1]["args"] |= {
            "grid": [264, 1, 1],
            "block": [128, 1, 1],
            "est. achieved occupancy %": 12,
        }
    trace = read(t)
    ops = trace.device_ops
    assert ops.graph_node.tolist() == [(12 << 32) + i % 2 for i in range(4)]
    assert set(ops.resident_blocks.tolist()) == {2}
    (row,) = measure(trace).kernels
    assert (row.graph_nodes, row.occupancy_limit) == (2, "registers and shared memory")
    assert row.launch_options == "XBLOCK=16, YBLOCK=2, 4 warps, 1 stage"
    assert row.occupancy_share == pytest.approx(0.12)


def test_a_stream_that_is_waited_for_is_no_work(read) -> None:  # noqa: F811
    t = KinetoTrace()
    t.launched("gemm", 1, 5, 10, graph=1)
    args = {
        "cuda_sync_kind": "Stream Sync",
        "stream": 7,
        "correlation": 9,
        "device": 0,
        "context": 1,
    }
    row = {
        "ph": "X",
        "cat": "cuda_sync",
        "name": "Stream Sync",
        "pid": 0,
        "tid": "stream 7 sync",
        "ts": 20.0,
        "dur": 50.0,
    }
    t.rows.append({**row, "args": args})
    trace = read(t)
    assert len(trace.device_ops) == 1
    assert len(trace.waits) == 1
    assert measure(trace).timed.activity[0].busy.total == 10_000
