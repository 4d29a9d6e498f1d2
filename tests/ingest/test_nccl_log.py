"""NCCL's own log (NCCL_DEBUG=INFO): ways between ranks, channels, settings, warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.nccl_logs import EFA, INFINIBAND, SOCKETS, WORKSTATION
from traceanalyzer.ingest.plain.nccl import nccl_log
from traceanalyzer.ingest.run import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace

PREFIXES = (
    "",
    "[rank0]: ",
    "2024-05-01T10:00:00.123Z ",
    "(RayTrainWorker pid=4711) ",
    "worker-0 | ",
)


def traced(tmp_path: Path, text: str, name: str = "nccl.txt") -> Trace:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    (trace,) = load([path]).traces
    return trace


def test_ways_between_ranks() -> None:
    found = {
        name: (
            log.version,
            log.ranks,
            log.nodes,
            log.processes,
            log.channels,
            dict(log.connections),
        )
        for name, text in {"s": SOCKETS, "w": WORKSTATION, "e": EFA, "i": INFINIBAND}.items()
        if (log := nccl_log(text))
    }
    assert found == {
        # three by both ends and one by one of them: both ends of a connection are one
        "s": ("2.18.3+cuda12.1", 2, 2, 2, 2, {"NET/Socket": 3}),
        "w": ("2.10.3+cuda11.3", 2, 1, 2, 2, {"SHM": 4}),
        "e": ("2.19.4+cuda12.2", 16, 1, 1, 8, {"NET/AWS Libfabric/GDRDMA": 1, "P2P": 1}),
        "i": ("2.21.5+cuda12.4", 16, 2, 16, 16, {"P2P": 56, "NET/IB": 8}),
    }


def test_why_and_what_is_set() -> None:
    sockets, workstation, infiniband = map(nccl_log, (SOCKETS, WORKSTATION, INFINIBAND))
    assert sockets is not None
    assert workstation is not None
    assert infiniband is not None
    assert sockets.without_ib == "Failed to open libibverbs.so[.1]"
    assert workstation.settings == {"NCCL_P2P_DISABLE": "1"}
    assert infiniband.without_gdr == "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 4)"
    assert (sockets.nvls, infiniband.nvls) == (None, True), "0 channels are no channels of it"
    # warnings that differ by an address are one
    assert list(infiniband.warnings.values()) == [2]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_a_collector_of_logs_puts_before_lines(prefix: str, tmp_path: Path) -> None:
    text = "".join(f"{prefix}{line}\n" for line in SOCKETS.splitlines())
    trace = traced(tmp_path, text)
    assert trace.source == "nccl_log"
    assert trace.pasted is not None
    assert trace.pasted.what == "A log of NCCL (NCCL_DEBUG), version 2.18.3+cuda12.1"
    assert trace.pasted.tells == (
        "2 ranks on 2 nodes, 2 channels: 3 connections over TCP sockets (NET/Socket)."
    )


def test_a_log_of_one_rank_says_so(tmp_path: Path) -> None:
    pasted = traced(tmp_path, EFA).pasted
    assert pasted is not None
    assert pasted.tells.endswith(
        "1 connection over NET/AWS Libfabric with GPUDirect RDMA, 1 by P2P."
    )
    assert "Lines of 1 of 16 ranks are here" in pasted.notes[0]


def test_beside_steps_and_beside_a_table(tmp_path: Path) -> None:
    """A trainer's log is one of steps, whose ranks are not those of NCCL's lines; nccl-tests' table is
    one."""
    steps = "".join(f"step {n} loss 2.0 step_time_ms: 310\n" for n in range(60))
    trace = traced(tmp_path, INFINIBAND + steps, "train.log")
    assert (trace.source, len(trace.step_timings)) == ("timing_log", 60)
    assert trace.nccl is not None
    assert trace.nccl.ranks == 16
    assert any(note.startswith("NCCL: 16 ranks on 2 nodes") for note in trace.health.notes)
    table = (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "     1048576        262144     float     sum      -1    42.10   24.91   43.59      0\n"
    )
    trace = traced(tmp_path, SOCKETS + table, "tests.log")
    assert trace.source == "printed_averages"
    assert trace.pasted is not None
    assert any("over TCP sockets" in note for note in trace.pasted.notes)


def test_cut_and_odd_lines(tmp_path: Path) -> None:
    """What is cut anywhere is read as far as it goes; a word alone is no log."""
    for end in range(100, len(INFINIBAND), 397):
        assert nccl_log(INFINIBAND[:end]) is not None or end < 130
    assert nccl_log("we set NCCL INFO in the environment\nNCCL version 2.1.0") is None
    odd = nccl_log("h:1:1 [0] NCCL INFO Channel x : via\nh:1:1 [0] NCCL WARN \n")
    assert odd is not None
    assert not odd.connections
