# ruff: noqa: E501, S311 rows of recordings
"""Valid inputs by grammar: a program that might have run, spelt in each format; and logs,
snapshots, dumps, call trees."""

from __future__ import annotations

import gzip
import json
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests import rocpd_builder
from tests.analysis.ranks.pipeline import schedule
from tests.fleet.build import write_rank
from tests.fleet.hang.simulation import case
from tests.kineto_builder import KinetoTrace
from tests.nsys_builder import SCHEMAS, Export
from tests.pftrace_builder import Pftrace
from tests.replay.compile.log_builder import LogBuilder
from tests.xplane_builder import Plane, space

OPS = (
    "aten::mm",
    "aten::linear",
    "aten::addmm",
    "aten::item",
    "aten::copy_",
    "aten::to",
    "aten::relu",
    "aten::_foreach_add_",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "Optimizer.step#Adam.step",
    "flash_attn::_flash_attn_forward",
    "c10d::allreduce_",
    "Torch-Compiled Region: 0/0",
)
KERNELS = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "void at::native::vectorized_elementwise_kernel<4, float>",
    "triton_poi_fused_add_0",
    "flash_fwd_kernel",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "gemm",
    "Cijk_Ailk_Bljk_MT64x64",
    "ncclDevKernel_SendRecv(x)",
    "void cub::DeviceReduceKernel<int>",
)
RANGES = (
    "DataLoader.__next__",
    "forward",
    "backward",
    "nn.Module: Linear_0",
    "## Call CompiledFxGraph f ##",
    "iteration 3",
    "attn",
    "capture_32_FULL",
)
MARKS = (
    "execute_context_0(0)_generation_8(8)",
    "execute_context_1(700)_generation_8(8)",
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
)
CALLS = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaMalloc",
    "cudaEventRecord",
    "cudaMemcpyAsync",
    "cudaStreamWaitEvent",
)
WALL = {"baseTimeNanoseconds": 10**18}
COPIES = (
    "HtoD (Pageable -> Device)",
    "DtoH (Device -> Pinned)",
    "DtoD (Device -> Device)",
    "HtoD (Pinned -> Device)",
)


@dataclass
class Program:
    """What happened, in microseconds: (kind, name, start, end, correlation, stream)."""

    random: Random
    events: list[tuple[str, str, int, int, int, int]] = field(default_factory=list)
    at: int = 0
    correlation: int = 0
    free: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, random: Random) -> Program:
        """Some steps of one or another loop, or none that are marked."""
        made = cls(random)
        marked = random.random() < 0.85
        body = [random.choice((*cls.PARTS, *cls.PARTS[:2])) for _ in range(random.randrange(1, 6))]
        for number in range(random.choice((1, 2, 3, 4, 6))):
            start = made.at
            made.at += random.randrange(20)
            for part in body:
                part(made)
            if random.random() < 0.5:
                made.at = max([made.at, *made.free.values()]) + 3
            if marked:
                made.add("step", str(number), start, made.at)
            made.at += random.choice((1, 1, 40, 3000))
        return made

    def add(
        self, kind: str, name: str, start: int, end: int, correlation: int = 0, stream: int = 7
    ) -> None:
        self.events.append((kind, name, start, end, correlation, stream))

    def operator(self, depth: int = 0) -> None:
        start = self.at
        name = self.random.choice(OPS)
        self.at += self.random.randrange(1, 6)
        for _ in range(self.random.randrange(3)):
            self.operator(depth + 1) if depth < 2 and self.random.random() < 0.4 else self.launch()
        self.at += self.random.randrange(1, 30)
        self.add("op", name, start, self.at)

    def launch(self) -> None:
        self.correlation += 1
        stream = self.random.choice((7, 7, 7, 20))
        length = self.random.choice((0, 1, 5, 50, 700))
        self.add("call", "cudaLaunchKernel", self.at, self.at + 4, self.correlation)
        start = max(self.at + self.random.choice((5, 9, 300)), self.free.get(stream, 0))
        what = self.random.random()
        kind, name = (
            ("copy", self.random.choice(COPIES))
            if what < 0.15
            else ("kernel", self.random.choice(KERNELS))
        )
        self.add(kind, name, start, start + length, self.correlation, stream)
        self.free[stream] = start + length
        self.at = self.at + 5

    def wait(self) -> None:
        until = (
            max([self.at + 2, *self.free.values()]) if self.random.random() < 0.7 else self.at + 7
        )
        self.add("call", self.random.choice(CALLS), self.at, until, self.correlation)
        self.at = until + 1

    def named(self) -> None:
        start = self.at
        name = self.random.choice(RANGES)
        for _ in range(self.random.randrange(1, 3)):
            self.operator()
        self.at += self.random.choice((1, 500))
        self.add("range", name, start, self.at)

    def graph(self) -> None:
        """Captured, where it was, and launched."""
        if self.random.random() < 0.3:
            self.add("call", "cudaStreamBeginCapture", self.at, self.at + 2)
            self.operator()
            self.add("call", "cudaStreamEndCapture", self.at, self.at + 2)
            self.at += 3
        self.correlation += 1
        self.add("call", "cudaGraphLaunch", self.at, self.at + 4, self.correlation)
        self.at += 5
        for _ in range(self.random.randrange(6)):
            start = max(self.at, self.free.get(7, 0))
            self.free[7] = start + self.random.choice((1, 5, 50))
            self.add("kernel", self.random.choice(KERNELS), start, self.free[7], self.correlation)

    def iteration(self) -> None:
        """Of a server: a graph, or operators, and a wait."""
        start = self.at
        name = self.random.choice(MARKS)
        self.random.choice((self.graph, self.operator))()
        self.add("range", name, start, self.at)
        self.wait()

    PARTS = (operator, launch, wait, named, graph, iteration)


def kineto(random: Random, program: Program | None = None) -> dict[str, Any]:
    """A trace of torch.profiler."""
    made = KinetoTrace()
    program = program or Program.of(random)
    if random.random() < 0.4:
        made.rank(random.randrange(3), random.choice((2, 4)))
    for kind, name, start, end, correlation, stream in program.events:
        took = end - start
        if kind == "step":
            made.step(int(name), start, took)
        elif kind == "op":
            made.op(
                name,
                start,
                took,
                External_id=start,
                Input_Dims=[[8, 16], [16, random.choice((4, 4096))]],
                Input_type=["float", "c10::BFloat16"],
            )
        elif kind == "range":
            made.annotation(name, start, took) if random.random() < 0.5 else made.python(
                f"train.py({start}): {name}", start, took
            )
        elif kind == "call":
            made.api(name, start, took, correlation)
        elif kind == "copy":
            made.copy(name, start, took, bytes=4096, correlation=correlation, stream=stream)
        else:
            more = (
                {
                    "Collective name": "allreduce",
                    "In msg nelems": 4096,
                    "Group size": 4,
                    "dtype": "Float",
                    "Process Group Name": "0",
                }
                if "nccl" in name
                else {"grid": [8, 1, 1], "block": [128, 1, 1]}
            )
            made.kernel(name, start, took, correlation=correlation, stream=stream, **more)
    if random.random() < 0.3:
        made.window(0, program.at + 100)
    made.metadata |= WALL if random.random() < 0.5 else {}
    text = made.json()
    return json.loads(text.replace(b'"cuda', b'"hip') if random.random() < 0.15 else text)


def served() -> dict[str, Any]:
    """A sound trace of a server."""
    random = Random(5)
    program = Program(random)
    for _ in range(12):
        program.iteration()
    return kineto(random, program) | WALL


def rank(random: Random) -> dict[str, Any]:
    """A trace of the last of four ranks."""
    with tempfile.TemporaryDirectory() as name:
        late = random.choice((0, 50, 300, 900))
        steps = random.choice((1, 2, 6, 9))
        file = write_rank(
            Path(name),
            3,
            random.choice((4, 4, 8)),
            late,
            steps=steps,
            most=random.choice((300, 900)),
        )
        return json.loads(gzip.decompress(file.read_bytes()))


def operations(random: Random) -> bytes:
    """A log of the operations of a pipeline."""
    stages = random.choice((1, 2, 4))
    dps = random.choice((1, 2))
    chunks = random.choice((1, 1, 2))
    microbatches = stages * random.choice((1, 2))
    slow = random.randrange(stages)

    def took(kind: str, dp: int, stage: int, chunk: int, m: int) -> float:
        return (0.1 if kind.startswith("forward") else 0.2) * (
            1 + (stage == slow) * random.random()
        )

    each = [
        schedule.run(stages, dps, microbatches, took, chunks)
        for _ in range(random.choice((1, 2, 3)))
    ]
    return _file(lambda folder: schedule.write(folder / "a.parquet", *each))


def nsys(random: Random) -> bytes:
    """An export of Nsight Systems."""
    made = Export(random.choice(SCHEMAS), lazy=random.random() < 0.5)
    for kind, name, start, end, correlation, stream in Program.of(random).events:
        a = 1000 * start
        b = 1000 * end
        if kind == "step":
            made.nvtx(a, b, f"step {name}")
        elif kind in ("op", "range"):
            made.nvtx(a, b, name)
        elif kind == "call":
            made.call(a, b, f"{name}_v3020", correlation)
            if "Synchronize" in name and random.random() < 0.7:
                made.wait(a, b)
        elif kind == "copy":
            made.copy(
                a, b, correlationId=correlation, streamId=stream, copyKind=random.choice((1, 2, 8))
            )
        else:
            made.kernel(a, b, name, correlationId=correlation, streamId=stream)
    return _file(lambda folder: made.write(folder / "a.sqlite"))


def rocpd(random: Random) -> bytes:
    """A database of rocprofv3."""
    made = rocpd_builder.small_run(
        random.choice(rocpd_builder.SCHEMAS), steps=random.randrange(1, 5)
    )
    return _file(lambda folder: made.write(folder / "a.db"))


def pftrace(random: Random) -> bytes:
    """A trace for Perfetto as torch writes it."""
    made = Pftrace()
    for kind, name, start, end, correlation, stream in Program.of(random).events:
        a = 1000 * start
        b = 1000 * end
        placed = {"device_id": 0, "stream_id": stream, "correlation": correlation}
        if kind in ("kernel", "copy"):
            made.stage(
                1 if kind == "kernel" else 2, name if kind == "kernel" else "", a, b, **placed
            )
        else:
            category = {
                "step": "user_annotation",
                "op": "cpu_op",
                "range": "user_annotation",
                "call": "cuda_runtime",
            }[kind]
            made.host(
                (
                    category,
                    f"ProfilerStep#{name}" if kind == "step" else name,
                    a,
                    b,
                    {"correlation": correlation, "External id": start},
                )
            )
    return bytes(made)


def xplane(random: Random) -> bytes:
    """A profile of XLA."""
    device = []
    host = []
    us = 1_000_000
    for kind, name, start, end, correlation, _ in Program.of(random).events:
        row = (
            name,
            start * us,
            (end - start) * us,
            {"correlation_id": correlation} if correlation else {},
        )
        if kind in ("kernel", "copy"):
            device.append(row)
        else:
            host.append(
                ("train", *row[1:3], {"_r": 1, "step_num": int(name)}) if kind == "step" else row
            )
    gpu = Plane(
        random.choice(("/device:GPU:0", "/device:TPU:0")),
        {"device_vendor": "NVIDIA", "core_count": 132},
    )
    return space(
        gpu.line(13, "Stream #13(Compute)", device, 1000),
        Plane("/host:CPU").line(70, "python", host, 500),
    )


def unitrace(random: Random) -> bytes:
    """A trace of Intel's profiler."""
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "ts": 0.0, "args": {"name": "HOST<node0>"}},
        {
            "ph": "M",
            "name": "process_name",
            "pid": 9,
            "ts": 0.0,
            "args": {"name": "DEVICE<node0>[Intel(R) Data Center GPU Max 1550] 0:29:0:0 #0"},
        },
    ]
    for kind, name, start, end, correlation, _ in Program.of(random).events:
        on_device = kind in ("kernel", "copy")
        placed = {"pid": 9 if on_device else 1, "tid": 3, "ts": float(start), "id": correlation}
        call = "zeCommandListAppendLaunchKernel" if kind == "call" else name
        rows.append(
            {
                "ph": "X",
                "name": call,
                "cat": "gpu_op" if on_device else "cpu_op",
                "dur": float(end - start),
                **placed,
                **({"args": {"id": str(correlation)}} if on_device else {}),
            }
        )
        if correlation and kind != "call":
            rows.append({"ph": "t", "name": "dep", "cat": f"Flow_H2D_{correlation}_0", **placed})
    return ('{ "traceEvents":[\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n").encode()


def proton(random: Random) -> Any:
    """A tree of calls of Triton's profiler."""

    def node(depth: int) -> dict[str, Any]:
        metrics = {
            "count": random.randrange(9),
            "device_id": "0",
            "device_type": "CUDA",
            "time (ns)": random.randrange(10**6),
            "flops8": 1e9,
            "bytes": 1e6,
        }
        below = [node(depth + 1) for _ in range(random.randrange(4) if depth < 3 else 0)]
        return {
            "children": below,
            "frame": {"name": random.choice((*KERNELS, *RANGES)), "type": "function"},
            "metrics": metrics if not below or random.random() < 0.3 else {},
        }

    root = {
        "children": [node(0) for _ in range(random.randrange(1, 4))],
        "frame": {"name": "ROOT", "type": "function"},
        "metrics": {},
    }
    return [
        root,
        {
            "CUDA": {
                "0": {
                    "arch": "90",
                    "bus_width": 5120,
                    "clock_rate": 1980000,
                    "memory_clock_rate": 2619000,
                    "num_sms": 132,
                }
            }
        },
    ]


def log(random: Random) -> bytes:
    """The step times of a loop, as one of several frameworks prints them."""
    form = random.choice(
        (
            " iteration {i:8}/  250000 | consumed samples: {n} | elapsed time per iteration (ms): {ms:.1f} | global batch size: {b} |",
            "iter {i}: loss {x:.4f}, time {ms:.2f}ms, mfu 16.68%",
            '{{"step": {i}, "step_time_ms": {ms:.3f}, "data_time_ms": {x:.3f}}}',
            "step={i} time={ms:.2f}ms data={x:.2f}ms",
            '{{"rank": {r}, "step": {i}, "step_ms": {ms:.3f}, "data_ms": {x:.3f}, "t": {t:.3f}}}',
            "Iteration({i}): 1 context requests, 700 context tokens, {b} generation requests, {b} generation tokens, iteration elapsed time: {ms:.2f} ms",
            "[RANK {r}] iter = {i}, host_step_time = {ms:.2f}ms, states = {{'num_ctx_requests': 1, 'num_ctx_tokens': 700, 'num_generation_tokens': {b}}}",
            "{{'loss': {x:.4f}, 'epoch': {x:.2f}, 'train_steps_per_second': {b}}}",
            " 51%|#####     | {i}/1000 [15:30<16:42,  {x:.2f}s/it]",
            "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/{i}, SamplesPerSec={ms:.3f}, MemAllocated=0.26GB, MaxMemAllocated=9.02GB",
        )
    )
    first = random.randrange(1000)
    many = random.randrange(1, 60)
    values = [
        {
            "i": first + i,
            "n": 128 * i,
            "ms": random.uniform(50, 60),
            "x": random.random(),
            "b": 128,
            "r": i % 3,
            "t": 1.76e9 + i / 20,
        }
        for i in range(many)
    ]
    return "".join(form.format(**one) + "\n" for one in values).encode()


def compile_log(random: Random) -> bytes:
    """What torch.compile says of its work."""
    made = LogBuilder(prefix=random.choice(("", "[rank0]:", "[rank3]:")))
    for number in range(random.randrange(1, 5)):
        at = 1e6 * number
        made.number, made.frame, made.attempt = (
            random.randrange(3),
            random.randrange(2),
            random.randrange(2),
        )
        made.start(line=random.randrange(1, 50))
        made.event("dynamo", "B", at)
        for name in random.sample(
            ("backend_compile", "inductor_compile", "code_gen", "triton"), random.randrange(4)
        ):
            made.span(name, at + 10, at + random.randrange(11, 400))
        made.event(random.choice(("fx_graph_cache_miss", "fx_graph_cache_hit")), "i", at + 15)
        made.event("dynamo", "E", at + 500)
        if random.random() < 0.5:
            made.artifact(
                "recompile_reasons",
                f"0/{number}: tensor 'x' size mismatch at index 0. expected 4, actual {number}",
            )
        if random.random() < 0.5:
            made.record(
                "graph_break_reason",
                {"reason": "call to print", "user_stack": []},
                "Graph break: call to print",
            )
        if random.random() < 0.7:
            made.artifact(
                "inductor_output_code", "triton_poi_fused_0.run(buf, 8)\nextern_kernels.mm(a, b)"
            )
        made.metrics(
            random.random(),
            fail_type=random.choice((None, "Unsupported")),
            cache_size=number,
            graph_op_count=7,
        )
    return made.bytes()


def snapshot(random: Random) -> Any:
    """A snapshot of PyTorch's allocator."""
    frames = [{"name": "step", "filename": "train.py", "line": 3}]
    segments = []
    trace = []
    address = 4096
    for _ in range(random.randrange(1, 4)):
        sizes = [512 * random.randrange(1, 100) for _ in range(random.randrange(1, 5))]
        blocks = []
        for size in sizes:
            state = random.choice(("active_allocated", "inactive", "active_awaiting_free"))
            blocks.append(
                {
                    "size": size,
                    "requested_size": size - 8,
                    "address": address + sum(b["size"] for b in blocks),
                    "state": state,
                    "frames": frames,
                }
            )
            trace.append(
                {
                    "action": "alloc",
                    "addr": blocks[-1]["address"],
                    "size": size,
                    "stream": 0,
                    "time_us": 1000 + len(trace),
                    "frames": frames,
                }
            )
            if state == "inactive":
                trace += [
                    dict(trace[-1], action=one, time_us=1001 + len(trace))
                    for one in ("free_requested", "free_completed")
                ]
        total = sum(sizes)
        used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
        segments.append(
            {
                "device": 0,
                "address": address,
                "total_size": total,
                "allocated_size": used,
                "active_size": used,
                "stream": 0,
                "segment_type": random.choice(("small", "large")),
                "requested_size": used,
                "segment_pool_id": (0, 0),
                "is_expandable": random.random() < 0.3,
                "blocks": blocks,
                "frames": frames,
            }
        )
        address += total + 4096
    if random.random() < 0.3:
        trace.append(
            {
                "action": "oom",
                "addr": 0,
                "size": 1 << 40,
                "stream": 0,
                "time_us": 9999,
                "frames": frames,
                "device_free": 77,
            }
        )
    return {
        "segments": segments,
        "device_traces": [trace, []],
        "allocator_settings": {},
        "external_annotations": [],
    }


def dump(random: Random) -> Any:
    """What one rank of a job that hangs leaves."""
    dumps = _dumps(random.randrange(40))
    return dumps[random.choice(sorted(dumps))]


@cache
def _dumps(seed: int) -> Any:
    return case(seed).dumps


def _file(write: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder)).read_bytes()
