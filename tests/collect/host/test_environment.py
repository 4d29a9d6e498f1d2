"""environment.json: what it holds, and what it must not."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest

from traceanalyzer.collect.host import environment, nvml
from traceanalyzer.collect.plan import CapturePlan

SECRET = "hunter2"  # noqa: S105


def test_only_listed_variables_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("API_TOKEN", SECRET)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    environment.write_environment(CapturePlan(folder=str(tmp_path), command="python"))
    text = (tmp_path / "environment.json").read_text()
    assert SECRET not in text
    assert str(tmp_path) not in text
    value = json.loads(text)
    assert value["variables"]["CUDA_LAUNCH_BLOCKING"] == "1"
    assert value["command"] == "python"


def test_settings_that_spoil_measurements_are_told(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with torch.autograd.set_detect_anomaly(True):
        told = environment.describe_environment(CapturePlan(folder="x"))["torch"]
    assert told["launch_blocking"]
    assert told["anomaly_mode"]
    assert told["debug_build"] is False


def test_git_revision_says_when_files_differ(tmp_path):
    def git(*words):
        identity = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(("git", *identity, "-C", tmp_path, *words), check=True, capture_output=True)  # noqa: S607

    assert environment.git_revision(tmp_path) is None
    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    revision = environment.git_revision(tmp_path)
    assert len(revision) == 40
    (tmp_path / "a").write_text("2")
    assert environment.git_revision(tmp_path) == f"{revision}-dirty"


def _fake_nvml(monkeypatch):
    """One GPU, slowed by heat, whose power cannot be read."""

    def unsupported(*_):
        raise RuntimeError("not supported")

    fake = types.SimpleNamespace(
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"580.1",
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetName=lambda h: "GPU A",
        nvmlDeviceGetMemoryInfo=lambda h: types.SimpleNamespace(total=100, used=40),
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda h: 0x21,
        nvmlDeviceGetComputeRunningProcesses=lambda h: [1, 2],
        nvmlDeviceGetClockInfo=lambda h, kind: 1000 * kind,
        nvmlDeviceGetMaxClockInfo=lambda h, kind: 2000,
        nvmlDeviceGetUtilizationRates=lambda h: types.SimpleNamespace(gpu=55),
        nvmlDeviceGetPowerUsage=unsupported,
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)


def test_gpus_are_described_with_what_slows_them(monkeypatch):
    _fake_nvml(monkeypatch)
    (gpu,) = nvml.describe_gpus()
    assert gpu["driver"] == "580.1"
    assert gpu["throttle_reasons"] == ["software_thermal"]
    assert gpu["processes"] == 2


def test_samples_are_written_until_closed(tmp_path, monkeypatch):
    _fake_nvml(monkeypatch)
    sampler = nvml.Sampler(tmp_path / "nvml.rank0.jsonl", 0.01)
    while (
        not (tmp_path / "nvml.rank0.jsonl").exists()
        or not (tmp_path / "nvml.rank0.jsonl").stat().st_size
    ):
        pass
    sampler.close()
    sample = json.loads((tmp_path / "nvml.rank0.jsonl").read_text().splitlines()[0])
    assert sample["gpu"] == 0
    assert sample["gpu_utilization"] == 55
    assert sample["power_w"] is None


def test_without_nvml_nothing_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.describe_gpus() is None
