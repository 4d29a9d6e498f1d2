"""CUDA memory snapshots: what is said of them, and that reading one runs nothing."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from traceanalyzer.ingest import memory_snapshot
from traceanalyzer.ingest.memory_snapshot import memory_conditions

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def segment(device: int, total: int, allocated: int) -> dict[str, Any]:
    return {"device": device, "total_size": total * MIB, "allocated_size": allocated * MIB, "blocks": []}


def entry(action: str, size: int) -> dict[str, Any]:
    return {"action": action, "addr": 0, "size": size * MIB, "frames": []}


def written(folder: Path, snapshot: object) -> Path:
    path = folder / "memory.rank0.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    return path


def test_what_the_allocator_held_at_the_end_and_at_most(tmp_path: Path) -> None:
    history = [
        entry("alloc", 300),
        entry("free_requested", 300),
        entry("segment_alloc", 5000),
        entry("alloc", 50),
        entry("free_completed", 300),
        entry("free_completed", 40),
    ]
    segments = [segment(0, 1000, 100), segment(1, 64, 2), segment(0, 500, 20)]
    snapshot = {"segments": segments, "device_traces": [history, []]}
    conditions, notes = memory_conditions(written(tmp_path, snapshot))
    assert notes == ()
    # before the history 110 MiB were allocated: then 410, 460, 160, 120
    assert [(c.name, c.value, c.spoils) for c in conditions] == [
        (
            "GPU 0 allocator",
            "1,500 MiB reserved in 2 segments, 120 MiB allocated at the end, 460 MiB at most while recorded",
            "",
        ),
        ("GPU 1 allocator", "64 MiB reserved in 1 segments, 2 MiB allocated at the end", ""),
    ]


class Harmful:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.victim),)


def test_nothing_in_the_file_is_run(tmp_path: Path) -> None:
    victim = tmp_path / "made"
    conditions, (note,) = memory_conditions(written(tmp_path, {"segments": [Harmful(victim)]}))
    assert conditions == ()
    assert "memory.rank0.pickle is not a CUDA memory snapshot that can be read safely" in note
    assert not victim.exists()


OTHER: list[object] = [[1], {"segments": [{}]}, {"segments": 3}]


@pytest.mark.parametrize("content", [b"", b"no pickle", *map(pickle.dumps, OTHER)])
def test_other_files_are_left_out(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.rank0.pickle"
    path.write_bytes(content)
    assert memory_conditions(path)[0] == ()
    assert "left out" in memory_conditions(path)[1][0]


def test_a_huge_one_is_left_to_the_viewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_snapshot, "MAX_BYTES", 3)
    assert "was not read" in memory_conditions(written(tmp_path, {}))[1][0]
