"""Step timing: by command, by StepTimer, by benchmark."""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.running import SCRIPTS, collect
from traceanalyzer.collect.benchmark import benchmark
from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.step_timer import StepTimer
from traceanalyzer.collect.steps.step_clock import summarize
from traceanalyzer.collect.steps.units import Amounts, rates

pytest.importorskip("torch")


def test_the_command_writes_a_line_a_step_with_data_time(tmp_path):
    done = collect(
        "timing", "-o", tmp_path, "--wait", 2, "--", sys.executable, SCRIPTS / "slow_loader.py"
    )
    assert done.returncode == 0, done.stderr
    lines = [
        json.loads(line) for line in (tmp_path / "timings.rank0.jsonl").read_text().splitlines()
    ]
    assert [line["step"] for line in lines] == [3, 4, 5, 6, 7, 8, 9]
    for line in lines:
        assert line.keys() >= {"step", "iter_ms", "host_ms", "data_ms"}
        assert line["iter_ms"] == line["host_ms"] >= line["data_ms"] + 2
        assert line["data_ms"] >= 4


def test_step_timer_keeps_data_apart_and_leaves_warm_up_out(tmp_path):
    def source():
        for i in range(8):
            time.sleep(0.02)
            yield i

    timer = StepTimer(warmup=3, path=tmp_path / "timings.jsonl", peak_flops_per_s=1e12)
    for _ in timer.batches(source()):
        time.sleep(0.001)
        timer.step(samples=4, tokens=100, padded_tokens=128, flops=1e9)
    summary = timer.summary()
    assert summary.iter_ms["count"] == 5
    assert summary.data_ms["min"] >= 20
    assert 0.5 < summary.data_share < 1
    per_step = 1 / summary.rates.steps_per_s
    assert summary.rates.samples_per_s == pytest.approx(4 / per_step)
    assert summary.rates.padded_tokens_per_s == pytest.approx(1.28 * summary.rates.tokens_per_s)
    assert summary.rates.mfu == pytest.approx(1e9 / per_step / 1e12)
    assert len((tmp_path / "timings.jsonl").read_text().splitlines()) == 5


def test_step_timer_without_a_timed_step_says_so():
    timer = StepTimer(warmup=5)
    timer.step()
    with pytest.raises(ValueError, match="no step was timed: 1 steps, of which the first 5"):
        timer.summary()


def test_benchmark_on_the_host_times_each_call():
    calls = []
    timing = benchmark(lambda: (calls.append(1), time.sleep(0.001)), warmup=2, repeats=20)
    assert len(calls) == 22
    assert timing.count == 20
    assert timing.clock == "host"
    assert 1 <= timing.min <= timing.median <= timing.p95 <= timing.p99 <= timing.max


def test_the_peak_of_memory_stands_beside_the_times(monkeypatch):
    """Of a stand-in for CUDA: what the allocator said last is what is told."""
    device = SimpleNamespace(is_initialized=lambda: True, max_memory_allocated=lambda: 3 << 30)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=device))
    assert cuda.most_allocated() == 3 << 30
    monkeypatch.delitem(sys.modules, "torch")
    assert cuda.most_allocated() is None


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=50))
def test_summary_is_what_numpy_and_statistics_say(values):
    summary = summarize(values)
    for key, percent in (("median", 50), ("p95", 95), ("p99", 99)):
        assert summary[key] == pytest.approx(np.percentile(values, percent), abs=1e-6)
    assert summary["std"] == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert (summary["min"], summary["max"], summary["count"]) == (
        min(values),
        max(values),
        len(values),
    )


def test_amounts_that_were_not_given_have_no_rate():
    made = rates(500.0, 10, Amounts(samples=20) + Amounts(samples=20))
    assert asdict(made) == {
        "steps_per_s": 20.0,
        "samples_per_s": 80.0,
        "tokens_per_s": None,
        "padded_tokens_per_s": None,
        "tflops_per_s": None,
        "mfu": None,
    }
