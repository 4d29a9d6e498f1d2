"""Ranks, groups and faults without time: how far each rank comes when something breaks, and what it
then dumps.

A rank's CPU issues the operations of its program until it has to wait for its GPU; its GPU begins
an operation when those that its input depends on are complete; a collective completes when all its
ranks have begun it. Nothing here knows how hangs are explained.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

CPU = "cpu"
GPU = "gpu"
FRAMES = [
    {
        "name": "all_reduce",
        "filename": "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py",
        "line": 3245,
    },
    {
        "name": "wrapper",
        "filename": "/opt/venv/lib/python3.12/site-packages/torch/distributed/c10d_logger.py",
        "line": 83,
    },
    {"name": "train_step", "filename": "/home/me/job/train.py", "line": 0},
]


@dataclass
class Layout:
    """Sizes of the parallelisms; a rank is `(pp * dp + d) * tp + t`."""

    tp: int
    dp: int
    pp: int
    ep: int
    named: bool = True

    @property
    def world(self) -> int:
        return self.tp * self.dp * self.pp

    def groups(self) -> list[tuple[str, list[int]]]:
        """What each group is for and its ranks; the place in the list is its name."""
        tp = self.tp
        dp = self.dp
        pp = self.pp
        world = self.world
        stage = tp * dp
        found = [("default_pg", list(range(world)))]
        found += [
            ("DATA_PARALLEL", [p * stage + d * tp + t for d in range(dp)])
            for p in range(pp)
            for t in range(tp)
        ]
        found += [("TENSOR_PARALLEL", list(range(i, i + tp))) for i in range(0, world, tp)]
        found += [("PIPELINE_PARALLEL", [p * stage + i for p in range(pp)]) for i in range(stage)]
        found += [
            ("EXPERT_PARALLEL", list(range(i, i + self.ep))) for i in range(0, world, self.ep)
        ]
        return [(desc if self.named else "undefined", ranks) for desc, ranks in found]


@dataclass
class Op:
    """An operation in a rank's program. `blocking`: what follows on the GPU depends on it; `peer`
    is a global rank."""

    group: int
    kind: str
    sizes: list[list[int]]
    dtype: str = "BFloat16"
    out: list[list[int]] | None = None
    blocking: bool = True
    peer: int = -1
    line: int = 0
    seq: int = 0
    begun: bool = False
    done: bool = False


WAIT = "wait"
SYNC = "sync"
"""Of the GPU for all operations so far, and of the CPU for its GPU."""


@dataclass
class Fault:
    """`kind` at a rank, when it comes to the item `at` of its program. `other`: the other end of a
    link."""

    kind: str
    rank: int
    at: int
    other: int = -1


@dataclass
class Rank:
    rank: int
    program: list[Any]
    issued: list[Any] = field(default_factory=list)
    pc: int = 0
    gpu_at: int = 0
    open: list[Op] = field(default_factory=list)
    """Operations that its GPU has begun, some of them done."""


class Job:
    """The job, run until nothing moves."""

    def __init__(
        self, layout: Layout, steps: int, micro: int, layers: int, moe: bool, faults: list[Fault]
    ) -> None:
        self.layout, self.groups, self.faults = layout, layout.groups(), faults
        self._mine = {r: {} for r in range(layout.world)}
        for index, (_, ranks) in enumerate(self.groups):
            for rank in ranks:
                kind = self._kind_of(index)
                self._mine[rank].setdefault(kind, index)
        self.ranks = [
            Rank(r, self._program(r, steps, micro, layers, moe)) for r in range(layout.world)
        ]
        self._apply()
        for rank in self.ranks:
            self._number(rank.program)

    def _kind_of(self, index: int) -> str:
        layout = self.layout
        stage = layout.tp * layout.dp
        edges = [
            ("world", 1),
            ("dp", layout.pp * layout.tp),
            ("tp", layout.world // layout.tp),
            ("pp", stage),
        ]
        for kind, count in edges:
            if index < count:
                return kind
            index -= count
        return "ep"

    def _program(self, r: int, steps: int, micro: int, layers: int, moe: bool) -> list[Any]:  # noqa: C901
        mine = self._mine[r]
        layout = self.layout
        stage = layout.tp * layout.dp
        before = r - stage if r >= stage else -1
        after = r + stage if r + stage < layout.world else -1
        items: list[Any] = []

        def layer(n: int, back: bool) -> None:
            line = 100 + n + 50 * back
            if layout.tp > 1:
                items.append(
                    Op(
                        mine["tp"],
                        "_all_gather_base",
                        [[512, 64]],
                        out=[[512 * layout.tp, 64]],
                        line=line,
                    )
                )
            if moe and layout.ep > 1:
                items.append(
                    Op(
                        mine["ep"],
                        "_all_gather_base",
                        [[16]],
                        "Long",
                        [[16 * layout.ep]],
                        line=line + 1,
                    )
                )
                if not back:
                    items.append(SYNC)
                items.append(
                    Op(
                        mine["ep"],
                        "all_to_all",
                        [[512 + 7 * r, 64]],
                        out=[[500 + 3 * r, 64]],
                        line=line + 2,
                    )
                )
            if layout.tp > 1:
                items.append(
                    Op(
                        mine["tp"],
                        "_reduce_scatter_base",
                        [[512 * layout.tp, 64]],
                        out=[[512, 64]],
                        line=line + 3,
                    )
                )

        def pair(kind: str, peer: int) -> None:
            if peer >= 0:
                items.append(
                    Op(
                        mine["pp"],
                        kind,
                        [[512, 1, 64]],
                        peer=peer,
                        line=90,
                        blocking=kind == "recv",
                    )
                )

        for _ in range(steps):
            for _ in range(micro):
                pair("recv", before)
                for n in range(layers):
                    layer(n, back=False)
                pair("send", after)
            for m in range(micro):
                pair("recv", after)
                for n in range(layers):
                    layer(n, back=True)
                    if m == micro - 1 and layout.dp > 1:
                        items.append(
                            Op(
                                mine["dp"],
                                "_reduce_scatter_base",
                                [[layout.dp * (300 + n)]],
                                "Float",
                                [[300 + n]],
                                blocking=False,
                                line=300 + n,
                            )
                        )
                pair("send", before)
            items.append(WAIT)
            items.append(Op(0, "all_reduce", [[1]], "Float", line=400))
            items.append(SYNC)
            if layout.dp > 1:
                items.append(
                    Op(mine["dp"], "_all_gather_base", [[300]], out=[[300 * layout.dp]], line=401)
                )
        return items

    def _apply(self) -> None:
        for fault in self.faults:
            program = self.ranks[fault.rank].program
            if fault.kind == "skip":
                del program[fault.at]
            elif fault.kind.startswith("mismatch"):
                op = program[fault.at]
                if fault.kind == "mismatch_kind":
                    op.kind = "all_reduce" if op.kind != "all_reduce" else "broadcast"
                elif fault.kind == "mismatch_dtype":
                    op.dtype = "Half" if op.dtype != "Half" else "Float"
                else:
                    op.sizes = [[n + 8 for n in size] for size in op.sizes]

    def _number(self, program: list[Any]) -> None:
        counts: Counter[tuple[int, bool]] = Counter()
        for item in program:
            if isinstance(item, Op):
                key = (item.group, item.peer >= 0)
                counts[key] += 1
                item.seq = counts[key]

    def run(self) -> None:
        moving = True
        while moving:
            moved = [self._cpu(rank) or self._gpu(rank) for rank in self.ranks]
            moving = any(moved) | self._complete()

    def _fault(self, rank: int, *kinds: str) -> Fault | None:
        return next((f for f in self.faults if f.rank == rank and f.kind in kinds), None)

    def _cpu(self, rank: Rank) -> bool:
        stop = self._fault(rank.rank, "gil", "killed", "sigstop", "storage")
        end = len(rank.program) if stop is None else stop.at
        start = rank.pc
        while rank.pc < end:
            item = rank.program[rank.pc]
            if item == SYNC and (
                rank.gpu_at < len(rank.issued) or not all(op.done for op in rank.open)
            ):
                break
            if item != SYNC:
                rank.issued.append(item)
            rank.pc += 1
        return rank.pc > start

    def _gpu(self, rank: Rank) -> bool:
        stop = self._fault(rank.rank, "gpu_stuck", "gpu_error", "killed", "sigstop")
        limit = None
        if stop is not None:
            limit = rank.program[stop.at]
        start = rank.gpu_at
        rank.open = [op for op in rank.open if not op.done]
        while rank.gpu_at < len(rank.issued):
            item = rank.issued[rank.gpu_at]
            if item is limit:
                break
            if item == WAIT:
                if rank.open:
                    break
            elif any(op.blocking or op.group == item.group for op in rank.open):
                break
            else:
                item.begun = True
                rank.open.append(item)
            rank.gpu_at += 1
        return rank.gpu_at > start

    def _complete(self) -> bool:
        at: dict[tuple[Any, ...], list[tuple[int, Op]]] = defaultdict(list)
        for rank in self.ranks:
            for item in rank.open:
                if not item.done:
                    ends = (rank.rank, item.peer) if item.kind == "send" else (item.peer, rank.rank)
                    key = (item.group, "pair", *ends) if item.peer >= 0 else (item.group, item.seq)
                    at[key].append((rank.rank, item))
        moved = False
        for key, ops in at.items():
            needed = 2 if key[1] == "pair" else len(self.groups[key[0]][1])
            kinds = dict(ops)
            if len(kinds) < needed or self._broken(list(kinds)) or not _fit([op for _, op in ops]):
                continue
            for op in kinds.values():
                op.done = moved = True
        return moved

    def _broken(self, ranks: list[int]) -> bool:
        for fault in self.faults:
            if fault.kind == "link" and {fault.rank, fault.other} <= set(ranks):
                return self.ranks[fault.rank].pc > fault.at
        return False

    @property
    def hangs(self) -> bool:
        """Whether no rank came to the end of its program, and each fault struck."""
        struck = all(
            self.ranks[f.rank].pc >= f.at
            if f.kind not in ("gpu_stuck", "gpu_error")
            else self.ranks[f.rank].program[f.at] in self.ranks[f.rank].issued
            and self.ranks[f.rank].gpu_at < len(self.ranks[f.rank].issued)
            and self.ranks[f.rank].issued[self.ranks[f.rank].gpu_at]
            is self.ranks[f.rank].program[f.at]
            for f in self.faults
        )
        return struck and all(rank.pc < len(rank.program) for rank in self.ranks)


def _fit(ops: list[Op]) -> bool:
    """Whether they can complete together."""
    if ops[0].peer >= 0:
        return ops[0].sizes == ops[1].sizes and ops[0].dtype == ops[1].dtype
    same = {(op.kind, op.dtype, None if op.kind == "all_to_all" else str(op.sizes)) for op in ops}
    return len(same) == 1


@dataclass
class Writer:
    """How dumps are written."""

    active_only: bool = False
    ring: int = 2000
    counters: bool = True
    frames: bool = True
    timing: bool = False
    config: bool = True
    old: bool = False
    """As PyTorch 2.3: one sequence number, no counters."""
    backend: str = "nccl"

    def dump(self, job: Job, rank: Rank, lost: int = 0) -> dict[str, Any]:
        """What the rank dumps. `lost`: so many of its last completions were never noticed."""
        ops = [item for item in rank.issued if isinstance(item, Op)]
        done = [op for op in ops if op.done]
        unnoticed = {id(op) for op in done[len(done) - lost :]}
        if lost:  # an error: nothing that was issued later is noticed either
            first = ops.index(done[len(done) - lost])
            unnoticed |= {id(op) for op in ops[first:]}
        entries = []
        status = {}
        groups = sorted(
            {op.group for op in ops}
            | {i for i, (_, ranks) in enumerate(job.groups) if rank.rank in ranks}
        )
        number = {group: i for i, group in enumerate(groups)}
        collectives: Counter[int] = Counter()
        for record, op in enumerate(ops):
            collectives[op.group] += op.peer < 0
            completed = op.done and id(op) not in unnoticed
            of = status.setdefault(
                str(number[op.group]),
                {
                    "last_enqueued_collective": -1,
                    "last_started_collective": -1,
                    "last_completed_collective": -1,
                },
            )
            of["last_enqueued_collective"] = op.seq
            if completed:
                of["last_completed_collective"] = op.seq
            if self.active_only and completed:
                continue
            entries.append(
                self._entry(
                    job, rank, op, record, number[op.group], collectives[op.group], completed
                )
            )
        dump = {
            "version": "1.4" if self.old else "2.9",
            "entries": entries[-self.ring :],
            "pg_config": {},
        }
        if self.config:
            dump["pg_config"] = {
                str(g): {"name": str(g), "desc": job.groups[g][0], "ranks": str(job.groups[g][1])}
                for g in groups
            }
        if self.counters and not self.old:
            dump["pg_status"] = status
        return dump

    def _entry(
        self,
        job: Job,
        rank: Rank,
        op: Op,
        record: int,
        number: int,
        collectives: int,
        completed: bool,
    ) -> dict[str, Any]:
        ranks = job.groups[op.group][1]
        name = f"{self.backend}:{op.kind}"
        if op.peer >= 0:
            arrow = "->" if op.kind == "send" else "<-"
            name += f" {ranks.index(rank.rank)}{arrow}{ranks.index(op.peer)}"
        begun = self.timing and op.begun
        state = "completed" if completed else "started" if begun else "scheduled"
        created = 1_758_000_000_000_000_000 + record * 1_000_000 + rank.rank * 1000
        entry = {
            "record_id": record,
            "pg_id": number,
            "process_group": (str(op.group), job.groups[op.group][0]),
            "collective_seq_id": collectives,
            "p2p_seq_id": op.seq if op.peer >= 0 else 0,
            "op_id": record + 1,
            "profiling_name": name,
            "time_created_ns": created,
            "input_sizes": op.sizes,
            "input_dtypes": [op.dtype],
            "output_sizes": op.out or op.sizes,
            "output_dtypes": [op.dtype],
            "state": state,
            "time_discovered_started_ns": created + 1000 if begun else None,
            "time_discovered_completed_ns": created + 2000 if completed else None,
            "retired": completed,
            "timeout_ms": 600_000,
            "is_p2p": op.peer >= 0,
        }
        if self.frames:
            entry["frames"] = [*FRAMES[:2], {**FRAMES[2], "line": op.line}]
        if self.old:
            entry["seq_id"] = op.seq
            for name in ("collective_seq_id", "p2p_seq_id", "op_id"):
                del entry[name]
        return entry


@dataclass
class Case:
    """A hang whose answer is known."""

    seed: int
    job: Job
    writer: Writer
    kind: str
    culprits: set[int]
    dumps: dict[int, dict[str, Any]]


LAYOUTS = (
    (2, 2, 2, 4),
    (2, 4, 1, 4),
    (4, 2, 2, 8),
    (1, 8, 1, 4),
    (2, 2, 4, 2),
    (4, 1, 4, 4),
    (1, 4, 4, 4),
    (2, 4, 2, 8),
    (8, 2, 2, 16),
    (4, 4, 2, 8),
    (1, 16, 1, 1),
    (2, 8, 2, 4),
)
KINDS = (
    "gil",
    "killed",
    "sigstop",
    "storage",
    "gpu_error",
    "gpu_stuck",
    "skip",
    "mismatch_size",
    "mismatch_dtype",
    "mismatch_kind",
    "link",
    "two",
)


def case(seed: int) -> Case:
    """The hang of a seed: every kind of fault in turn."""
    draw = random.Random(seed)  # noqa: S311
    kind = KINDS[seed % len(KINDS)]
    while True:
        layout = Layout(*draw.choice(LAYOUTS), named=draw.random() < 0.8)
        shape = (3, draw.choice((1, 2, 4)), draw.choice((1, 2, 3)), draw.random() < 0.6)
        faults = _faults(draw, kind, Job(layout, *shape, []))
        if faults is None:
            continue
        job = Job(layout, *shape, faults)
        job.run()
        if job.hangs:
            break
    writer = Writer(
        active_only=draw.random() < 0.3,
        ring=draw.choice((2000, 2000, 2000, 40)),
        counters=draw.random() < 0.8,
        frames=draw.random() < 0.5,
        timing=draw.random() < 0.4,
        old=draw.random() < 0.15,
    )
    if writer.active_only:
        writer.counters = True
        writer.old = False
    silent = {f.rank for f in faults if f.kind in ("killed", "sigstop")}
    lost = {f.rank: draw.randint(1, 5) for f in faults if f.kind == "gpu_error"}
    dumps = {
        r.rank: writer.dump(job, r, lost.get(r.rank, 0)) for r in job.ranks if r.rank not in silent
    }
    culprits = set() if kind == "link" else {f.rank for f in faults}
    return Case(seed, job, writer, kind, culprits, dumps)


def _faults(draw: random.Random, kind: str, job: Job) -> list[Fault] | None:
    kinds = draw.sample(("gil", "killed", "storage", "gpu_error"), 2) if kind == "two" else [kind]
    ranks = draw.sample(range(job.layout.world), len(kinds))
    faults = []
    for one, rank in zip(kinds, ranks, strict=True):
        program = job.ranks[rank].program
        third = len(program) // 3
        places = [i for i in range(third, 2 * third) if isinstance(program[i], Op)]
        if one == "storage":  # where a step begins: after the collective that ends the one before
            places = [i for i in places if program[i - 1] == SYNC and program[i - 2].line == 400]
        if one == "skip" or one.startswith("mismatch"):
            places = [
                i
                for i in places
                if len(job.groups[program[i].group][1]) > 2 and program[i].peer < 0
            ]
        if one == "mismatch_size":
            places = [i for i in places if program[i].kind != "all_to_all"]
        if not places:
            return None
        at = draw.choice(places)
        other = -1
        if one == "link":
            op = program[at]
            other = draw.choice([r for r in job.groups[op.group][1] if r != rank] or [-1])
            if other < 0:
                return None
        faults.append(Fault(one, rank, at, other))
    return faults
