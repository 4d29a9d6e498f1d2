"""Nsight Compute's tables, as its two pages write them, and what they do to the roofline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.test_roofline import GEMM, TABLE, mm
from traceanalyzer.analysis.context import Context
from traceanalyzer.analysis.counted import measured_bound
from traceanalyzer.analysis.kernels import kernel_stats
from traceanalyzer.analysis.roofline import Bound
from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.ingest.ncu import read_counters
from traceanalyzer.trace import Device

RAW = (Path(__file__).parent.parent / "data" / "ncu" / "raw.csv").read_text()
HEAD = '"ID","Kernel Name","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"\n'
ROW = f'"0","{GEMM}","(256, 1, 1)","(100, 1, 1)",'
DETAILS = HEAD + "".join(
    ROW + line + "\n"
    for line in (
        '"GPU Speed Of Light Throughput","Duration","usecond","40.50"',
        '"GPU Speed Of Light Throughput","Memory Throughput","%","35.00"',
        '"GPU Speed Of Light Throughput","DRAM Throughput","%","30"',
        '"GPU Speed Of Light Throughput","Compute (SM) Throughput","%","81.2"',
        '"Memory Workload Analysis","Memory Throughput","Gbyte/second","812"',
        '"Occupancy","Achieved Occupancy","%","12.5"',
        '"Command line profiler metrics","dram__bytes_read.sum","Mbyte","1,000"',
        '"Command line profiler metrics","dram__bytes_write.sum","Kbyte","500"',
    )
)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "report.csv"
    path.write_text(text)
    return path


def test_page_raw(tmp_path: Path) -> None:
    gemm, other = read_counters(write(tmp_path, RAW))
    assert (gemm.blocks, gemm.threads) == (100, 256)
    assert gemm.dram_bytes == pytest.approx(1.2345e9)
    assert gemm.duration_ns == pytest.approx(40_500)
    assert (gemm.compute_share, gemm.memory_share, gemm.tensor_share) == pytest.approx((0.812, 0.35, 0.7))
    assert other.dram_bytes is None
    assert other.blocks == 16


def test_page_details(tmp_path: Path) -> None:
    (gemm,) = read_counters(write(tmp_path, DETAILS))
    assert gemm.dram_bytes == pytest.approx(1.0005e9)
    assert (gemm.compute_share, gemm.memory_share, gemm.dram_share) == pytest.approx((0.812, 0.35, 0.3))
    assert (gemm.occupancy_share, gemm.tensor_share) == (0.125, None)


@pytest.mark.parametrize("text", ["", "==PROF== nothing", '"ID","Kernel Name"\n', "a,b\n1,2\n", '{"traceEvents": []}'])
def test_what_is_no_report_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableInputError, match=r"report\.csv: holds no kernels; write it with"):
        read_counters(write(tmp_path, text))


def test_report_that_needs_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnreadableInputError, match="not installed here"):
        read_counters(tmp_path / "report.ncu-rep")


def test_measured_figures_replace_estimates_of_the_same_launch(tmp_path: Path) -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {"blocks": 100, "threads": 256}))
    mm(b, 1000, (GEMM, 120, 160, {"blocks": 99, "threads": 256}), at=100)
    counters = read_counters(write(tmp_path, RAW))
    ctx = Context(b.build(devices=(Device(0, "round"),)), hardware=TABLE, counters=counters)
    r = ctx.roofline
    assert r.bytes.tolist() == pytest.approx([1.2345e9, 6e6])
    assert r.attainable.tolist() == pytest.approx([0.812 * 40_000, 20_000])
    assert r.bound.tolist() == [Bound.COMPUTE, Bound.COMPUTE]
    assert kernel_stats(ctx)[0].tensor_cores is True


def test_names_are_joined_without_parameters(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.kernel("void other<float, 4>(float*)", 0, 10, blocks=16, threads=128)
    ctx = Context(b.build(), counters=read_counters(write(tmp_path, RAW)))
    assert ctx.roofline.bound.tolist() == [Bound.LATENCY]


@pytest.mark.parametrize(
    ("compute", "memory", "bound"),
    [(0.8, 0.5, Bound.COMPUTE), (0.5, 0.8, Bound.MEMORY), (0.3, 0.35, Bound.LATENCY), (0.1, 0.45, Bound.MEMORY)],
)
def test_bound_of_measured_shares(compute: float, memory: float, bound: Bound) -> None:
    assert measured_bound(compute, memory) == bound
