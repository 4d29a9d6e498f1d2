"""Grid, block, registers, shared memory and occupancy of kernels, as either recorder writes
them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.kineto_builder import KinetoTrace
from tests.nsys_builder import Export
from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import DeviceOps

LAUNCH = ("blocks", "threads", "registers", "shared_bytes", "occupancy")


def configuration(ops: DeviceOps, row: int = 0) -> list[int]:
    return [int(getattr(ops, name)[row]) for name in LAUNCH]


def read_kineto(tmp_path: Path, **args: object) -> DeviceOps:
    t = KinetoTrace()
    t.launched("k", 0, 10, 5)
    t.rows[-1]["args"] |= {key.replace("_", " "): value for key, value in args.items()}
    return load([t.write(tmp_path / "t.json")]).traces[0].device_ops


def test_kineto_kernel(tmp_path: Path) -> None:
    launch = {
        "grid": [320, 2, 3],
        "block": [32, 4, 1],
        "registers_per_thread": 27,
        "shared_memory": 1024,
    }
    ops = read_kineto(tmp_path, **launch, **{"est. achieved occupancy %": 61})
    assert configuration(ops) == [1920, 128, 27, 1024, 61]
    assert (ops.blocks.dtype, ops.occupancy.dtype) == (np.int16, np.int16)


@pytest.mark.parametrize("odd", [None, "x", [1, 2], [], {"a": 1}, [1.5, 2, 3], [1, None, 3], 5])
def test_odd_grid_is_unknown_and_costs_nothing_else(tmp_path: Path, odd: object) -> None:
    ops = read_kineto(tmp_path, grid=odd, block=[64, 1, 1], registers_per_thread=8)
    assert configuration(ops) == [-1, 64, 8, -1, -1]


def test_values_of_other_types_are_taken_as_numbers_or_left_out(tmp_path: Path) -> None:
    odd = {"registers_per_thread": "32", "shared_memory": None, "est. achieved occupancy %": 12.5}
    assert configuration(read_kineto(tmp_path, grid=[2**40, 2**40, 1], **odd)) == [
        -1,
        -1,
        32,
        -1,
        12,
    ]


def test_copies_have_no_launch_configuration(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.copy("HtoD (Pinned -> Device)", 0, 5, bytes=100)
    assert configuration(load([t.write(tmp_path / "t.json")]).traces[0].device_ops) == [-1] * 5


def test_nsys_kernel(tmp_path: Path) -> None:
    export = Export()
    grid = {"gridX": 10, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 2, "blockZ": 1}
    export.kernel(
        1000, 2000, **grid, registersPerThread=40, staticSharedMemory=100, dynamicSharedMemory=2000
    )
    export.copy(3000, 4000)
    ops = load([export.write(tmp_path / "t.sqlite")]).traces[0].device_ops
    assert configuration(ops) == [20, 256, 40, 2100, -1]
    assert configuration(ops, 1) == [-1] * 5


def test_nsys_kernel_of_a_schema_without_the_columns(tmp_path: Path) -> None:
    export = Export()
    export.kernel(1000, 2000)
    ops = load([export.write(tmp_path / "t.sqlite")]).traces[0].device_ops
    assert configuration(ops) == [-1] * 5
