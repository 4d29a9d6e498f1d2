"""What the GPU reaches, with the clock and the process stood in for."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest

from tests.collect.running import SCRIPTS, SMALL, collect
from traceanalyzer.collect import ceilings
from traceanalyzer.collect.host import environment
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.ingest.conditions import environment_conditions, measured_ceilings

REACHED = {"gpu": "NVIDIA H200", "copy_gbs": 4280.0, "matmul_tflops": {"bf16": 790.0, "fp32": 51.5}}


def test_rates_are_bytes_read_and_written_and_two_operations_a_multiply_add(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 << 20, 8 << 20))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "card")
    monkeypatch.setattr(ceilings, "SIZES", {"bf16": 8, "fp32": 4})
    monkeypatch.setattr(ceilings, "_seconds", lambda run: run() is not None and 1e-3)
    assert ceilings.measure_ceilings("cpu") == {
        "gpu": "card",
        "copy_gbs": pytest.approx(2 * (1 << 20) / 1e-3 / 1e9),
        "matmul_tflops": {
            "bf16": pytest.approx(1024 / 1e-3 / 1e12),
            "fp32": pytest.approx(128 / 1e-3 / 1e12),
        },
    }


def test_the_median_of_runs_after_warm_up_counts(monkeypatch):
    torch = pytest.importorskip("torch")
    now = [0.0]
    times = iter([50, 50, 50, *(1, 2, 3, 4, 5, 5, 6, 7, 8, 900)])

    class Event:
        def record(self):
            self.at = now[0]

        def elapsed_time(self, other):
            return other.at - self.at

    def run():
        now[0] += next(times)

    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert ceilings._seconds(run) == pytest.approx(5e-3)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (
            types.SimpleNamespace(stdout=f"warning\n{json.dumps(REACHED)}\n", stderr=""),
            (REACHED, None),
        ),
        (types.SimpleNamespace(stdout="", stderr="Traceback\nNo CUDA\n"), (None, "No CUDA")),
        (types.SimpleNamespace(stdout="", stderr=""), (None, "no answer")),
    ],
)
def test_a_process_of_its_own_answers(monkeypatch, done, expected):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert ceilings.measured_apart() == expected


def test_a_gpu_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(ceilings, "SECONDS", 0.01)
    monkeypatch.setattr(sys, "executable", "sleep")
    reached, trouble = ceilings.measured_apart()
    assert reached is None
    assert trouble


def test_they_are_stored_and_read_back():
    stored = environment.describe_environment(CapturePlan(folder="x", ceilings=REACHED))
    read = measured_ceilings(json.loads(json.dumps(stored)))
    assert read is not None
    assert (read.bandwidth, read.matmul) == (4.28e12, {"bf16": 7.9e14, "fp32": 5.15e13})
    said = {c.name: c.value for c in environment_conditions(stored)}
    assert said["measured copy"] == "4280 GB/s"
    assert said["measured bf16 matrix product"] == "790 TFLOP/s"


@pytest.mark.parametrize(
    "stated", [None, 3, {}, {"copy_gbs": "fast"}, {"copy_gbs": -1}, {"copy_gbs": True}]
)
def test_what_makes_no_sense_is_left_out(stated):
    assert measured_ceilings({"ceilings": stated}) is None


def test_without_a_gpu_the_recording_goes_on(tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "capture"
    done = collect(
        "torch",
        "-o",
        folder,
        "--ceilings",
        *SMALL,
        "--",
        SCRIPTS / "train.py",
        40,
        CUDA_VISIBLE_DEVICES="",
    )
    assert done.returncode == 0
    assert "ceilings were not measured" in done.stderr
    assert json.loads((folder / "environment.json").read_text())["ceilings"] is None
    assert (folder / "trace.rank0.json.gz").exists()
