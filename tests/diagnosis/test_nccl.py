"""Findings on NCCL's log: sockets, no GPUDirect RDMA, no P2P, few channels, warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.nccl_logs import EFA, INFINIBAND, SOCKETS, WORKSTATION
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.effort import with_efforts
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest.plain.nccl import nccl_log, nccl_sentence
from traceanalyzer.ingest.run import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.diagnosis.finding import Diagnosis


def diagnosed(tmp_path: Path, text: str) -> Diagnosis:
    path = tmp_path / "nccl.log"
    path.write_text(text, encoding="utf-8")
    (trace,) = load([path]).traces
    found = diagnose(measure(trace))
    return replace(found, recommendations=with_efforts(found.recommendations))


def ids(found: Diagnosis) -> list[str]:
    return [one.id for one in found.findings]


def test_sockets_between_nodes(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, SOCKETS)
    assert ids(found) == ["nccl-socket"]
    evidence = [(one.metric, one.value) for one in found.findings[0].evidence]
    assert evidence == [
        ("over sockets", "3 of 3 connections between nodes"),
        ("InfiniBand", "Failed to open libibverbs.so[.1]"),
    ]
    (advice,) = found.recommendations
    assert (advice.effort, advice.predicted_step_ms) == ("hours", None)
    assert advice.action.startswith("Install rdma-core (libibverbs) in the image")
    off = SOCKETS + "node01:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    (advice,) = diagnosed(tmp_path, off).recommendations
    assert advice.effort == "one line"
    assert advice.action.startswith("Unset NCCL_IB_DISABLE, which takes InfiniBand")


def test_lines_of_one_rank_name_the_network_that_the_others_use(tmp_path: Path) -> None:
    lines = [line for line in SOCKETS.splitlines() if "via NET" not in line]
    within = "node01:51632:51703 [0] NCCL INFO Channel 00/0 : 0[17000] -> 1[1b000] via P2P/IPC"
    alone = "\n".join([*lines, within])
    found = diagnosed(tmp_path, alone)
    assert ids(found) == ["nccl-socket"]
    assert found.findings[0].evidence[0].value == "network Socket"
    log = nccl_log(alone)
    assert log is not None
    assert "network Socket between nodes" in nccl_sentence(log)


def test_a_way_through_host_memory_in_every_ring(tmp_path: Path) -> None:
    ring = [
        f"ws:1:1 [0] NCCL INFO Channel {channel:02d}/0 : {rank}[{rank}] -> {(rank + 1) % 8}[0] via "
        + ("SHM/direct" if rank == 3 else "P2P/CUMEM")
        for channel in range(2)
        for rank in range(8)
    ]
    counted = "ws:1:1 [0] NCCL INFO 2 coll channels, 0 nvls channels, 2 p2p channels"
    found = diagnosed(tmp_path, "\n".join([*ring, counted]))
    assert ids(found) == ["nccl-no-p2p"]
    values = [one.value for one in found.findings[0].evidence]
    assert values == ["2 of 16 connections", 2]
    one_ring = [line for line in ring if "01/0 : 3" not in line]
    assert ids(diagnosed(tmp_path, "\n".join([*one_ring, counted]))) == []


def test_p2p_that_the_environment_takes_away(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, WORKSTATION)
    assert ids(found) == ["nccl-no-p2p"], "Using network Socket: on one node nothing does"
    (advice,) = found.recommendations
    assert advice.effort == "one line"
    assert advice.action.startswith("Unset NCCL_P2P_DISABLE, which keeps GPUs")
    alone = WORKSTATION.replace("NCCL_P2P_DISABLE set by environment to 1.", "nothing is set")
    (advice,) = diagnosed(tmp_path, alone).recommendations
    assert advice.effort == "hours"
    assert "nvidia-smi topo -p2p r" in advice.action
    # a level that reaches as far as the machine takes nothing away
    far = WORKSTATION.replace(
        "NCCL_P2P_DISABLE set by environment to 1", "NCCL_P2P_LEVEL set by environment to SYS"
    )
    (advice,) = diagnosed(tmp_path, far).recommendations
    assert "Unset" not in advice.action


def test_a_network_through_host_memory_that_fails(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, INFINIBAND)
    assert ids(found) == ["nccl-no-gpudirect", "nccl-warnings"]
    assert found.findings[0].evidence[0].value == "8 of 8 connections"
    warning = found.findings[1].evidence[0]
    assert str(warning.value).startswith("NET/IB: Got completion from peer")
    assert warning.where == "2 times"
    assert "NCCL warns: NET/IB: Got completion" in found.summary.headline
    (advice,) = found.recommendations
    assert "nvidia_peermem" in advice.action


def test_nothing_to_find(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, EFA)
    assert (found.findings, found.recommendations) == ([], [])
    # one connection of two channels: the other ring has none
    some = WORKSTATION.replace("via direct shared memory", "via P2P/IPC", 3)
    assert ids(diagnosed(tmp_path, some)) == []


def test_few_channels(tmp_path: Path) -> None:
    few = "ip-10-0-1-7:88:120 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to {}.\n"
    found = diagnosed(tmp_path, EFA + few.format(2))
    assert ids(found) == ["nccl-few-channels"]
    assert found.recommendations[0].effort == "one line"
    assert ids(diagnosed(tmp_path, EFA + few.format(16))) == []
