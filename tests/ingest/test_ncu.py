"""Nsight Compute's tables, as its two pages write them, and what they do to the roofline."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import GEMM, TABLE, mm
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.roofline.bounds import Bound, measured_bound
from traceanalyzer.analysis.tables.kernels import kernel_stats
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load
from traceanalyzer.ingest.ncu import read_counters
from traceanalyzer.trace import Device
from traceanalyzer.trace.circumstances import KernelCounters

DATA = Path(__file__).parent.parent / "data" / "ncu"
RAW = (DATA / "raw.csv").read_text()
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
    assert (gemm.compute_share, gemm.memory_share, gemm.tensor_share) == pytest.approx(
        (0.812, 0.35, 0.7)
    )
    assert other.dram_bytes is None
    assert other.blocks == 16


def test_page_details(tmp_path: Path) -> None:
    (gemm,) = read_counters(write(tmp_path, DETAILS))
    assert gemm.dram_bytes == pytest.approx(1.0005e9)
    assert (gemm.compute_share, gemm.memory_share, gemm.dram_share) == pytest.approx(
        (0.812, 0.35, 0.3)
    )
    assert (gemm.occupancy_share, gemm.tensor_share) == (0.125, None)


def test_page_details_whose_head_has_columns_of_rules(tmp_path: Path) -> None:
    """As ncu 2025.3 prints it: rows of metrics end before those columns, rows of rules fill them."""
    head, *rows = DETAILS.rstrip("\n").split("\n")
    rules = ',"Rule Name","Rule Type","Rule Description","Estimated Speedup"'
    ruled = ",".join([*['"0"'] * 5, *['""'] * (head.count(",") - 4), *['"a rule"'] * 4])
    text = "\n".join((head + rules, *(f"{row}," for row in rows), ruled)) + "\n"
    (kernel,) = read_counters(write(tmp_path, text))
    (plain,) = read_counters(write(tmp_path, DETAILS))
    assert vars(kernel) == vars(plain)


@pytest.mark.parametrize(
    "text", ["", "==PROF== nothing", '"ID","Kernel Name"\n', "a,b\n1,2\n", '{"traceEvents": []}']
)
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
    ctx = measure(
        b.build(devices=(Device(0, "round"),)), Knowledge(hardware=TABLE, counters=tuple(counters))
    )
    r = ctx.rated.roofline
    assert r.bytes.tolist() == pytest.approx([1.2345e9, 6e6])
    assert r.attainable.tolist() == pytest.approx([0.812 * 40_000, 20_000])
    assert r.bound.tolist() == [Bound.COMPUTE, Bound.LATENCY]
    assert kernel_stats(ctx.rated)[0].tensor_cores is True


def test_names_are_joined_without_parameters(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.kernel("void other<float, 4>(float*)", 0, 10, blocks=16, threads=128)
    ctx = measure(b.build(), Knowledge(counters=tuple(read_counters(write(tmp_path, RAW)))))
    assert ctx.rated.roofline.bound.tolist() == [Bound.LATENCY]


@pytest.mark.parametrize(
    ("compute", "memory", "matrix", "bound"),
    [
        (0.8, 0.65, True, Bound.COMPUTE),
        (0.8, 0.65, False, Bound.INSTRUCTIONS),
        (0.5, 0.8, True, Bound.MEMORY),
        (0.59, 0.55, True, Bound.LATENCY),
        (0.1, 0.6, False, Bound.MEMORY),
    ],
)
def test_bound_of_measured_shares(
    compute: float, memory: float, matrix: bool, bound: Bound
) -> None:
    assert measured_bound(compute, memory, matrix=matrix) == bound


def test_a_product_that_keeps_the_caches_busy_is_bound_by_arithmetic(tmp_path: Path) -> None:
    """As measured on an H200: SM 94 %, the busiest level of the memory system 95 %, the device
    memory 21 %."""
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {"blocks": 100, "threads": 256}))
    ctx = measure(
        b.build(devices=(Device(0, "round"),)),
        Knowledge(
            hardware=TABLE,
            counters=(
                KernelCounters(
                    GEMM, 100, 256, compute_share=0.94, memory_share=0.95, dram_share=0.21
                ),
            ),
        ),
    )
    assert ctx.rated.roofline.bound.tolist() == [Bound.COMPUTE]
    assert ctx.rated.roofline.attainable.tolist() == pytest.approx([0.94 * 40_000])


def test_namespaces_that_ncu_leaves_out_do_not_matter() -> None:
    b = TraceBuilder()
    b.kernel("void cudnn::fusion::convert_dq<true>(int)", 0, 10, blocks=16, threads=128)
    ctx = measure(
        b.build(),
        Knowledge(counters=(KernelCounters("void convert_dq<1>(int)", 16, 128, dram_bytes=5),)),
    )
    assert ctx.rated.roofline.bytes.tolist() == [5]


def stalled(**reasons: float) -> str:
    """A page `raw` with what warps wait for."""
    names = [
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in reasons
    ]
    names.append("smsp__average_warp_latency_per_inst_issued.ratio")
    head = ["ID", "Kernel Name", "Block Size", "Grid Size", *names]
    rows = (
        head,
        ["", "", "", "", *["inst"] * len(names)],
        ["0", GEMM, "(256, 1, 1)", "(100, 1, 1)"],
    )
    values = [str(value) for value in (*reasons.values(), 20.0)]
    return (
        "\n".join(",".join(f'"{cell}"' for cell in row) for row in (*rows[:2], [*rows[2], *values]))
        + "\n"
    )


def test_what_warps_wait_for(tmp_path: Path) -> None:
    (kernel,) = read_counters(
        write(tmp_path, stalled(long_scoreboard=12.0, selected=1.0, barrier=4.0))
    )
    assert kernel.stalls == (
        ("data from memory (long scoreboard)", pytest.approx(0.6)),
        ("other warps at a barrier", pytest.approx(0.2)),
    )
    (wrong,) = read_counters(write(tmp_path, stalled(long_scoreboard=19.0, barrier=4.0)))
    assert wrong.stalls == ()


def test_a_reason_that_was_not_measured_may_be_the_largest(tmp_path: Path) -> None:
    """Of 20 cycles 1 issues, and 6 or 12 were measured as waits."""
    (few,) = read_counters(write(tmp_path, stalled(mio_throttle=6.0)))
    assert few.stalls == ()
    (most,) = read_counters(write(tmp_path, stalled(mio_throttle=12.0)))
    assert most.stalls[0][1] == pytest.approx(0.6)


def test_columns_of_measured_kernels() -> None:
    b = TraceBuilder()
    b.kernel(GEMM, 0, 10, blocks=100, threads=256).kernel(GEMM, 20, 30, blocks=100, threads=256)
    b.kernel(GEMM, 40, 60, blocks=7, threads=256).kernel("other", 60, 70, blocks=7, threads=256)
    stalls = (("a", 0.5), ("b", 0.2)), (("b", 0.9),)
    counters = (
        KernelCounters(GEMM, 100, 256, tensor_share=0.6, occupancy_share=0.5, stalls=stalls[0]),
        KernelCounters(GEMM, 7, 256, tensor_share=0.3, stalls=stalls[1]),
    )
    rows = {row.name: row for row in measure(b.build(), Knowledge(counters=counters)).kernels}
    gemm = next(row for name, row in rows.items() if name != "other")
    assert gemm.tensor_active_share == pytest.approx((0.6 + 0.3) / 2)  # equal times
    assert gemm.achieved_occupancy_share == 0.5
    assert (gemm.main_stall, gemm.main_stall_share) == ("b", pytest.approx((0.2 + 0.9) / 2))
    assert rows["other"].main_stall is None
    assert rows["other"].achieved_occupancy_share is None


def test_a_kernel_that_keeps_the_tensor_cores_busy_is_bound_by_arithmetic() -> None:
    b = TraceBuilder()
    b.kernel("unheard_of", 0, 10, blocks=16, threads=128)
    found = KernelCounters(
        "unheard_of", 16, 128, compute_share=0.8, memory_share=0.2, tensor_share=0.7
    )
    assert measure(b.build(), Knowledge(counters=(found,))).rated.roofline.bound.tolist() == [
        Bound.COMPUTE
    ]
    other = KernelCounters(
        "unheard_of", 16, 128, compute_share=0.8, memory_share=0.2, tensor_share=0.05
    )
    assert measure(b.build(), Knowledge(counters=(other,))).rated.roofline.bound.tolist() == [
        Bound.INSTRUCTIONS
    ]


def test_a_report_may_be_compressed(tmp_path: Path) -> None:
    file = next((Path(__file__).parents[1] / "data" / "ncu").glob("*.csv"))
    packed = tmp_path / f"{file.name}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert read_counters(packed) == read_counters(file)


MODULE = """
class Metric:
    def __init__(self, unit, value):
        self.unit, self.value = lambda: unit, lambda: value
class Action:
    metrics = {
        "gpu__time_duration.sum": Metric("ns", 1500.0),
        "dram__bytes.sum": Metric("byte", 4096),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": Metric("%", 40.0),
        "launch__grid_dim_x": Metric("", 8), "launch__grid_dim_y": Metric("", 2),
        "launch__grid_dim_z": Metric("", 1), "launch__block_dim_x": Metric("", 128),
        "launch__block_dim_y": Metric("", 1), "launch__block_dim_z": Metric("", 1),
        "device__attribute_display_name": Metric("", "GPU A"),
    }
    def name(self): return "gemm"
    def metric_names(self): return list(self.metrics)
    def metric_by_name(self, name): return self.metrics[name]
class Report:
    def num_ranges(self): return 1
    def range_by_idx(self, _): return self
    def num_actions(self): return 2
    def action_by_idx(self, _): return Action()
def load_report(path):
    if open(path, "rb").read() != b"NVR":
        raise RuntimeError("no report")
    return Report()
"""


def test_a_report_is_read_by_nvidias_python_module_where_installed(tmp_path, monkeypatch):
    (tmp_path / "ncu_report.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(b"NVR")
    first, second = read_counters(report)
    assert first == second
    assert (first.name, first.blocks, first.threads) == ("gemm", 16, 128)
    assert (first.duration_ns, first.dram_bytes, first.compute_share) == (1500.0, 4096.0, 0.4)
    report.write_bytes(b"else")
    with pytest.raises(UnreadableInputError, match="ncu_report could not read it"):
        read_counters(report)


def test_a_report_alone_is_answered_where_something_reads_it(tmp_path, monkeypatch):
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(b"NVR\0")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnreadableInputError, match="a report of Nsight Compute; it is read where"):
        load([report])
    (tmp_path / "ncu_report.py").write_text(MODULE.replace('b"NVR"', 'b"NVR\\0"'))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (trace,) = load([report]).traces
    assert trace.pasted is not None
    assert trace.pasted.tells.startswith("2 kernels, 3 us in all. The longest: 1.5 us, compute 40%")


def test_the_page_details_of_a_real_report() -> None:
    """24 kernels of ncu 2025.3 on an H200, against the rows of the file."""
    kernels = read_counters(DATA / "details_2025_3.csv.gz")
    with gzip.open(DATA / "details_2025_3.csv.gz", "rt", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    at = {name: head.index(name) for name in ("ID", "Metric Name", "Metric Unit", "Metric Value")}
    told: dict[tuple[str, str], float] = {}
    for row in rows:
        name, unit, value = (row[at[column]] for column in list(at)[1:])
        if name in ("Duration", "Compute (SM) Throughput", "Achieved Occupancy"):
            scale = {"us": 1e3, "ms": 1e6, "%": 0.01}[unit]
            told[row[at["ID"]], name] = float(value) * scale
    assert len(kernels) == 24
    for number, kernel in enumerate(kernels):
        of_kernel = (kernel.duration_ns, kernel.compute_share, kernel.occupancy_share)
        names = ("Duration", "Compute (SM) Throughput", "Achieved Occupancy")
        assert of_kernel == pytest.approx([told[str(number), name] for name in names])


def test_stalls_of_a_real_report() -> None:
    """As `collect ncu --stalls` left it, when it measured nine reasons: what a fill of 1.6 GB waits
    for was not among them."""
    kernels = read_counters(DATA / "stalls_2025_3.csv")
    scan = next(one for one in kernels if "tensor_kernel_scan" in one.name)
    assert scan.stalls[0] == (
        "data from memory (long scoreboard)",
        pytest.approx(91.57 / 94.4, abs=0.001),
    )
    fills = [one for one in kernels if "FillFunctor" in one.name]
    assert len(fills) == 2
    assert not any(one.stalls for one in fills)
