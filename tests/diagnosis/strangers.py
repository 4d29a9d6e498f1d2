"""Small recordings of classes that other people's recordings showed, each built by hand:
`write(name, folder)`.

python -m tests.diagnosis.strangers FOLDER [NAME...]     # writes them, to be read with
`traceanalyzer analyze`
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kineto_builder import KinetoTrace, span
from tests.nsys_builder import VM, Export, global_pid

if TYPE_CHECKING:
    from collections.abc import Callable

US = 1000
GEMM = "ampere_sgemm_64x32_sliced1x4_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, add>"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
A100 = "NVIDIA A100-SXM4-80GB"
CASES: dict[str, Callable[[], KinetoTrace | Program]] = {}


def case(make: Any) -> Any:
    CASES[make.__name__] = make
    return make


class Program(Export):
    """An nsys export of a program in CUDA; times are microseconds."""

    def __init__(
        self,
        gpu: str = A100,
        name: str = "/opt/app",
        sms: int = 108,
        major: int = 8,
        schema: str = "3.17.2",
    ):
        super().__init__(schema)
        self.last = 0
        self.end = 0.0
        self.add("PROCESSES", globalPid=global_pid(), pid=1000, name=name)
        self.add(
            "TARGET_INFO_GPU",
            vmId=VM << 48,
            id=0,
            name=gpu,
            busLocation="0000:c1:00.0",
            totalMemory=80 << 30,
            smCount=sms,
            uuid="0d0832fe-ba7f-c38e-b4ed-a4d0155e6646",
            cuDevice=0,
            computeMajor=major,
            computeMinor=0,
        )
        self.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=1000)

    def invoke(self, name: str, at: float, us: float) -> int:
        self.last += 1
        self.end = max(self.end, at + us)
        self.call(int(at * US), int((at + us) * US), name, self.last)
        return self.last

    def launch(
        self, name: str, at: float, start: float, us: float, blocks: int = 1024, threads: int = 256
    ) -> None:
        c = self.invoke("cudaLaunchKernel_v7000", at, 5)
        self.kernel(
            int(start * US),
            int((start + us) * US),
            name.split("(")[0],
            correlationId=c,
            demangledName=self.text(name),
            gridX=blocks,
            gridY=1,
            gridZ=1,
            blockX=threads,
            blockY=1,
            blockZ=1,
            registersPerThread=16,
            staticSharedMemory=0,
            dynamicSharedMemory=0,
        )

    def moved(self, at: float, us: float, size: int, kind: int = 1) -> None:
        c = self.invoke("cudaMemcpy_v3020", at, us + 20)
        host, device = (0, 2) if kind == 1 else (2, 0)
        self.copy(
            int((at + 10) * US),
            int((at + 10 + us) * US),
            bytes=size,
            copyKind=kind,
            srcKind=host,
            dstKind=device,
            correlationId=c,
        )

    def synchronize(
        self, at: float, us: float, name: str = "cudaDeviceSynchronize_v3020", kind: int = 2
    ) -> None:
        c = self.invoke(name, at, us)
        self.wait(int(at * US), int((at + us) * US), correlationId=c, syncType=kind)

    def write(self, path: Path) -> Path:
        self.add(
            "ANALYSIS_DETAILS",
            duration=int(self.end * US),
            globalVid=VM << 48,
            startTime=0,
            stopTime=0,
        )
        return super().write(path)


def traced(gpu: str | None = A100) -> KinetoTrace:
    t = KinetoTrace()
    known = {
        "id": 0,
        "name": gpu,
        "numSms": 108,
        "totalGlobalMem": 85_000_000_000,
        "computeMajor": 8,
        "computeMinor": 0,
    }
    if gpu is not None:
        t.metadata |= {"deviceProperties": [known]}
    return t


# Kineto


@case
def waits_after_its_launch() -> KinetoTrace:
    t = traced()
    t.annotation("step[DECODE bs=32]", 0, 480_000)
    t.annotation("execute_context_0(0)_generation_32(32)", 10, 479_900)
    for x in range(20, 2020, 40):
        t.op("aten::mm", x, 20)
        t.launched(GEMM, x + 2, x + 30, 30)
    for i in range(4):
        t.launched(ADD, 2098 + 60 * i, 465_060 + 30 * i, 20)
    t.api("hipMemcpyWithStream", 2400, 463_064, 9001)
    t.copy("DtoH (Device -> Pageable)", 465_300, 4.5, correlation=9001)
    t.python("sglang/srt/managers/scheduler.py(100): run_batch", 0, 480_000)
    return t


def accelerator(category: str) -> KinetoTrace:
    t = traced(None)
    for s in range(12):
        t.step(s, 10_000 * s, 10_000)
        for i in range(20):
            x = 10_000 * s + 400 * i
            c = 100 * s + i + 1
            t.op("aten::mm", x, 100)
            t.add(
                span(
                    "mtia_runtime",
                    "runFunction - job_prep_and_submit_for_execution",
                    x + 10,
                    50,
                    correlation=c,
                )
            )
            t.add(span(category, "fba_gemm", x + 100, 250, 0, 0, correlation=c, device=0, stream=0))
    return t


@case
def prepares_inside_its_mark() -> KinetoTrace:
    """An eager server: 4 ms of Python before the first launch of each 11 ms iteration, whose marks
    touch; the host then launches far ahead of the GPU."""
    t = traced()
    begin = 0.0
    for _ in range(8):
        first = end = begin + 4000
        t.python("vllm/v1/worker/gpu_model_runner.py(1200): _prepare_inputs", begin + 10, 3980)
        for i in range(25):
            called = first + 150 * i
            start = max(end, called + 14)
            t.op("aten::addmm", called, 140)
            t.launched(GEMM, called + 8, start, 280)
            end = start + 280
        read = first + 25 * 150 + 20
        t.op("aten::item", read, end + 10 - read)
        t.correlation += 1
        t.api("cudaMemcpyAsync", read + 2, 5, t.correlation)
        t.copy("DtoH (Device -> Pageable)", end + 1, 2, correlation=t.correlation, bytes=512)
        t.api("cudaStreamSynchronize", read + 10, end + 6 - (read + 10))
        t.annotation("execute_context_0(0)_generation_64(64)", begin, end + 15 - begin)
        begin = end + 15
    return t


@case
def one_long_graph_launch() -> KinetoTrace:
    """A graph of 400 kernels, whose launch takes 1.2 ms of each iteration while the GPU idles, and
    a read at its end."""
    t = traced()
    begin = 0.0
    for _ in range(5):
        t.correlation += 1
        graph = t.correlation
        t.api("cudaGraphLaunch", begin + 200, 1200, graph)
        end = begin + 1390
        for i in range(400):
            node = {"graph id": 7, "graph node id": i + 1}
            t.kernel(GEMM, end, 20, correlation=graph, **node)
            end += 20.5
        t.op("aten::item", begin + 1500, end + 10 - (begin + 1500))
        t.correlation += 1
        t.api("cudaMemcpyAsync", begin + 1510, 5, t.correlation)
        t.copy("DtoH (Device -> Pageable)", end + 2, 2, correlation=t.correlation, bytes=64)
        t.api("cudaStreamSynchronize", begin + 1520, end + 8 - (begin + 1520))
        t.annotation("step[DECODE bs=64]", begin, end + 20 - begin)
        begin = end + 40
    return t


@case
def mtia() -> KinetoTrace:
    return accelerator("mtia_ccp_events")


@case
def calls_without_kernels() -> KinetoTrace:
    t = traced()
    for i in range(50):
        t.op("aten::mm", 100 * i, 50)
        t.api("cudaLaunchKernel", 100 * i + 10, 5, i + 1)
    return t


@case
def cpu_alone() -> KinetoTrace:
    t = traced(None)
    for i in range(50):
        t.op("aten::mm", 100 * i, 50)
        t.op("aten::add", 100 * i + 60, 20)
    return t


@case
def one_pass() -> KinetoTrace:
    t = traced()
    for i in range(60):
        x = 10 + 40 * i
        size = 256 + 8 * i
        t.op(
            "aten::addmm",
            x,
            30,
            Input_Dims=[[size], [64, 256], [256, size]],
            Input_type=["float"] * 3,
        )
        t.launched(GEMM, x + 8, x + 20, 12, grid=[4, 8, 1], block=[128, 1, 1])
    t.api("cudaDeviceSynchronize", 2410, 40)
    t.window(0, 2500)
    return t


@case
def one_annotation() -> KinetoTrace:
    t = traced()
    t.annotation("training_step", 0, 4000)
    for j, name in enumerate(("zero_grad", "forward", "backward", "optimizer_step")):
        t.annotation(name, 10 + 990 * j, 980)
    for i in range(90):
        t.op("aten::mm", 20 + 43 * i, 30)
        t.launched(GEMM, 28 + 43 * i, 40 + 43 * i, 12)
    t.api("cudaDeviceSynchronize", 4005, 10)
    return t


@case
def copies_alone() -> KinetoTrace:
    t = traced()
    for s in range(10):
        x = 30_700 * s
        t.step(s, x, 30_700)
        t.op("aten::to", x + 10, 30_600)
        for at, us, ends in (
            (x + 20, 17_700, "DtoH (Device -> Pinned)"),
            (x + 17_760, 12_800, "HtoD (Pinned -> Device)"),
        ):
            t.correlation += 1
            t.api("cudaMemcpyAsync", at, 10, t.correlation)
            t.copy(ends, at + 15, us, correlation=t.correlation, bytes=154_140_672)
            t.api("cudaStreamSynchronize", at + 20, us)
    return t


@case
def tiny_batch() -> KinetoTrace:
    t = traced()
    for s in range(6):
        t.step(s, 1030 * s, 1020)
        for i in range(20):
            x = 1030 * s + 50 * i
            t.op(
                "aten::linear",
                x,
                40,
                Input_Dims=[[8, 64], [64, 64 + i], [64]],
                Input_type=["float"] * 3,
            )
            t.launched(GEMM, x + 10, x + 22, 3, grid=[1, 1, 1], block=[128, 1, 1])
    return t


@case
def mangled() -> KinetoTrace:
    t = traced()
    t.annotation("model_inference", 0, 260_000)
    norm = "_ZN5cudnn25bn_fw_tr_1C11_kernel_NCHWIffLi512ELb1ELi1EEEvNS_17cudnnTensorStructEPKT_S1_PS2_S5_S5_S5_"
    x = 20
    for i in range(60):
        for name, us in ((norm, 1000), ("ampere_sgemm_128x64", 3000)):
            t.op("aten::x", 100 * i, 5)
            t.launched(name, 100 * i + 1, x + 10, us)
            x += us
    t.api("cudaDeviceSynchronize", 6100, 240_000)
    return t


@case
def one_kernel() -> KinetoTrace:
    t = traced()
    t.step(1, 0, 5000)
    t.op("aten::relu", 10, 50, Input_Dims=[[4]], Input_type=["float"])
    t.launched(ADD, 20, 40, 1.5, grid=[1, 1, 1], block=[64, 1, 1])
    t.api("cudaDeviceSynchronize", 4000, 900)
    return t


@case
def few_products() -> KinetoTrace:
    t = traced()
    for i in range(5):
        t.op(
            "aten::mm",
            20 * i,
            15,
            Input_Dims=[[4096, 4096], [4096, 4096]],
            Input_type=["c10::Half"] * 2,
        )
        t.launched(
            "ampere_fp16_s16816gemm_fp16_128x128",
            20 * i + 3,
            100 + 600 * i,
            600,
            grid=[32, 32, 1],
            block=[256, 1, 1],
        )
    t.api("cudaDeviceSynchronize", 110, 3000)
    return t


@case
def three_steps() -> KinetoTrace:
    t = traced()
    x = 0
    for s, us in enumerate((20_000, 20_500, 300_000)):
        t.step(s, x, us)
        for i in range(30):
            at = x + i * (us - 1000) / 30
            t.op("aten::mm", at, 20)
            t.launched(GEMM, at + 4, at + 15, 400)
        x += us + 10
    return t


@case
def sparse() -> KinetoTrace:
    t = traced()
    for i in range(26):
        x = 10 + 650 * i
        t.op("aten::_sparse_addmm", x, 600)
        t.op("aten::coalesce", x + 10, 550)
        t.launched("void cub::DeviceRadixSortKernel", x + 20, x + 30, 8)
        t.api("cudaStreamSynchronize", x + 40, 500)
        t.launched("void cusparse::csrmm", x + 560, x + 580, 10)
    return t


@case
def small_all_reduces() -> KinetoTrace:
    t = traced().rank(0, 8)
    for s in range(2):
        x = 160_100 * s
        t.step(s, x, 160_000)
        for i in range(202):
            at = x + 750 * i
            t.op("c10d::allreduce_", at, 30)
            t.launched(
                ALL_REDUCE,
                at + 10,
                at + 40,
                354,
                stream=20,
                Collective_name="allreduce",
                In_msg_nelems=4096,
                dtype="BFloat16",
                Group_size=8,
            )
            t.op("aten::mm", at + 50, 20)
            t.launched(GEMM, at + 60, at + 394, 350)
    return t


@case
def allocator_outside_operators() -> KinetoTrace:
    t = traced()
    for i in range(200):
        t.op("aten::mm", 40 * i, 20)
        t.launched(GEMM, 40 * i + 3, 40 * i + 15, 15)
        t.api("cudaStreamIsCapturing", 40 * i + 30, 1)
    t.api("cudaDeviceSynchronize", 8200, 10)
    for i in range(20):
        args = {
            "Total Reserved": 2**21,
            "Total Allocated": 512 * (i + 1),
            "Bytes": 512,
            "Addr": 14 * 10**7 + 512 * i,
        }
        args |= {"Device Type": 1, "Device Id": 0}
        row = {
            "ph": "i",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "s": "t",
            "pid": 100,
            "tid": 100,
        }
        t.add(row | {"ts": 400 * i + 25, "args": args})
    return t


@case
def graphs_alone() -> KinetoTrace:
    t = traced()
    for s in range(20):
        t.correlation += 1
        t.api("cudaGraphLaunch", 950 * s, 10, t.correlation)
        for i in range(30):
            t.kernel(
                f"ampere_sgemm_{32 * i}x64", 950 * s + 15 + 30 * i, 28, correlation=t.correlation
            )
    t.api("cudaDeviceSynchronize", 19_000, 20)
    return t


@case
def no_host() -> KinetoTrace:
    t = traced()
    for i in range(300):
        t.kernel(GEMM if i % 2 else ADD, 100 * i, 80)
    return t


# nsys


@case
def one_thread() -> Program:
    e = Program()
    e.invoke("cudaMallocManaged_v6000", 0, 200_000)
    e.launch("add(int, float*, float*)", 200_100, 200_110, 25_800_000, 1, 1)
    e.synchronize(200_120, 25_799_990)
    return e


@case
def four_threads() -> Program:
    e = Program()
    for i in range(20):
        e.launch(
            "cuckoo_insert(Table*, unsigned int*, int)",
            10 * i,
            1000 + 67_000 * i,
            67_000,
            100_000,
            4,
        )
    e.synchronize(300, 1_341_000)
    return e


@case
def managed() -> Program:
    e = Program()
    at = 1012
    e.launch("add(int, float*, float*)", 0, 10, 1000, 4096)
    e.synchronize(10, 1002)
    for _ in range(400):
        e.copy(
            (at + 400) * US,
            (at + 412) * US,
            bytes=65536,
            copyKind=12,
            srcKind=3,
            dstKind=3,
            correlationId=0,
        )
        at += 412
    e.end = at
    return e


@case
def camera() -> Program:
    e = Program("Orin (nvgpu)", sms=16)
    noise = random.Random(1)  # noqa: S311
    for frame in range(60):
        t = 40_000 * frame + noise.randint(-30, 30)
        e.moved(t, 300, 6_220_800)
        for k in range(4):
            e.launch(f"filter_{k}(uchar3*, int)", t + 340 + 20 * k, t + 360 + 700 * k, 690, 4800)
        e.synchronize(t + 430, 2900, "cudaStreamSynchronize_v3020", 3)
    return e


@case
def own_loop() -> Program:
    """As long between launches, but not as regular: the program's own work."""
    e = Program()
    noise = random.Random(1)  # noqa: S311
    t = 0
    for _ in range(60):
        e.launch("stencil_a(double*)", t, t + 8, 1500, 4096)
        e.launch("stencil_b(double*)", t + 6, t + 1510, 1500, 4096)
        e.synchronize(t + 20, 3000)
        t += 3100 + noise.randint(4000, 12_000)
    return e


@case
def ray_tracer() -> Program:
    e = Program()
    for i in range(3):
        e.launch(
            "render(vec3*, int, int, camera**, curandStateXORWOW*)",
            10 * i,
            1000 + 533_000 * i,
            533_000,
            15_000,
            64,
        )
    e.synchronize(40, 1_600_000)
    return e


@case
def one_block() -> Program:
    e = Program()
    for i in range(30):
        e.launch(
            "nvkernel_matmult_mnk_offload_F1L45_2(int, double*)",
            10 * i,
            1000 + 1000 * i,
            1000,
            1,
            128,
        )
    e.synchronize(300, 31_000)
    return e


@case
def described_calls() -> Program:
    e = Program(name="/opt/conda/bin/python3.8")
    for i in range(15):
        t = 400 * i
        shape = (64, 3 + i, 224, 224)
        e.nvtx(
            t * US,
            (t + 300) * US,
            f"{{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': [{{'shape': {shape}}}]}}",
        )
        e.nvtx((t + 5) * US, (t + 295) * US, f"aten::conv2d, seq = {i}")
        e.launch(
            f"cudnn::winograd_nonfused::winogradForwardData4x4_{i}<float>(int)", t + 10, t + 20, 40
        )
        e.synchronize(t + 70, 70, "cudaEventSynchronize_v3020", 4)
        e.launch("ampere_scudnn_128x64_relu_medium_nn_v1(int)", t + 150, t + 160, 40)
    return e


@case
def waits_without_steps() -> Program:
    e = Program()
    noise = random.Random(2)  # noqa: S311
    t = 0
    for i in range(500):
        e.launch(f"stencil_{noise.randint(0, 9)}(double*)", t, t + 8, 4 + i % 5)
        e.synchronize(t + 6, 12 + i % 3)
        t += 30
    return e


@case
def no_kernel() -> Program:
    e = Program()
    c = e.invoke("cudaMemset_v3020", 990, 6)
    e.memset(1_000_000, 1_010_000, bytes=1 << 20, correlationId=c)
    e.moved(1100, 300, 1 << 20)
    e.moved(2000, 100, 1 << 19, 2)
    return e


@case
def slow_pageable() -> Program:
    e = Program("Tesla T4", sms=40, major=7)
    for i in range(50):
        e.launch(f"convolve_{i % 9}(float*)", 840 * i, 840 * i + 10, 800)
    e.moved(42_100, 120_000, 204_000_000, 2)
    e.moved(162_200, 20_000, 204_000_000)
    for i in range(2000):
        e.launch(f"convolve_{i % 9}(float*)", 182_300 + 5 * i, 182_400 + 250 * i, 240)
    e.synchronize(193_000, 510_000)
    return e


@case
def shrinking() -> Program:
    e = Program()
    t = 0
    for i in range(512):
        us = max(2, (512 - i) // 4)
        e.launch("Fan1(float*, int)", t, t + 8, 1.5, 1, 512)
        e.launch("Fan2(float*, float*, int, int)", t + 6, t + 10, us, 16_384, 64)
        e.synchronize(t + 12, us + 2, "cudaThreadSynchronize_v3020")
        t += us + 20
    return e


@case
def five_sizes() -> Program:
    e = Program()
    t = 0.0
    for i in range(5):
        n = 1 << (20 + 2 * i)
        for _ in range(2):
            e.moved(t, n / 2e3, 4 * n)
            t += n / 2e3 + 30
        e.launch("saxpy(int, float, float*, float*)", t, t + 8, n * 12 / 1.4e6, n // 256)
        e.moved(t + 10 + n * 12 / 1.4e6, n / 2e3, 4 * n, 2)
        t += n / 2e3 + n * 12 / 1.4e6 + 40 + n / 200
    return e


@case
def long_pause() -> Program:
    e = Program()
    for begin in (0, 602_000_000):
        for i in range(400):
            e.launch(f"kernel_{i % 5}(float*)", begin + 10 * i, begin + 20 + 905 * i, 900)
        e.synchronize(begin + 4010, 360_000)
    return e


@case
def one_long_pause() -> Program:
    """The same where nothing repeats."""
    e = Program()
    noise = random.Random(3)  # noqa: S311
    for begin in (0, 602_000_000):
        for i in range(40):
            e.launch(
                f"kernel_{noise.randint(0, 30)}(float*)", begin + 10 * i, begin + 20 + 905 * i, 900
            )
        e.synchronize(begin + 410, 37_000)
    return e


@case
def ranges_alone() -> Program:
    e = Program(name="/usr/bin/python3")
    for i in range(188):
        t = 39_600 * i
        e.nvtx(t * US, (t + 39_500) * US, f"step {i}")
        e.nvtx((t + 10) * US, (t + 15_000) * US, "forward")
        e.nvtx((t + 15_010) * US, (t + 39_000) * US, "backward")
        e.end = t + 39_600
    return e


@case
def device_refused() -> Program:
    e = Program(schema="3.24.0")
    for i in range(30):
        e.invoke("cudaLaunchKernel_v7000", 200 + 20 * i, 5)
    said = ("ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE", 3)
    why = (
        "Installed CUDA driver version (13.1) is not supported by this build of Nsight Systems.",
        2,
    )
    for text, severity in (said, why):
        e.add(
            "DIAGNOSTIC_EVENT",
            timestamp=900,
            timestampType=0,
            source=3,
            severity=severity,
            text=text,
            globalPid=global_pid(),
        )
    return e


@case
def mostly_idle() -> Program:
    e = Program(schema="3.0.0")
    for i, (at, us) in enumerate(((0, 40), (11_000, 30), (22_400, 40))):
        e.launch(f"gemm_{i}(float*)", at, at + 10, us)
    return e


@case
def openacc() -> Program:
    e = Program()
    for i in range(40):
        e.launch("main_45_gpu", 5000 * i, 5000 * i + 10, 4800, 1, 1)
        e.synchronize(5000 * i + 8, 4810, "cuStreamSynchronize", 3)
    return e


def write(name: str, folder: Path) -> Path:
    """Write one of them."""
    made = CASES[name]()
    path = folder / f"{name}.{'json' if isinstance(made, KinetoTrace) else 'sqlite'}"
    path.unlink(missing_ok=True)
    return made.write(path)


if __name__ == "__main__":
    for wanted in sys.argv[2:] or CASES:
        print(write(wanted, Path(sys.argv[1])))
