"""What a printed table of a profiler tells: rates of kernels whose work is stated, by hand."""

from __future__ import annotations

import pytest

from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.analysis.tables.profiled import ProfiledRow, profiled
from traceanalyzer.trace import ProfilerRow
from traceanalyzer.trace.hardware import Hardware

GPU = Hardware(
    "round", "by hand", (), (80.0,), 1e12, {"fp16": 100e12, "bf16": 50e12}, {"fp32": 10e12}
)
"""A terabyte and a hundred half-precision teraflops a second."""


def row(gpu: Hardware | None = GPU, **columns: object) -> ProfiledRow:
    found = profiled(
        [ProfilerRow("kernel", device=0, self_device_ms=2.0, **columns)],  # type: ignore[arg-type]
        KernelClasses.load(),
        {0: gpu},
    )
    assert found is not None
    return found.rows[0]


@pytest.mark.parametrize(
    ("flops", "moved", "tflops", "gbs", "share"),
    [
        ({"16": 50e9}, None, 25.0, None, 0.25),  # 0.5 ms of 2 at the faster of the two types
        ({"16": 50e9}, 1.5e9, 25.0, 750.0, 0.75),  # 1.5 ms to move, which is longer
        ({"16": 50e9}, 0.1e9, 25.0, 50.0, 0.25),
        ({"16": 50e9, "32": 5e9}, None, 27.5, None, 0.5),  # one after the other
        ({}, 1.0e9, None, 500.0, 0.5),
        ({"4": 50e9}, None, 25.0, None, None),  # nobody knows the peak
        ({"4": 50e9}, 1.0e9, 25.0, 500.0, 0.5),
        ({}, None, None, None, None),
    ],
)
def test_rates_of_stated_work(
    flops: dict[str, float],
    moved: float | None,
    tflops: float | None,
    gbs: float | None,
    share: float | None,
) -> None:
    found = row(flops=flops, bytes=moved)
    assert (found.tflops, found.gbs) == (pytest.approx(tflops), pytest.approx(gbs))
    assert found.roofline_share == (None if share is None else pytest.approx(share))


def test_of_an_unknown_gpu_only_the_rates_are_known() -> None:
    found = row(None, flops={"16": 50e9}, bytes=1e9)
    assert (found.tflops, found.gbs, found.roofline_share) == (
        pytest.approx(25.0),
        pytest.approx(500.0),
        None,
    )


def test_time_of_the_cpu_with_what_is_called() -> None:
    assert row(cpu_total_ms=3.0).cpu_total_ms == pytest.approx(3.0)
    assert row().cpu_total_ms is None


def test_copies_are_no_kernels() -> None:
    """Names as nsys, nvprof and torch.profiler print them."""
    copies = (
        "[CUDA memcpy Host-to-Device]",
        "[CUDA memcpy HtoD]",
        "Memcpy DtoH (Device -> Pinned)",
    )
    rows = [ProfilerRow(name, 1.0, self_device_ms=30.0) for name in copies]
    found = profiled(
        [ProfilerRow("saxpy(int, float*)", 1.0, self_device_ms=10.0), *rows],
        KernelClasses.load(),
        {},
    )
    assert found is not None
    assert found.device_ms == pytest.approx(100.0)
    assert found.copies_ms == pytest.approx(90.0)
    assert [row.kind for row in found.rows] == ["copy", "copy", "copy", "kernel"]
    assert [share for share, _ in found.classes] == [pytest.approx(1.0)]
