"""Reports written by hand: one with everything, one that knows nothing, one whose names are out to
do harm."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import TypeVar

from traceanalyzer.analysis.tables.budget import StepRow
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
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, StepTime
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
                path="/home/alice/runs/gpu-node-07_4242.1754000000.pt.trace.json.gz",
                kind="kineto",
                rank=0,
                devices=[InputDevice(0, "NVIDIA H200")],
                health=InputHealth(
                    events=184_233,
                    skipped=12_004,
                    repaired=3,
                    lost=1,
                    clipped=0,
                    truncated=True,
                    notes=["The file stops in the middle of an event."],
                ),
            )
        ],
        summary=Summary(
            bottleneck="sync",
            confidence=0.82,
            headline="The GPU idles 41% of the step because the host waits for it and leaves its queue empty.",
            culprit="90% of that idle time comes from 48 waits a step in forward, at train.py(118): step.",
        ),
        metrics=METRICS,
        devices=[
            DeviceTotals(
                rank=0,
                device=0,
                name="NVIDIA H200",
                span_ms=812.4,
                busy_ms=468.1,
                idle_ms=344.3,
                compute_ms=458.2,
                communication_ms=0.0,
                exposed_communication_ms=0.0,
                copy_ms=11.2,
                exposed_copy_ms=9.9,
                kernels=61_204,
                copies=512,
                memsets=88,
                gaps=9_871,
                largest_gap_ms=4.1,
            )
        ],
        findings=[
            Finding(
                id="host-waits",
                cls="sync",
                title="The CPU blocks on the GPU, and the GPU's queue runs dry",
                severity="high",
                headroom_ms=6.4912345,
                evidence=[
                    Evidence(
                        metric="idle after the queue was drained by a sync",
                        value=0.4093,
                        unit="share",
                        where="of the mean step",
                    ),
                    Evidence(
                        metric="waits per step",
                        value=48.0,
                        unit="",
                        where="calls that cost the GPU idle time",
                    ),
                    Evidence(
                        metric="idle caused",
                        value=5.9,
                        unit="ms",
                        where="cudaStreamSynchronize in aten::item at train.py(118): step",
                    ),
                ],
            ),
            Finding(
                id="exposed-copies",
                cls="transfer",
                title="Memory copies do not overlap with compute",
                severity="low",
                headroom_ms=0.198,
                evidence=[
                    Evidence(
                        metric="achieved bandwidth",
                        value=11.3,
                        unit="GB/s",
                        where="host to device, pageable to device",
                        threshold=20.0,
                    )
                ],
            ),
        ],
        recommendations=[
            Recommendation(
                id="host-waits",
                cls="sync",
                action="Stop reading GPU values in the step: keep results on the GPU and read them once "
                "every many steps.",
                predicted_step_ms=9.37,
                predicted_speedup=1.693,
                basis="the host's own work without the waits is the floor",
            ),
            Recommendation(
                id="exposed-copies",
                cls="transfer",
                action="Pin the host memory (pin_memory=True) and copy with non_blocking=True.",
                predicted_step_ms=15.66,
                predicted_speedup=1.013,
                basis="copies completely hidden behind compute",
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
    step_time_ms=StepTime(
        count=48,
        mean=15.8612,
        median=15.79,
        std=0.312345678,
        min=15.2,
        max=17.4,
        p95=16.5,
        p99=17.2,
    ),
    step_source="profiler_step",
    unprofiled_step_time_ms=None,
    warmup_steps=2,
    kernels_per_step=1224.08,
    launches_per_step=1224.0,
    gpu_busy_share=0.5691,
    gpu_idle_share=0.4309,
    budget_ms=Budget(compute=8.83, exposed_communication=0.0, exposed_copy=0.198, idle=6.8332),
    idle_ms=Idle(
        launch=0.21,
        sync=6.4912345,
        input=0.0,
        host=0.1,
        communication=0.0,
        profiler=0.0,
        other=0.032,
    ),
    communication=CommunicationTime(total_ms=0.0, exposed_ms=0.0, overlap_share=None),
    throughput=known(
        Throughput,
        steps_per_s=63.05,
        samples=64.0,
        samples_per_s=4035.0,
        ms_per_sample=0.2478,
        source="given",
    ),
    utilisation=Utilisation(
        mfu=0.284,
        attainable_mfu=0.51,
        sol=0.557,
        room=1.795,
        gpu_busy_share=0.5691,
        least_bandwidth_gbs=812.0,
        bandwidth_share=0.169,
    ),
    critical_path=PathTime(
        compute=6.1,
        communication=0.0,
        copy=0.22,
        launch=3.5,
        wait=5.9412,
        input=0.0,
        host=0.1,
        profiler=0.0,
        other=0.0,
    ),
    unprofiled_critical_path=PathTime(
        compute=6.1,
        communication=0.0,
        copy=0.22,
        launch=1.9,
        wait=5.2,
        input=0.0,
        host=0.1,
        profiler=0.0,
        other=0.0,
    ),
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
    host=HostStats(
        dispatch_ms=8.9,
        sync_ms=6.1,
        input_ms=0.0,
        communication_ms=0.0,
        allocate_ms=0.1,
        work_ms=0.3,
        floor_ms=9.37,
        busy_share=0.604,
    ),
)

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"


def kernel(name: str, total_ms: float, op: str | None = "aten::addmm") -> KernelStats:
    """A row of the kernel table."""
    return KernelStats(
        rank=None,
        name=name,
        full_name=name + "(Params)",
        cls="gemm",
        calls=96.0,
        total_ms=total_ms,
        share_of_step=total_ms / 15.86,
        share_of_device=0.3,
        mean_us=32.1,
        p50_us=31.9,
        p95_us=36.0,
        min_us=29.8,
        max_us=41.0,
        op=op,
    )


def tables() -> dict[str, list[object]]:
    """Every table with a few rows."""
    step = StepRow(
        rank=0,
        step=0,
        name="ProfilerStep#12",
        warmup=True,
        start_ns=EPOCH_NS,
        end_ns=EPOCH_NS + 31_000_000,
        duration_ms=31.0,
        compute_ms=9.1,
        exposed_communication_ms=0.0,
        exposed_copy_ms=0.2,
        idle_ms=21.7,
        largest_idle_cause="sync",
        kernels=1224,
        launches=1224,
    )
    gap = GapRow(
        rank=0,
        device=0,
        start_ns=EPOCH_NS + 1_234_567,
        duration_ns=182_411,
        step=3,
        cause="sync",
        detail="cudaStreamSynchronize in aten::item; ended by add",
    )
    return {
        "ranks": [],
        "steps": [
            replace(step, step=i, start_ns=EPOCH_NS + i * 15_861_234, warmup=i < 2)
            for i in range(50)
        ],
        "iterations": [],
        "critical_path": [
            PathRow(
                rank=0,
                kind="compute",
                name="sm90_xmma_gemm",
                within="aten::linear",
                segments=96.0,
                total_ms=6.1,
                share_of_step=0.3846,
            ),
            PathRow(
                rank=0,
                kind="wait",
                name="cudaStreamSynchronize",
                within="aten::item",
                segments=48.0,
                total_ms=5.9412,
                share_of_step=0.3746,
            ),
            PathRow(
                rank=0,
                kind="launch",
                name="(from launch to start)",
                within=None,
                segments=48.0,
                total_ms=0.4,
                share_of_step=0.0252,
            ),
        ],
        "phases": [
            PhaseStats(
                rank=0,
                name="forward",
                depth=0,
                within=None,
                derived=False,
                is_input=False,
                calls=1.0,
                host_ms=5.1,
                host_share=0.32,
                device_ms=3.9,
                device_share=0.25,
                device_span_ms=4.4,
                role="forward",
                gpu_idle_ms=2.2,
                waits=48.0,
            ),
            PhaseStats(
                rank=0,
                name="loss",
                depth=1,
                within="forward",
                derived=False,
                is_input=False,
                calls=1.0,
                host_ms=0.4,
                host_share=0.03,
                device_ms=0.2,
                device_share=0.01,
                device_span_ms=0.2,
                role=None,
                gpu_idle_ms=0.3,
                waits=0.0,
            ),
        ],
        "modules": [
            ModuleStats(
                rank=0,
                name="MyModel",
                depth=0,
                within=None,
                modules=1,
                calls=1.0,
                host_ms=5.0,
                device_ms=8.1,
                forward_ms=2.7,
                backward_ms=5.4,
                self_ms=0.2,
                share_of_step=0.51,
                share_of_device=0.9,
                python="train.py(118): step",
            ),
            ModuleStats(
                rank=0,
                name="Linear",
                depth=1,
                within="MyModel",
                modules=96,
                calls=96.0,
                host_ms=3.2,
                device_ms=7.9,
                forward_ms=2.6,
                backward_ms=5.3,
                self_ms=7.9,
                share_of_step=0.5,
                share_of_device=0.88,
                python="model.py(7): forward",
            ),
        ],
        "gaps": [
            replace(gap, start_ns=gap.start_ns + i * 7_000_123, duration_ns=182_411 // (i + 1))
            for i in range(30)
        ],
        "gap_histogram": [
            GapHistogramRow(
                length="under 2 us",
                scale="micro",
                gaps=812.0,
                idle_ms=0.91,
                launch_ms=0.9,
                sync_ms=0.0,
                host_ms=0.0,
                other_ms=0.01,
            ),
            GapHistogramRow(
                length="100 us to 1 ms",
                scale="macro",
                gaps=47.5,
                idle_ms=5.92,
                launch_ms=0.1,
                sync_ms=5.8,
                host_ms=0.0,
                other_ms=0.02,
            ),
        ],
        "gap_places": [
            GapPlaceRow(
                rank=0,
                cause="sync",
                name="cudaStreamSynchronize",
                within="MyModel",
                python="train.py(7): step",
                gaps=48.0,
                idle_ms=5.9,
                share_of_idle=0.86,
                longest_us=182.4,
            )
        ],
        "syncs": [
            SyncRow(
                rank=0,
                call="cudaStreamSynchronize",
                op="MyModel > aten::item",
                python=None,
                calls=48.0,
                host_wait_ms=6.1,
                device_busy_share=0.31,
                gpu_idle_ms=5.9,
                benign=False,
            )
        ],
        "kernel_classes": [
            ClassStats(
                rank=0,
                cls="gemm",
                title="matrix multiplication",
                bound="compute",
                calls=96.0,
                total_ms=3.1,
                share_of_step=0.2,
                share_of_device=0.35,
            )
        ],
        "kernels": [
            kernel(GEMM, 3.08),
            kernel(ADD, 1.2, None),
            *(kernel(f"{GEMM}_{i}", 0.01) for i in range(28)),
        ],
        "ops": [
            OpStats(
                rank=0,
                name="aten::addmm",
                kind="op",
                shapes="[[4096], [64, 1024]]",
                calls=96.0,
                host_total_ms=1.1,
                host_self_ms=0.8,
                device_total_ms=3.2,
                device_self_ms=3.1,
                share_of_step=0.2,
                device_mean_us=33.0,
                device_p50_us=32.0,
                device_p95_us=36.0,
                kernels_per_call=1.0,
                backward_share=0.0,
                backward_device_ms=6.1,
            )
        ],
        "copies": [
            CopyStats(
                rank=0,
                device=0,
                direction="host to device",
                source_memory="pageable",
                target_memory="device",
                size="1 to 10 MB",
                call="cudaMemcpyAsync",
                op="aten::copy_",
                blocking=True,
                count=2.0,
                bytes=8_388_608.0,
                total_ms=0.74,
                exposed_ms=0.198,
                bandwidth_gbs=11.3,
            )
        ],
        "shapes": [
            ShapeRow(
                rank=0,
                name="aten::mm",
                steps=48,
                different=3,
                changed=12,
                shapes="[32, 512] in 40, [32, 640] in 8",
                least_elements=16384,
                median_elements=16384.0,
                most_elements=20480,
                shortest_ms=1.1,
                longest_ms=1.4,
            )
        ],
        "counters": [
            CounterStats(
                rank=0,
                device=0,
                counter="SMs Active",
                counted_in="Throughput %",
                mean=54.2,
                busy_mean=91.8,
                max=100.0,
                samples=7614,
            )
        ],
        "nvtx": [
            RangeRow(
                rank=0,
                domain="MyLibrary",
                category="io",
                name="load",
                count=2.0,
                host_ms=1.2,
                payloads="40, 41",
            )
        ],
        "load": [
            Load(what="GPU 0: power", counted_in="W", mean=512.4, min=96.1, max=700.2, samples=120)
        ],
        "collectives": [
            CollectiveStats(
                rank=0,
                device=0,
                collective="all_reduce",
                group="default_pg",
                group_ranks=None,
                group_size=8,
                dtype="float32",
                message_bytes=26_214_400,
                count=12.0,
                total_ms=1.9,
                exposed_ms=0.4,
                overlap_share=0.79,
                mean_us=158.0,
                p50_us=150.0,
                p95_us=190.0,
                algorithm_gbs=166.0,
                bus_gbs=290.5,
                streams="20",
                on_compute_stream=False,
            )
        ],
    }


def empty() -> Report:
    """A recording that holds nothing to speak of."""
    return Report(
        tool=Tool("traceanalyzer", "0.1.0"),
        inputs=[],
        summary=Summary(
            bottleneck="inconclusive",
            confidence=0.0,
            headline="Inconclusive: the recording holds no GPU work.",
        ),
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
            Input(
                path=name,
                kind="kineto",
                rank=None,
                devices=[InputDevice(0, name)],
                health=full().inputs[0].health,
            )
            for name in HOSTILE
        ],
        summary=Summary(bottleneck="host", confidence=nan, headline=bad),
        findings=[
            Finding(
                id=n,
                cls="host",
                title=n,
                severity="high",
                headroom_ms=inf,
                evidence=[
                    Evidence(metric=n, value=nan, unit="ms", where=n),
                    Evidence(metric=n, value=n, unit=n, where=n),
                ],
            )
            for n in HOSTILE
        ],
        recommendations=[
            Recommendation(
                id=n, cls="host", action=n, predicted_step_ms=nan, predicted_speedup=-inf, basis=n
            )
            for n in HOSTILE
        ],
        tables={
            "kernels": [kernel(n, nan, n) for n in HOSTILE],
            "odd": [OddRow(n, inf) for n in HOSTILE],
        },
        notes=list(HOSTILE),
    )
