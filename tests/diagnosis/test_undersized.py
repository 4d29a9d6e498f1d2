"""Kernels launched with too few threads: what is said of them, and what of those that fill the
GPU."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.finding import Finding
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import Device

A100 = (Device(0, "NVIDIA A100-SXM4-80GB"),)


def program(
    blocks: int, threads: int, us: float = 1000, name: str = "add(int, float*, float*)"
) -> Measurements:
    """Fifty launches in a row of one kernel, of a program in CUDA."""
    b = TraceBuilder()
    for i in range(50):
        b.call("cudaLaunchKernel", 2 * i, 2 * i + 1, i + 1)
        shape = {"blocks": blocks, "threads": threads, "registers": 16, "shared_bytes": 0}
        b.kernel(name, 100 + i * us, 100 + (i + 1) * us, i + 1, **shape)
    return measure(b.build(devices=A100))


def told(m: Measurements) -> Finding | None:
    return next((f for f in diagnose(m).findings if f.id == "undersized-kernels"), None)


@pytest.mark.parametrize(
    ("blocks", "threads"),
    [(1, 1), (1, 256), (40, 128), (1_000, 4)],
    ids=["thread", "block", "few", "few and narrow"],
)
def test_a_long_kernel_of_few_threads_is_told(blocks: int, threads: int) -> None:
    found = told(program(blocks, threads))
    assert found is not None
    values = {e.metric: e.value for e in found.evidence}
    assert values["kernels too small for the GPU"] == pytest.approx(1, abs=0.01)
    assert values["threads"] == blocks * threads
    assert ("of their time" in values) == (threads < 32)
    assert found.headroom_ms is not None
    assert found.headroom_ms < 50


@pytest.mark.parametrize("threads", [4, 31])
def test_many_blocks_smaller_than_a_warp_are_not_too_few_threads(threads: int) -> None:
    m = program(1_000_000, threads)
    found = told(m)
    assert found is not None
    assert found.title.startswith("Blocks smaller than a warp")
    assert [one.metric for one in found.evidence[:2]] == [
        "kernels in blocks smaller than a warp",
        "of their time",
    ]
    report = diagnose(m)
    assert "blocks are smaller than a warp" in report.summary.headline
    advice = next(one for one in report.recommendations if one.id == "undersized-kernels")
    assert advice.action.startswith("Launch add in blocks of 128 to 256 threads")


@pytest.mark.parametrize(
    ("blocks", "threads", "us"), [(4096, 256, 1000), (1, 1, 20)], ids=["full", "short"]
)
def test_full_and_short_kernels_are_not(blocks: int, threads: int, us: float) -> None:
    assert told(program(blocks, threads, us)) is None


@pytest.mark.parametrize("name", ["vectorAdd(float*)", "nvkernel_matmult_offload(int)"])
def test_names_say_nothing_of_the_limit_of_a_kernel_that_fills_nothing(name: str) -> None:
    headline = diagnose(program(1, 1, name=name)).summary.headline
    assert "too small to fill the GPU" in headline
    assert "memory bandwidth" not in headline
    assert "arithmetic" not in headline


def test_a_full_kernel_goes_by_its_name() -> None:
    assert "memory-bound by its kind" in diagnose(program(4096, 256)).summary.headline


def test_the_advice_names_the_kernel() -> None:
    every = diagnose(program(1, 1)).recommendations
    advice = next(one for one in every if one.id == "undersized-kernels")
    assert advice.action.startswith("Launch add with more threads")
