"""What PyTorch's allocator asked of the device while steps were timed, by a stand-in for CUDA."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.torch_profiler import record

COUNTED = {
    "num_device_alloc": 7,
    "num_device_free": 5,
    "num_alloc_retries": 0,
    "num_sync_all_streams": 1,
}
STEPS = 4


def _device(memory_stats: object) -> SimpleNamespace:
    return SimpleNamespace(
        cuda=SimpleNamespace(is_initialized=lambda: True, memory_stats=memory_stats)
    )


def test_the_calls_between_two_readings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {**COUNTED, "allocated_bytes.all.peak": 1 << 30}
    monkeypatch.setitem(sys.modules, "torch", _device(lambda: counted))
    before = cuda.allocator_calls()
    assert before == COUNTED
    counted["num_device_alloc"] += 3
    assert cuda.calls_since(before) == {
        "num_device_alloc": 3,
        "num_device_free": 0,
        "num_alloc_retries": 0,
        "num_sync_all_streams": 0,
    }


def test_an_allocator_that_does_not_count_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> dict[str, int]:
        raise RuntimeError("memory_stats is not supported by this allocator")

    monkeypatch.setitem(sys.modules, "torch", _device(refuses))
    assert cuda.allocator_calls() == {}
    assert cuda.calls_since(COUNTED) == {}
    monkeypatch.delitem(sys.modules, "torch")
    assert cuda.allocator_calls() == {}


def test_a_capture_keeps_them_and_asks_outside_of_the_timed_steps(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    steps = 0
    asked_after = []

    def counts() -> dict[str, int]:
        asked_after.append(steps)
        return {"num_device_alloc": 2 * steps}

    monkeypatch.setattr(cuda, "allocator_calls", counts)
    options = {"wait": 1, "unprofiled_steps": STEPS, "light_steps": 0, "warmup": 1, "active": 1}
    with record(tmp_path, **options) as recording:
        while not recording.finished:
            steps += 1
            recording.step()
    timed = json.loads((tmp_path / "unprofiled.rank0.json").read_text())
    first, last = asked_after
    assert last - first == timed["timed_steps"]
    assert timed["allocator"] == {"num_device_alloc": 2 * timed["timed_steps"]}
