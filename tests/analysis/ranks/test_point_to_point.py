"""Who sends whom how much: from Kineto traces of a pipeline, written by hand as PyTorch writes
them."""

from __future__ import annotations

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer import load
from traceanalyzer.analysis.ranks.skew import traffic
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.build import report_of
from traceanalyzer.report.html.rank_charts import traffic_chart as chart_of

STEPS = 4
STEP_US = 1000


def point_to_point(trace, kind, at, elements, peer, dtype="Float"):
    """A send or a receive: its host range says the peer, its kernel is launched inside."""
    side = {"Dst_Rank": peer} if kind == "send" else {"Src_Rank": peer}
    trace.op(
        "record_param_comms",
        at,
        20,
        Collective_name=kind,
        In_msg_nelems=elements,
        Out_msg_nelems=elements,
        dtype=dtype,
        Group_size=3,
        Process_Group_Ranks="[0, 1, 2]",
        **side,
    )
    trace.launched(
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", at + 5, at + 30, 100, stream=20
    )


def recording(tmp_path, rank, calls):
    """A rank's steps, each with a kernel and these calls."""
    trace = KinetoTrace().rank(rank, 3)
    for i in range(STEPS):
        begin = i * STEP_US
        trace.step(i, begin, STEP_US - 10)
        trace.launched("gemm", begin + 10, begin + 20, 300)
        for n, (kind, elements, peer, *dtype) in enumerate(calls):
            point_to_point(trace, kind, begin + 350 + 150 * n, elements, peer, *dtype)
    return trace.write(tmp_path / f"rank{rank}.json")


@pytest.fixture
def pipeline(tmp_path):
    """Ranks 0 and 1 of three: 0 sends to 1 forwards, 1 sends back, and on to 2, whose recording is
    missing."""
    return [
        recording(tmp_path, 0, [("send", 1000, 1), ("recv", 500, 1)]),
        recording(
            tmp_path,
            1,
            [("recv", 1000, 0), ("send", 500, 0), ("send", 700, 2, "BFloat16"), ("recv", 9, 2)],
        ),
    ]


def test_peers_are_read_and_bytes_a_step_added_up(pipeline):
    rows = traffic([m.timed for m in measured(load(*pipeline)).each])
    seen = {(row.sender, row.receiver): (row.messages, row.bytes, row.seen_by) for row in rows}
    assert seen == {
        (0, 1): (1.0, 4000.0, "sender"),
        (1, 0): (1.0, 2000.0, "sender"),
        (1, 2): (1.0, 1400.0, "sender"),
        (2, 1): (1.0, 36.0, "receiver"),
    }
    assert [row.bytes for row in rows] == sorted((row.bytes for row in rows), reverse=True)


def test_a_message_of_unknown_size_is_counted_without_bytes(tmp_path):
    path = recording(tmp_path, 0, [("send", 1000, 1, "Unheard"), ("send", 1000, 1)])
    (row,) = traffic([m.timed for m in measured(load(path)).each])
    assert (row.messages, row.bytes) == (2.0, None)


@pytest.mark.parametrize("peer", ["one", -3, "", 2**40, None, [1]])
def test_a_peer_that_is_no_rank_is_none(tmp_path, peer):
    assert (
        traffic(
            [m.timed for m in measured(load(recording(tmp_path, 0, [("send", 1000, peer)]))).each]
        )
        == []
    )


def test_collectives_have_no_peer(tmp_path):
    assert (
        traffic(
            [m.timed for m in measured(load(recording(tmp_path, 0, [("allreduce", 1000, 1)]))).each]
        )
        == []
    )


def test_the_map_has_a_cell_for_each_pair(pipeline):
    report = report_of(measured(load(*pipeline)))
    chart = chart_of(report)
    (cells,) = chart.plot.marks
    assert cells.boxes[0].hint == "rank 0 to rank 1: 4.00 kB a step in 1 messages"
    assert cells.boxes[0].strength == 1.0
    assert list(chart.plot.x.names) == ["rank 0", "rank 1", "rank 2"]
    at = [(box.x0, box.y0) for box in cells.boxes]
    assert at[0] == (1 - 0.48, 0 - 0.46), "from the left to below"
