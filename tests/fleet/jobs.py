"""Jobs of several ranks by hand: hosts launch layers and collectives, devices run them as soon as
they may, and a collective begins when its last rank is there. Times are microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fleet.build import EPOCH_NS
from tests.kineto_builder import KinetoTrace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LAUNCH_US = 5.0
OP_US = 8.0
GEMM = "ampere_sgemm_128x64"
ADD = "void at::native::vectorized_elementwise_kernel<4, add>"
COMPUTE_STREAM = 7
NCCL_STREAM = 20
GATHER = ("c10d::_allgather_base_", "ncclDevKernel_AllGather_RING_LL")
REDUCE = ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL")


@dataclass
class Job:
    """Ranks that run the same layers. `gathers`: each layer waits for parameters from all ranks, as
    under FSDP; else the gradients are reduced at the end of a step, as under DDP."""

    ranks: int = 4
    steps: int = 6
    layers: int = 6
    compute_us: float = 150.0
    transfer_us: float = 30.0
    gathers: bool = False
    reads_loss: bool = True
    host_us: Callable[[int, int, int], float] = lambda _rank, _step, _layer: 0.0
    """Python before a layer: rank, step, layer."""
    slower: Callable[[int], float] = lambda _rank: 1.0
    """How many times longer a rank's kernels take."""
    more: Callable[[int], int] = lambda _rank: 0
    """How many layers more a rank computes."""


@dataclass
class _Rank:
    trace: KinetoTrace
    host: float = 0.0
    compute: float = 0.0
    nccl: float = 0.0
    began: float = field(default=0.0)


def write(job: Job, folder: Path) -> list[Path]:
    """The recordings of all ranks, a file each."""
    folder.mkdir(exist_ok=True, parents=True)
    ranks = [_Rank(KinetoTrace().rank(i, job.ranks)) for i in range(job.ranks)]
    for one in ranks:
        one.trace.metadata["baseTimeNanoseconds"] = EPOCH_NS
    for step in range(job.steps):
        _step(job, ranks, step)
    return [one.trace.write(folder / f"rank{i}.json.gz") for i, one in enumerate(ranks)]


def _step(job: Job, ranks: list[_Rank], step: int) -> None:
    for one in ranks:
        one.began = one.host
    for layer in range(job.layers):
        for number, one in enumerate(ranks):
            one.host += job.host_us(number, step, layer)
        if job.gathers:
            ended = _collective(job, ranks, GATHER, after_compute=False)
            for one in ranks:
                one.compute = max(one.compute, ended)
        for number, one in enumerate(ranks):
            _compute(one, job.compute_us * job.slower(number))
    for number, one in enumerate(ranks):
        for _ in range(job.more(number)):
            _compute(one, job.compute_us)
    ended = _collective(job, ranks, REDUCE, after_compute=True)
    for one in ranks:
        one.compute = max(one.compute, ended)
        _compute(one, 20.0, "aten::add", ADD)
        if job.reads_loss:
            _read(one)
        one.trace.step(step, one.began, one.host - one.began - 1.0)
        one.host += 1.0


def _compute(one: _Rank, length: float, op: str = "aten::mm", kernel: str = GEMM) -> None:
    one.trace.op(op, one.host, OP_US)
    start = max(one.host + 2.0 + LAUNCH_US, one.compute)
    shape = {"grid": [64, 1, 1], "block": [128, 1, 1]}
    one.trace.launched(kernel, one.host + 2.0, start, length, stream=COMPUTE_STREAM, **shape)
    one.compute = start + length
    one.host += OP_US + 1.0


def _collective(
    job: Job, ranks: list[_Rank], kind: tuple[str, str], *, after_compute: bool
) -> float:
    """Launch a collective on all ranks; when it has ended."""
    op, kernel = kind
    ready = [
        max(one.host + 2.0 + LAUNCH_US, one.nccl, one.compute if after_compute else 0.0)
        for one in ranks
    ]
    ended = max(ready) + job.transfer_us
    for one, start in zip(ranks, ready, strict=True):
        one.trace.op(op, one.host, OP_US)
        one.trace.launched(kernel, one.host + 2.0, start, ended - start, stream=NCCL_STREAM)
        one.nccl = ended
        one.host += OP_US + 1.0
    return ended


def _read(one: _Rank) -> None:
    """The loss is read: the host waits for the device."""
    begun = one.host
    one.host = max(one.host, one.compute) + 2.0
    one.trace.op("aten::item", begun, one.host - begun)
    one.trace.correlation += 1
    one.trace.api(
        "cudaStreamSynchronize", begun + 0.5, one.host - begun - 1.0, one.trace.correlation
    )
