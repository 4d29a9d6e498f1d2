"""What is written when memory runs out, with an allocator that is made up."""

from __future__ import annotations

import _thread
import time
from pathlib import Path
from typing import Any

import pytest

from tests.snapshots import FORWARD, MIB, SEGMENT, content, event, segment
from traceanalyzer.analysis.memory.measure import measured_memory
from traceanalyzer.collect.profilers import memory_history
from traceanalyzer.collect.profilers.memory_history import MemoryHistory
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.document import memory_document

torch = pytest.importorskip("torch")
BLOCKS = [
    (SEGMENT, 30 * MIB, 30 * MIB, "active_allocated"),
    (SEGMENT + 30 * MIB, 10 * MIB, 0, "inactive"),
]
STALE = event("alloc", SEGMENT, 30 * MIB, FORWARD)


class Allocator:
    """Calls the observer as PyTorch does; `recording` is what was asked of the history."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recording: list[Any] = []
        self.observers: list[Any] = []
        monkeypatch.setattr(memory_history.cuda, "in_use", lambda: True)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", self.record)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", self.snapshot)
        monkeypatch.setattr(
            torch._C, "_cuda_attach_out_of_memory_observer", self.observers.append, raising=False
        )

    def record(self, enabled: Any = "all", **_: Any) -> None:
        self.recording.append(enabled)

    def snapshot(self) -> dict[str, Any]:
        return content([STALE], [segment(BLOCKS, 40 * MIB)])

    def fail(self, asked: int, free: int) -> None:
        for observer in self.observers:
            observer(0, asked, 80 << 30, free)


def paused(monkeypatch: pytest.MonkeyPatch, file: Path) -> Allocator:
    allocator = Allocator(monkeypatch)
    history = MemoryHistory(lambda: file)
    history.begin()
    history.pause()
    assert allocator.recording == ["all", None]
    return allocator


def test_a_failure_while_steps_are_timed_leaves_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memory.rank0.pickle"
    paused(monkeypatch, file).fail(asked=20 * MIB, free=2 * MIB)
    snapshot = read_snapshot(file)
    (device,) = measured_memory(snapshot)
    oom = device.oom
    assert oom is not None
    assert (oom.requested_bytes, oom.device_free_bytes, oom.allocated_bytes) == (
        20 * MIB,
        2 * MIB,
        30 * MIB,
    )
    assert oom.largest_free_block_bytes == 10 * MIB
    assert oom.site.startswith("test_memory_history.py:")
    assert device.at_peak["before_recording"] == device.peak_bytes == 30 * MIB
    assert "Out of memory on GPU 0" in memory_document(memory_report(snapshot)).terminal(
        80, colour=False
    )


def test_a_failure_in_a_thread_without_python_is_where_the_program_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memory.rank0.pickle"
    allocator = paused(monkeypatch, file)
    done: list[None] = []
    monkeypatch.setattr(memory_history, "_drop_if_large", lambda _: done.append(None))
    # as autograd's thread: nothing of Python is above the observer
    _thread.start_new_thread(allocator.observers[0], (0, 20 * MIB, 80 << 30, 2 * MIB))
    deadline = time.monotonic() + 30
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
    oom = measured_memory(read_snapshot(file))[0].oom
    assert oom is not None
    assert oom.site.startswith("test_memory_history.py:")


def test_of_a_failure_without_a_history_no_cause_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memory.rank0.pickle"
    allocator = paused(monkeypatch, file)
    blocks = [(SEGMENT + k * MIB, MIB, MIB, "active_allocated") for k in range(40)]
    monkeypatch.setattr(
        torch.cuda.memory, "_snapshot", lambda: content([], [segment(blocks, 40 * MIB)])
    )
    allocator.fail(asked=4 * MIB, free=0)
    oom = measured_memory(read_snapshot(file))[0].oom
    assert oom is not None
    assert oom.verdict == "unknown"
    assert "before the history" in memory_report(read_snapshot(file)).headline


def test_a_failure_of_the_snapshot_stays_the_collectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator = paused(monkeypatch, tmp_path / "gone" / "memory.rank0.pickle")
    allocator.fail(asked=20 * MIB, free=0)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: 1 // 0)
    allocator.fail(asked=20 * MIB, free=0)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_is_too_large_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_history, "MAX_BYTES", 100)
    paused(monkeypatch, tmp_path / "memory.rank0.pickle").fail(asked=20 * MIB, free=0)
    assert list(tmp_path.iterdir()) == []
