"""Reports written by hand: one with everything, one that knows nothing, one whose names are out to
do harm."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import TypeVar

from traceanalyzer.analysis.tables.budget import Budget, Idle, StepRow, StepTime
from traceanalyzer.analysis.tables.collectives import CollectiveStats, CommunicationTime
from traceanalyzer.analysis.tables.copies import CopyStats
from traceanalyzer.analysis.tables.devices import CounterStats, DeviceTotals
from traceanalyzer.analysis.tables.gap_rows import GapHistogramRow, GapPlaceRow, GapRow
from traceanalyzer.analysis.tables.kernels import ClassStats, KernelStats
from traceanalyzer.analysis.tables.launches import HostStats, LaunchStats
from traceanalyzer.analysis.tables.modules import ModuleStats, RangeRow
from traceanalyzer.analysis.tables.ops import OpStats
from traceanalyzer.analysis.tables.path_rows import PathRow, PathTime
from traceanalyzer.analysis.tables.phases import PhaseStats
from traceanalyzer.analysis.tables.shape_rows import ShapeRow
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.analysis.tables.throughput import Throughput, Utilisation
from traceanalyzer.base.figures import metric
from traceanalyzer.diagnosis.finding import Evidence, Finding, Recommendation, Summary
from traceanalyzer.report.model import Input, InputDevice, InputHealth, Metrics, Report, Tool
from traceanalyzer.trace import Load

T = TypeVar("T")

EPOCH_NS = 1_754_000_000_123_456_789
HOSTILE = (
    "<script>alert(1)</script>",
    "a|b\\|c\\",
    "`tick` ``two``",
    "line\nbreak\r\nand\ttab",
    "\x1b[31mred\x1b[0m\x07",
    "[link](javascript:alert(1)) ![img](http://evil.example/x.png)",
    "@octocat fixes #1 GH-2 :tada: www.evil.example",
    "[bold red]rich markup[/bold red] [/]",
    "</details><h1>out</h1>",
    "\u202eright-to-left\u202c",
    "\ud800 lone surrogate",
    "**bold** _it_ ~~gone~~ $x^2$ &amp;",
    "void k<" + "std::tuple<float, float>, " * 400 + ">",
    "=1+1",
    "",
)


def full() -> Report:
    """A training step on one GPU that waits in `.item()`, of a slightly damaged recording."""
    return Report(
        tool=Tool("traceanalyzer", "0.1.0"),
        inputs=[
            Input(
                "/home/alice/runs/gpu-node-07_4242.1754000000.pt.trace.json.gz",
                "kineto",
                0,
                [InputDevice(0, "NVIDIA H200")],
                InputHealth(
                    184_233, 12_004, 3, 1, 0, True, ["The file stops in the middle of an event."]
                ),
            )
        ],
        summary=Summary(
            "sync",
            0.82,
            "The GPU idles 41% of the step because the host waits for it and leaves its queue empty.",
            culprit="90% of that idle time comes from 48 waits a step in forward, at train.py(118): step.",
        ),
        metrics=METRICS,
        devices=[
            DeviceTotals(
                0,
                0,
                "NVIDIA H200",
                812.4,
                468.1,
                344.3,
                458.2,
                0.0,
                0.0,
                11.2,
                9.9,
                61_204,
                512,
                88,
                9_871,
                4.1,
            )
        ],
        findings=[
            Finding(
                "host-waits",
                "sync",
                "The CPU blocks on the GPU, and the GPU's queue runs dry",
                "high",
                6.4912345,
                [
                    Evidence(
                        "idle after the queue was drained by a sync",
                        0.4093,
                        "share",
                        "of the mean step",
                    ),
                    Evidence("waits per step", 48.0, "", "calls that cost the GPU idle time"),
                    Evidence(
                        "idle caused",
                        5.9,
                        "ms",
                        "cudaStreamSynchronize in aten::item at train.py(118): step",
                    ),
                ],
            ),
            Finding(
                "exposed-copies",
                "transfer",
                "Memory copies do not overlap with compute",
                "low",
                0.198,
                [
                    Evidence(
                        "achieved bandwidth",
                        11.3,
                        "GB/s",
                        "host to device, pageable to device",
                        20.0,
                    )
                ],
            ),
        ],
        recommendations=[
            Recommendation(
                "host-waits",
                "sync",
                "Stop reading GPU values in the step: keep results on the GPU and read them once every many steps.",
                9.37,
                1.693,
                "the host's own work without the waits is the floor",
            ),
            Recommendation(
                "exposed-copies",
                "transfer",
                "Pin the host memory (pin_memory=True) and copy with non_blocking=True.",
                15.66,
                1.013,
                "copies completely hidden behind compute",
            ),
        ],
        tables=tables(),
        notes=[
            "2 slow leading step(s) are left out as warm-up.",
            "Python stacks were not recorded.",
        ],
    )


def known(measurement: type[T], **figures: object) -> T:
    """A measurement of which only some figures are known; all others are None, or what they are
    where left out."""
    missing = {
        f.name: None
        for f in fields(measurement)
        if f.default is MISSING and f.default_factory is MISSING
    }
    return measurement(**(missing | figures))


METRICS = known(
    Metrics,
    step_time_ms=StepTime(48, 15.8612, 15.79, 0.312345678, 15.2, 17.4, 16.5, 17.2),
    step_source="profiler_step",
    unprofiled_step_time_ms=None,
    warmup_steps=2,
    kernels_per_step=1224.08,
    launches_per_step=1224.0,
    gpu_busy_share=0.5691,
    gpu_idle_share=0.4309,
    budget_ms=Budget(8.83, 0.0, 0.198, 6.8332),
    idle_ms=Idle(0.21, 6.4912345, 0.0, 0.1, 0.0, 0.0, 0.032),
    communication=CommunicationTime(0.0, 0.0, None),
    throughput=known(
        Throughput,
        steps_per_s=63.05,
        samples=64.0,
        samples_per_s=4035.0,
        ms_per_sample=0.2478,
        source="given",
    ),
    utilisation=Utilisation(0.284, 0.51, 0.557, 1.795, 0.5691, 812.0, 0.169),
    critical_path=PathTime(6.1, 0.0, 0.22, 3.5, 5.9412, 0.0, 0.1, 0.0, 0.0),
    unprofiled_critical_path=PathTime(6.1, 0.0, 0.22, 1.9, 5.2, 0.0, 0.1, 0.0, 0.0),
    launches=known(
        LaunchStats,
        kernels=1224.08,
        launch_calls=1224.0,
        launch_ms=6.3,
        launch_mean_us=5.15,
        launch_p95_us=7.9,
        back_pressure_ms=0.0,
        queue_delay_p50_us=11.2,
        short_kernel_share=0.713,
        graph_launches=0.0,
        copy_calls=10.2,
        memset_calls=0.0,
        without_launch=0.0,
    ),
    host=HostStats(8.9, 6.1, 0.0, 0.0, 0.1, 0.3, 9.37),
)

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"


def kernel(name: str, total_ms: float, op: str | None = "aten::addmm") -> KernelStats:
    """A row of the kernel table."""
    return KernelStats(
        None,
        name,
        name + "(Params)",
        "gemm",
        96.0,
        total_ms,
        total_ms / 15.86,
        0.3,
        32.1,
        31.9,
        36.0,
        29.8,
        41.0,
        op,
    )


def tables() -> dict[str, list[object]]:
    """Every table with a few rows."""
    step = StepRow(
        0,
        0,
        "ProfilerStep#12",
        True,
        EPOCH_NS,
        EPOCH_NS + 31_000_000,
        31.0,
        9.1,
        0.0,
        0.2,
        21.7,
        "sync",
        1224,
        1224,
    )
    gap = GapRow(
        0,
        0,
        EPOCH_NS + 1_234_567,
        182_411,
        3,
        "sync",
        "cudaStreamSynchronize in aten::item; ended by add",
    )
    return {
        "ranks": [],
        "steps": [
            replace(step, step=i, start_ns=EPOCH_NS + i * 15_861_234, warmup=i < 2)
            for i in range(50)
        ],
        "iterations": [],
        "critical_path": [
            PathRow(0, "compute", "sm90_xmma_gemm", "aten::linear", 96.0, 6.1, 0.3846),
            PathRow(0, "wait", "cudaStreamSynchronize", "aten::item", 48.0, 5.9412, 0.3746),
            PathRow(0, "launch", "(from launch to start)", None, 48.0, 0.4, 0.0252),
        ],
        "phases": [
            PhaseStats(
                0,
                "forward",
                0,
                None,
                False,
                False,
                1.0,
                5.1,
                0.32,
                3.9,
                0.25,
                4.4,
                "forward",
                2.2,
                48.0,
            ),
            PhaseStats(
                0,
                "loss",
                1,
                "forward",
                False,
                False,
                1.0,
                0.4,
                0.03,
                0.2,
                0.01,
                0.2,
                None,
                0.3,
                0.0,
            ),
        ],
        "modules": [
            ModuleStats(
                0,
                "MyModel",
                0,
                None,
                1,
                1.0,
                5.0,
                8.1,
                2.7,
                5.4,
                0.2,
                0.51,
                0.9,
                "train.py(118): step",
            ),
            ModuleStats(
                0,
                "Linear",
                1,
                "MyModel",
                96,
                96.0,
                3.2,
                7.9,
                2.6,
                5.3,
                7.9,
                0.5,
                0.88,
                "model.py(7): forward",
            ),
        ],
        "gaps": [
            replace(gap, start_ns=gap.start_ns + i * 7_000_123, duration_ns=182_411 // (i + 1))
            for i in range(30)
        ],
        "gap_histogram": [
            GapHistogramRow("under 2 us", "micro", 812.0, 0.91, 0.9, 0.0, 0.01),
            GapHistogramRow("100 us to 1 ms", "macro", 47.5, 5.92, 0.1, 5.8, 0.02),
        ],
        "gap_places": [
            GapPlaceRow(
                0,
                "sync",
                "cudaStreamSynchronize",
                "MyModel",
                "train.py(7): step",
                48.0,
                5.9,
                0.86,
                182.4,
            )
        ],
        "syncs": [
            SyncRow(
                0,
                "cudaStreamSynchronize",
                "MyModel > aten::item",
                None,
                48.0,
                6.1,
                0.31,
                5.9,
                False,
            )
        ],
        "kernel_classes": [
            ClassStats(0, "gemm", "matrix multiplication", "compute", 96.0, 3.1, 0.2, 0.35)
        ],
        "kernels": [
            kernel(GEMM, 3.08),
            kernel(ADD, 1.2, None),
            *(kernel(f"{GEMM}_{i}", 0.01) for i in range(28)),
        ],
        "ops": [
            OpStats(
                0,
                "aten::addmm",
                "op",
                "[[4096], [64, 1024]]",
                96.0,
                1.1,
                0.8,
                3.2,
                3.1,
                0.2,
                33.0,
                32.0,
                36.0,
                1.0,
                0.0,
                6.1,
            )
        ],
        "copies": [
            CopyStats(
                0,
                0,
                "host to device",
                "pageable",
                "device",
                "1 to 10 MB",
                "cudaMemcpyAsync",
                "aten::copy_",
                True,
                2.0,
                8_388_608.0,
                0.74,
                0.198,
                11.3,
            )
        ],
        "shapes": [
            ShapeRow(
                0,
                "aten::mm",
                48,
                3,
                12,
                "[32, 512] in 40, [32, 640] in 8",
                16384,
                16384.0,
                20480,
                1.1,
                1.4,
            )
        ],
        "counters": [CounterStats(0, 0, "SMs Active", "Throughput %", 54.2, 91.8, 100.0, 7614)],
        "nvtx": [RangeRow(0, "MyLibrary", "io", "load", 2.0, 1.2, "40, 41")],
        "load": [Load("GPU 0: power", "W", 512.4, 96.1, 700.2, 120)],
        "collectives": [
            CollectiveStats(
                0,
                0,
                "all_reduce",
                "default_pg",
                None,
                8,
                "float32",
                26_214_400,
                12.0,
                1.9,
                0.4,
                0.79,
                158.0,
                150.0,
                190.0,
                166.0,
                290.5,
                "20",
                False,
            )
        ],
    }


def empty() -> Report:
    """A recording that holds nothing to speak of."""
    return Report(
        tool=Tool("traceanalyzer", "0.1.0"),
        inputs=[],
        summary=Summary("inconclusive", 0.0, "Inconclusive: the recording holds no GPU work."),
        metrics=known(Metrics, step_source="none", warmup_steps=0),
        devices=[],
        findings=[],
        recommendations=[],
    )


@dataclass(frozen=True)
class OddRow:
    """A row of a table that no one has thought of yet."""

    name: str = metric("whatever the recording says")
    total_ms: float = metric("time", "ms")


def hostile() -> Report:
    """Every text in it is an attack, every figure is not one."""
    nan = float("nan")
    inf = float("inf")
    bad = " ".join(HOSTILE)
    return replace(
        full(),
        inputs=[
            Input(name, "kineto", None, [InputDevice(0, name)], full().inputs[0].health)
            for name in HOSTILE
        ],
        summary=Summary("host", nan, bad),
        findings=[
            Finding(n, "host", n, "high", inf, [Evidence(n, nan, "ms", n), Evidence(n, n, n, n)])
            for n in HOSTILE
        ],
        recommendations=[Recommendation(n, "host", n, nan, -inf, n) for n in HOSTILE],
        tables={
            "kernels": [kernel(n, nan, n) for n in HOSTILE],
            "odd": [OddRow(n, inf) for n in HOSTILE],
        },
        notes=list(HOSTILE),
    )
