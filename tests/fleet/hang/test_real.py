"""Hangs that happened: two of 16 GPUs that NVIDIA published with their injection logs
(nvidia-resiliency-ext, Apache-2.0), and nine of gloo on the CPU (`python -m benchmarks.gloo_hangs`,
PyTorch 2.13), five of NCCL on four GPUs (`python -m benchmarks.nccl_hangs`, PyTorch 2.11), faults
known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.gloo_hangs import EXPECTED, WORLD
from benchmarks.nccl_hangs import STRUCK
from traceanalyzer.fleet.hang.document import hang_headline
from traceanalyzer.fleet.hang.model import Hang, hang_of
from traceanalyzer.ingest.flight_recorder.folder import read_flight


def found(folder: Path, world: int | None = None) -> Hang:
    """What is said of a folder."""
    return hang_of(read_flight(folder, world=world))


@pytest.mark.parametrize(
    ("name", "kind"), [("gpu_error_1st", "gpu_stopped"), ("lock_gil_1st", "cpu_stopped")]
)
def test_a_published_hang(name: str, kind: str, hangs: Path) -> None:
    folder = hangs / "nvidia" / name
    injected = re.findall(r"Rank (\d+), fault_type", (folder / "fault_injection.log").read_text())
    verdict = found(folder).verdict
    assert (set(verdict.culprits), verdict.kind, verdict.confidence) == (
        {*map(int, injected)},
        kind,
        "sure",
    )
    assert verdict.victims == 14


@pytest.mark.parametrize("fault", EXPECTED)
def test_a_hang_of_gloo(fault: str, hangs: Path) -> None:
    verdict = found(hangs / "gloo" / fault, WORLD).verdict
    assert (set(verdict.culprits), verdict.kind) == EXPECTED[fault]
    if verdict.collective and verdict.kind != "no_dump":
        assert re.fullmatch(r".*/gloo_hangs\.py:\d+ \(\w+\)", verdict.frame or "")


KINDS = {
    "skip": "order",
    "size": "mismatch",
    "order": "order",
    "killed": "no_dump",
    "blocked": "cpu_stopped",
}


@pytest.mark.parametrize("fault", STRUCK)
def test_a_hang_of_four_gpus(fault: str, hangs: Path) -> None:
    verdict = found(hangs / "nccl" / fault, 4).verdict
    assert (set(verdict.culprits), verdict.kind) == ({STRUCK[fault]}, KINDS[fault])
    assert verdict.victims == 3


def test_two_sizes_are_named_with_their_ranks(hangs: Path) -> None:
    (mismatch,) = found(hangs / "nccl" / "size", 4).mismatches
    assert mismatch.ranks == (2,)
    assert mismatch.issued == "all_reduce of 262,144 Float"
    assert mismatch.others == "all_reduce of 1,048,576 Float"
    text = hang_headline(found(hangs / "nccl" / "size", 4))
    assert "Rank 2 issued all_reduce of 262,144 Float, rank 0 all_reduce of 1,048,576" in text


@pytest.mark.parametrize("lost", range(16))
def test_without_the_dump_of_a_victim_nobody_else_is_sure_to_blame(
    lost: int, hangs: Path, tmp_path: Path
) -> None:
    culprits = {12, 14}
    for path in (hangs / "nvidia" / "gpu_error_1st").glob("_dump_*"):
        if path.name != f"_dump_{lost}":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    hang = found(tmp_path)
    assert hang.inputs.missing == (lost,)
    assert hang.verdict.confidence != "sure" or set(hang.verdict.culprits) <= culprits
    assert culprits - {lost} <= set(hang.verdict.culprits)
