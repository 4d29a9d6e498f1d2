"""A recording in progress ends by time and memory."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.collect.host import bounds


def test_the_longest_step_bounds_the_time():
    assert bounds.bounds_of(6, 1.0, None).deadline_s == pytest.approx(time.monotonic() + 30, abs=2)
    short = bounds.bounds_of(6, 0.001, None)
    assert short.deadline_s == pytest.approx(time.monotonic() + bounds.LEAST_SECONDS, abs=1)
    assert bounds.bounds_of(6, None, None).deadline_s == float("inf")
    assert bounds.bounds_of(6, None, 3.0).deadline_s == pytest.approx(time.monotonic() + 3, abs=1)


def test_what_is_passed_is_said():
    assert bounds.bounds_of(1, None, None).exceeded() is None
    assert "many times" in bounds.bounds_of(1, None, 0.0).exceeded()
    assert "memory" in bounds.Bounds(float("inf"), 1).exceeded()


def test_the_control_group_bounds_the_free_memory(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4000\n")
    monkeypatch.setattr(bounds, "CGROUP", tmp_path)
    assert bounds.free_disk_bytes() == 1000
    (tmp_path / "memory.max").write_text("max\n")
    assert bounds.free_disk_bytes() > 1000
