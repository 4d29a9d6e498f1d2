"""The hardware table: complete, dense, and found by what a recording says of a device, or not at
all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.trace import Device, OccupancyLimit
from traceanalyzer.trace.hardware import PRECISIONS, HardwareTable

if TYPE_CHECKING:
    from pathlib import Path

TABLE = HardwareTable.load()
GIB = 1 << 30


def find(name: str | None, sms: int | None = None, memory: float | None = None) -> str | None:
    found = TABLE.find(Device(0, name, sms, None if memory is None else int(memory)))
    return found.name if found else None


@pytest.mark.parametrize(
    ("name", "sms", "memory", "expected"),
    [
        ("NVIDIA H200", 132, 150109880320, "H200 SXM"),
        ("NVIDIA H100 80GB HBM3", 132, 79.1 * GIB, "H100 SXM"),
        ("NVIDIA H100 PCIe", 114, 79.2 * GIB, "H100 PCIe"),
        ("NVIDIA H100 NVL", 132, 93.1 * GIB, "H100 NVL"),
        ("NVIDIA A100-SXM4-40GB", 108, 39.4 * GIB, "A100 40GB SXM"),
        ("A100-SXM4-80GB", 108, 79.2 * GIB, "A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", 108, 79.2 * GIB, "A100 80GB PCIe"),
        ("Tesla V100-SXM2-16GB", 80, 15.8 * GIB, "V100 SXM2"),
        ("Tesla T4", 40, 14.6 * GIB, "T4"),
        ("NVIDIA A800-SXM4-80GB", 108, 79.2 * GIB, "A800 80GB SXM"),
        ("NVIDIA A800 80GB PCIe", 108, 79.2 * GIB, "A800 80GB PCIe"),
        ("NVIDIA H800", 132, 79.1 * GIB, "H800 SXM"),
        ("NVIDIA H800 PCIe", 114, 79.1 * GIB, "H800 PCIe"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            188,
            95.0 * GIB,
            "RTX PRO 6000 Blackwell Server",
        ),
        ("NVIDIA B200", 148, 178 * GIB, "B200"),
        ("NVIDIA GH200 480GB", 132, 95 * GIB, "GH200 96GB"),
        ("NVIDIA GeForce RTX 4090", 128, 23.5 * GIB, "GeForce RTX 4090"),
        ("AMD Instinct MI300X", 304, 191.7 * GIB, "Instinct MI300X"),
        ("AMD Instinct MI250X", 110, 64 * GIB, "Instinct MI250X (one of two dies)"),
        ("NVIDIA L40S", None, None, "L40S"),
        ("NVIDIA A10G", 80, 22587 * 2**20, "A10G"),
        ("NVIDIA A10", 72, 22.5 * GIB, "A10"),
        ("NVIDIA L4", 58, 22 * GIB, "L4"),
        ("NVIDIA L40", 142, 44.5 * GIB, "L40"),
        ("NVIDIA RTX A5000", 64, 23.7 * GIB, "RTX A5000"),
        ("NVIDIA RTX A6000", 84, 47.5 * GIB, "RTX A6000"),
        ("NVIDIA GeForce RTX 5070 Ti", 70, 15.9 * GIB, "GeForce RTX 5070 Ti"),
        ("NVIDIA GeForce RTX 5060 Ti", 36, 15.9 * GIB, "GeForce RTX 5060 Ti"),
        ("NVIDIA GB200", 152, 185 * GIB, "GB200"),
        ("AMD Instinct MI210", 104, 64 * GIB, "Instinct MI210"),
        ("AMD Instinct MI355X", 256, 288 * GIB, "Instinct MI355X"),
    ],
)
def test_device_is_found_from_its_name_sms_and_memory(name, sms, memory, expected) -> None:
    assert find(name, sms, memory) == expected


@pytest.mark.parametrize(
    ("name", "sms", "memory"),
    [
        (None, 132, 150109880320),
        ("", None, None),
        ("NVIDIA H200", 60, 70 * GIB),  # a MIG slice
        ("NVIDIA H200", 132, 70 * GIB),
        ("NVIDIA H300", 132, 150109880320),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 76, 16 * GIB),
        ("NVIDIA GeForce RTX 4090 D", 114, 24 * GIB),
        ("NVIDIA A10G", 72, 22 * GIB),
        ("NVIDIA L40", 142, 24 * GIB),
    ],
)
def test_unknown_device_is_not_taken_for_its_nearest_relative(name, sms, memory) -> None:
    assert find(name, sms, memory) is None


@pytest.mark.parametrize("gpu", TABLE.gpus, ids=lambda gpu: gpu.name)
def test_entries_are_complete_and_dense(gpu) -> None:
    assert gpu.source
    assert gpu.memory_gb
    assert gpu.vector["fp32"] > 0
    if not gpu.tensor:
        # Before Volta there are no tensor cores.
        assert "P100" in gpu.name
        return
    assert gpu.tensor["fp16"] > gpu.vector["fp32"] / 2
    if "bf16" in gpu.tensor:
        assert gpu.tensor["bf16"] == gpu.tensor["fp16"]
    # A sparse figure among dense ones would break the ratio of two between precisions.
    if "tf32" in gpu.tensor and gpu.vector["fp32"] < gpu.tensor["tf32"]:
        assert gpu.tensor["fp16"] == pytest.approx(2 * gpu.tensor["tf32"], rel=0.02)
    if "fp8" in gpu.tensor:
        assert gpu.tensor["fp8"] == pytest.approx(2 * gpu.tensor["fp16"], rel=0.03)
    assert 5 < gpu.tensor["fp16"] / gpu.bandwidth < 1000


def test_every_gpu_of_the_list_is_there() -> None:
    names = " ".join(gpu.name for gpu in TABLE.gpus)
    wanted = "V100 T4 A10 A30 A40 A100 L4 L40 L40S H100 H200 H20 GH200 B100 B200 GB200 B300 GB300"
    wanted += " A6000 A5000 A10G 6000 3090 4090 5090 5080 5070 5060 5050"
    assert all(f"{name}" in names.split() for name in wanted.split())
    amd = "MI210 MI250 MI250X MI300A MI300X MI325X MI350X MI355X"
    assert all(name in names.split() for name in amd.split())


def test_sms_that_no_source_states_are_the_recorded_ones() -> None:
    recorded = TABLE.find(Device(0, "NVIDIA GB200", 152, 186_000_000_000))
    assert recorded is not None
    assert recorded.sms == 152
    named = TABLE.find(Device(0, "NVIDIA GB200"))
    assert named is not None
    assert named.sms is None


def test_own_entries_go_first(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[[gpu]]\nname = "mine"\nmatch = ["H200"]\nsource = "measured"\nmemory_gb = 141\nbandwidth_gbs = 4100\n'
        "vector = { fp32 = 60 }\n"
    )
    found = HardwareTable.load(file).find(Device(0, "NVIDIA H200", 132, 150109880320))
    assert found is not None
    assert (found.name, found.bandwidth, found.matrix_peak("bf16"), found.matrix_peak("fp32")) == (
        "mine",
        4.1e12,
        None,
        6e13,
    )


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        '[[gpu]]\nname = "x"\n',
        '[[gpu]]\nname = "x"\nmatch = ["("]\nsource = "s"\nbandwidth_gbs = 1\nvector = {}\n',
        '[[gpu]]\nname = "x"\nmatch = ["x"]\nsource = "s"\nbandwidth_gbs = 1\nvector = { fp33 = 1 }\n',
        '[[gpu]]\nname = "x"\nmatch = ["x"]\nsource = "s"\nbandwidth_gbs = 1\nvector = {}\nbandwith = 1\n',
        '[[gpu]]\nname = "x"\nmatch = ["x"]\nsource = "s"\nbandwidth_gbs = "much"\nvector = {}\n',
    ],
)
def test_bad_file_is_named_with_the_reason(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UnreadableInputError, match=r"mine\.toml: not a valid hardware table"):
        HardwareTable.load(file)


def test_resident_blocks_are_limited_by_threads_registers_and_shared_memory() -> None:
    h200 = TABLE.find(Device(0, "NVIDIA H200"))
    assert h200 is not None
    assert h200.resident_blocks(1024, 32, 0) == 2
    assert h200.resident_blocks(256, 255, 0) == 1
    assert h200.resident_blocks(128, 32, 100 * 1024) == 2
    assert h200.resident_blocks(0, 0, 0) is None
    assert set(PRECISIONS) >= set(h200.tensor) | set(h200.vector)


def test_an_sm_holds_no_more_blocks_than_its_generation_does() -> None:
    """Blocks of 4 threads on a GTX 1660 SUPER: 16 of them, each a warp, of 32 warps."""
    device = Device(
        0, "NVIDIA GeForce GTX 1660 SUPER", 22, compute_capability=(7, 5), bandwidth=3e11
    )
    gpu = TABLE.find(device)
    assert gpu is not None
    assert gpu.resident_blocks(4, 26, 0) == 16
    assert gpu.occupancy_limits(4, 26, 0) is OccupancyLimit.BLOCKS
    assert gpu.resident_blocks(512, 26, 0) == 2
    stated = TABLE.find(replace(device, blocks_per_sm=8))
    assert stated is not None
    assert stated.resident_blocks(4, 26, 0) == 8
    assert TABLE.find(Device(0, "NVIDIA H200")).blocks_per_sm is None


@pytest.mark.parametrize(
    ("name", "sms", "known"),
    [
        ("NVIDIA H100", 132, "H100 SXM"),
        ("NVIDIA H100", 114, "H100 PCIe"),
        ("NVIDIA H100", None, None),
    ],
)
def test_a_name_that_products_share_needs_their_number_of_sms(name, sms, known) -> None:
    found = TABLE.find(Device(0, name, sms))
    assert (None if found is None else found.name) == known


def test_limits_that_a_recording_states_of_an_unknown_gpu_are_used() -> None:
    """An RTX 3050 as nsys describes it: 224 GB/s, 20 SMs at 1.777 GHz with 128 multiply-adds a
    cycle each."""
    device = Device(0, "NVIDIA GeForce RTX 3050", 20, 8 * GIB, (8, 6), None, 224.064e9, 1.777e9)
    found = TABLE.find(device)
    assert found is not None
    assert found.stated
    assert found.bandwidth == 224.064e9
    assert found.vector["fp32"] == pytest.approx(9.1e12, rel=0.01)
    assert found.matrix_peak("fp16") is None
    assert TABLE.find(Device(0, "NVIDIA GeForce RTX 3050", 20)) is None


@pytest.mark.parametrize(
    ("sms", "memory", "expected"),
    [
        (304, 206_141_652_992, "Instinct MI300X"),
        (108, 42_000_000_000, None),
        (303, 206_141_652_992, None),
    ],
)
def test_a_gpu_without_a_name_is_the_only_one_with_its_size(
    sms: int, memory: int, expected: str | None
) -> None:
    found = TABLE.find(Device(0, None, sms, memory))
    assert (found.name if found else None) == expected
    assert TABLE.find(Device(0, "Some Other GPU", sms, memory)) is None
