"""Samples of GPUs and CPUs beside a recording."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.ingest.test_capture import capture
from traceanalyzer.collect.host import nvml
from traceanalyzer.ingest.conditions import sampled_loads

if TYPE_CHECKING:
    from pathlib import Path

GPU = {
    "gpu": 0,
    "gpu_utilization": 90,
    "memory_used_bytes": 20e9,
    "power_w": 600.0,
    "sm_clock_mhz": 1980,
}


def test_means_by_gpu_and_of_the_cpus() -> None:
    samples = [
        GPU,
        {**GPU, "gpu_utilization": 100, "power_w": None},
        {**GPU, "gpu": 1, "power_w": 100},
    ]
    samples.append(
        {"time_ns": 1, "host_cpu_share": 0.25, "host_iowait_share": 0.0, "program_cores": 7.5}
    )
    rows = {row.what: row for row in sampled_loads(samples)}
    busy = rows["GPU 0: time with a kernel"]
    assert (busy.mean, busy.min, busy.max, busy.samples, busy.counted_in) == (95, 90, 100, 2, "%")
    assert (rows["GPU 0: power"].mean, rows["GPU 0: power"].samples) == (600, 1)
    assert rows["GPU 1: power"].mean == 100
    assert rows["GPU 0: memory used, by all processes"].mean == pytest.approx(20)
    assert rows["host: CPUs busy"].mean == 25
    assert rows["host: CPUs used by the program and its workers"].mean == 7.5
    assert "GPU 0: time with memory traffic" not in rows


@pytest.mark.parametrize(
    "damaged", [{"gpu": "0"}, {"gpu": -1}, {"gpu": 0, "power_w": "much"}, {"power_w": 1e300}, {}]
)
def test_damaged_samples_say_nothing(damaged: dict[str, object]) -> None:
    assert sampled_loads([damaged]) == ()


def test_a_capture_has_them_as_a_table(tmp_path: Path) -> None:
    capture(tmp_path)
    (tmp_path / "nvml.rank0.jsonl").write_text(json.dumps(GPU) + '\n{"gpu": 0, "po')
    rows = ta.analyze(str(tmp_path)).tables["load"]
    assert (rows[0].what, rows[0].mean) == ("GPU 0: time with a kernel", 90)
    assert len(rows) == 4


def test_cores_of_a_program_that_computes() -> None:
    before = nvml.read_cpus(os.getpid())
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        first = nvml.read_cpus(os.getpid())
        time.sleep(0.5)
        last = nvml.read_cpus(os.getpid())
    finally:
        busy.kill()
        busy.wait()
    assert before is not None
    assert first is not None
    assert last is not None
    load = nvml.cpu_load(first, last)
    assert load is not None
    assert 0.02 < load["program_cores"] < 2
    assert 0 < load["host_cpu_share"] <= 1
    assert nvml.cpu_load(first, first) is None


def test_no_proc_no_load(tmp_path: Path) -> None:
    assert nvml.read_cpus(1, tmp_path) is None
