"""Recordings of pipelined jobs that never ran, as PyTorch's profiler writes them, with the time
that each step takes.

Ranks are simulated by waiting, kernel by kernel: a send or receive begins when what was launched
before it has ended, and ends when its peer was there, too, and the data has travelled. Calls are
those of torch.distributed.pipelining: sends and receives alone, or one kernel for both where they
go out together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.analysis.ranks.pipeline import schedule
from tests.kineto_builder import KinetoTrace, span

Took = Callable[[str, int, int, int, int], float]
"""us of a computation: `forward` or `backward`, replica, stage, microbatch, step."""
TRANSFER = 40.0
REDUCE = 300.0
OPTIMIZER = 200.0
LAUNCH = 4.0
EPOCH_NS = 1_700_000_000_000_000_000
Pending = tuple[str, float, float, list[tuple[object, ...]], bool]
"""Of an exchange its stream, when it was launched, when its kernel began, its parts, and whether
compute waits."""
Action = tuple[str, int] | tuple[str, tuple[tuple[str, int], ...], bool]
"""A computation and its microbatch, or an exchange: (send or recv, stage) and whether compute waits
for it."""


def gpipe(stage: int, stages: int, microbatches: int) -> Iterator[Action]:
    """All forward, then all backward computations."""
    for way, before, after in (
        ("forward", stage - 1, stage + 1),
        ("backward", stage + 1, stage - 1),
    ):
        for m in range(microbatches):
            if 0 <= before < stages:
                yield "p2p", (("recv", before),), True
            yield way, m
            if 0 <= after < stages:
                yield "p2p", (("send", after),), False


def one_f_one_b(stage: int, stages: int, microbatches: int) -> Iterator[Action]:
    """As `Schedule1F1B`: in the steady state what goes one way travels with what comes the other
    way."""

    def fused(*parts: tuple[str, int]) -> Iterator[Action]:
        there = tuple(part for part in parts if 0 <= part[1] < stages)
        if there:
            yield "p2p", there, any(kind == "recv" for kind, _ in there)

    warm = min(microbatches, stages - stage)
    done = 0
    for m in range(warm):
        yield from fused(("recv", stage - 1))
        yield "forward", m
        if m < warm - 1:
            yield from fused(("send", stage + 1))
    for m in range(warm, microbatches + 1):
        yield from fused(("send", stage + 1), ("recv", stage + 1))
        yield "backward", done
        done += 1
        if m < microbatches:
            yield from fused(("send", stage - 1), ("recv", stage - 1))
            yield "forward", m
    yield from fused(("send", stage - 1))
    for m in range(done, microbatches):
        yield from fused(("recv", stage + 1))
        yield "backward", m
        yield from fused(("send", stage - 1))


def interleaved(stage: int, stages: int, microbatches: int, chunks: int = 2) -> Iterator[Action]:
    """Several model chunks a rank."""
    last = stages * chunks - 1
    for way, chunk, m in schedule.interleaved(stage, stages, microbatches, chunks):
        place = chunk * stages + stage
        ahead = 1 if way == "forward" else -1
        if 0 <= place - ahead <= last:
            yield "p2p", (("recv", (place - ahead) % stages),), True
        yield way, m
        if 0 <= place + ahead <= last:
            yield "p2p", (("send", (place + ahead) % stages),), False


@dataclass
class Rank:
    """A simulated rank: when its streams and its host are free, us, and its trace."""

    rank: int
    replica: int
    stage: int
    trace: KinetoTrace
    compute: float = 0.0
    host: float = 0.0
    streams: dict[str, float] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)


@dataclass
class Job:
    """A job of `stages` x `replicas` ranks; `late_us` is what a host works before it launches a
    computation."""

    stages: int = 4
    replicas: int = 2
    microbatches: int = 8
    steps: int = 3
    schedule: Callable[[int, int, int], Iterator[Action]] = one_f_one_b
    took: Took = lambda way, *_: 1000.0 if way == "forward" else 2000.0
    late_us: Took = lambda *_: 0.0
    clock_us: Callable[[int], float] = lambda rank: 0.0
    threads: Callable[[int], int] = lambda rank: 128
    hosts: int = 0
    """Ranks a host; 0: not recorded."""

    def __post_init__(self) -> None:
        self.ends: list[float] = []
        self.ranks = [
            Rank(r, r // self.stages, r % self.stages, self._trace(r))
            for r in range(self.stages * self.replicas)
        ]
        for step in range(self.steps):
            self._step(step)

    def _trace(self, rank: int) -> KinetoTrace:
        trace = KinetoTrace().rank(rank, self.stages * self.replicas)
        trace.metadata["baseTimeNanoseconds"] = EPOCH_NS
        if self.hosts:
            trace.metadata["host_name"] = f"n{rank // self.hosts:03}"
        return trace

    def write(self, folder: Path) -> Path:
        """A file a rank."""
        folder.mkdir(parents=True, exist_ok=True)
        for one in self.ranks:
            for row in one.trace.rows:
                row["ts"] = round(row["ts"] + self.clock_us(one.rank), 3)
                row["dur"] = round(row["dur"], 3)
            one.trace.write(folder / f"rank{one.rank}.json.gz")
        return folder

    def _step(self, step: int) -> None:
        begun = max((one.host for one in self.ranks), default=0.0)
        posted: dict[tuple[object, ...], float] = {}
        count: dict[tuple[object, ...], int] = defaultdict(int)
        began = {one.rank: one.host for one in self.ranks}
        for one in self.ranks:
            one.actions = list(self.schedule(one.stage, self.stages, self.microbatches))
        while sum(self._advance(one, step, posted, count) for one in self.ranks):
            pass
        assert not any(one.actions or one.pending for one in self.ranks), "the schedule is stuck"
        for stage in range(self.stages):
            mine = [one for one in self.ranks if one.stage == stage]
            start = {one.rank: max(one.compute, self._launch(one)) for one in mine}
            met = max(start.values()) + REDUCE
            for one in mine:
                group = str([other.rank for other in mine])
                self._record(one, "allreduce", one.host, group, "dp")
                kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                one.trace.launched(
                    kernel, one.host, start[one.rank], met - start[one.rank], launch_us=2, stream=24
                )
                one.compute = met
        for one in self.ranks:
            at = self._launch(one)
            one.trace.annotation("Optimizer.step#SGD.step", at - LAUNCH, LAUNCH + 4)
            one.trace.op("aten::_foreach_add_", at - 1, LAUNCH)
            start = max(one.compute, at + LAUNCH)
            one.trace.launched(
                "multi_tensor_apply_kernel", at, start, OPTIMIZER, launch_us=2, **self._grid(one)
            )
            one.compute = one.host = start + OPTIMIZER
            one.trace.step(step, began[one.rank], one.host - began[one.rank])
        self.ends.append(max(one.host for one in self.ranks) - begun)

    def _grid(self, one: Rank) -> dict[str, object]:
        return {"grid": [32, 1, 1], "block": [self.threads(one.rank), 1, 1]}

    def _launch(self, one: Rank, late: float = 0.0) -> float:
        one.host += 10 + late
        return one.host

    def _advance(self, one: Rank, step: int, posted: dict, count: dict) -> bool:
        """Run what the rank can do next; whether there was anything."""
        done = [self._ended(one, pending, posted) for pending in list(one.pending)]
        if any(done):
            return True
        if not one.actions or any(waits for *_, waits in one.pending):
            return False
        if one.actions[0][0] != "p2p":
            self._compute(one, *one.actions.pop(0), step)
            return True
        _, parts, waits = one.actions[0]
        stream = "all" if len(parts) > 1 else str(parts[0])
        if any(pending[0] == stream for pending in one.pending):
            return False
        one.actions.pop(0)
        launched = self._exchange(one, parts)
        start = max(one.compute, one.streams.get(stream, 0.0), launched + LAUNCH)
        keys = []
        for kind, peer in parts:
            ends = (one.stage, peer) if kind == "send" else (peer, one.stage)
            keys.append((one.replica, one.stage, peer, ends, count[one.rank, kind, peer]))
            count[one.rank, kind, peer] += 1
            posted[keys[-1]] = start
        one.pending.append((stream, launched, start, keys, waits))
        return True

    def _ended(self, one: Rank, pending: Pending, posted: dict) -> bool:
        """End an exchange whose peers are all there."""
        stream, launched, start, keys, waits = pending
        there = [posted.get((replica, peer, stage, *rest)) for replica, stage, peer, *rest in keys]
        if None in there:
            return False
        end = one.streams[stream] = max(start, *there) + TRANSFER
        one.compute = max(one.compute, end) if waits else one.compute
        name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
        one.trace.launched(
            name,
            launched,
            start,
            end - start,
            launch_us=2,
            stream=20 + list(one.streams).index(stream),
        )
        one.pending.remove(pending)
        return True

    def _compute(self, one: Rank, way: str, m: int, step: int) -> None:
        at = self._launch(one, self.late_us(way, one.replica, one.stage, m, step))
        start = max(one.compute, at + LAUNCH)
        took = self.took(way, one.replica, one.stage, m, step)
        number = step * self.microbatches + m + 1
        if way == "forward":
            one.trace.op("aten::addmm", at - 1, LAUNCH + 2, Sequence_number=number)
        else:
            name = "autograd::engine::evaluate_function: AddmmBackward0"
            one.trace.op(name, at - 1, LAUNCH + 2, Sequence_number=number, Fwd_thread_id=1)
        one.trace.launched(
            "ampere_sgemm_128x64_tn", at, start, took, launch_us=2, **self._grid(one)
        )
        one.compute = start + took

    def _exchange(self, one: Rank, parts: tuple[tuple[str, int], ...]) -> float:
        """The host's calls; when it launches the kernel."""
        base = one.replica * self.stages
        group = str([base + stage for stage in range(self.stages)])
        for kind, peer in parts:
            at = self._launch(one)
            self._record(
                one,
                kind,
                at,
                group,
                "pp",
                **{"Dst_Rank" if kind == "send" else "Src_Rank": base + peer},
            )
        if len(parts) > 1:
            at = self._launch(one)
            one.trace.annotation("nccl:coalesced", at - 1, 4)
        return at

    def _record(
        self, one: Rank, name: str, at: float, group: str, description: str, **args: object
    ) -> None:
        one.trace.add(
            span(
                "cpu_op",
                "record_param_comms",
                at - 1,
                6,
                Collective_name=name,
                In_msg_nelems=65536,
                Out_msg_nelems=65536,
                Group_size=group.count(",") + 1,
                dtype="Float",
                Process_Group_Ranks=group,
                Process_Group_Name=description,
                Process_Group_Description=f"mesh_{description}",
                **args,
            )
        )
