"""How long the dumps of many ranks take: `python -m benchmarks.hangs [RANKS] [ENTRIES]`.

The dumps are as PyTorch writes them (pickle protocol 2, 2,000 entries with stacks of 30 frames, 350
kB a rank) in a job of TP 8, PP 10 and DP; one rank's CPU has stopped in the last step, and all
others wait for it in one group or another.
"""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

TENSOR = 8
PIPELINE = 10
KINDS = (
    ("TENSOR", "_all_gather_base", 6),
    ("TENSOR", "_reduce_scatter_base", 6),
    ("DATA", "_reduce_scatter_base", 1),
)
WIDTH = 5
"""Digits of a rank in the lists of groups: dumps of all ranks then differ in bytes of equal
number."""
FRAMES = [
    {
        "name": f"function_{i}",
        "filename": f"/opt/venv/lib/python3.12/site-packages/model/file_{i}.py",
        "line": 100 + i,
    }
    for i in range(30)
]


def groups_of(rank: int, world: int) -> dict[str, tuple[str, list[int]]]:
    """Name and ranks of each group of a rank, by purpose."""
    stage = world // PIPELINE
    tensor = rank // TENSOR
    column = rank % stage
    data = [
        r
        for r in range(rank // stage * stage, (rank // stage + 1) * stage)
        if r % TENSOR == rank % TENSOR
    ]
    return {
        "default_pg": ("00000", list(range(world))),
        "TENSOR": (f"1{tensor:04}", list(range(tensor * TENSOR, (tensor + 1) * TENSOR))),
        "DATA": (f"2{rank // stage * TENSOR + rank % TENSOR:04}", data),
        "PIPELINE": (f"3{column:04}", list(range(column, world, stage))),
    }


def dump(rank: int, world: int, entries: int, stopped: bool) -> dict[str, Any]:
    """The dump of a rank: steps of `KINDS` and a collective of all; the last is not complete."""
    groups = groups_of(rank, world)
    numbers = {purpose: i for i, purpose in enumerate(groups)}
    order = [(purpose, kind) for purpose, kind, count in KINDS for _ in range(count)] + [
        ("default_pg", "all_reduce")
    ]
    entries -= entries % len(order) if entries > len(order) else 0
    issued: Counter[str] = Counter()
    found: list[dict[str, Any]] = []
    stacks = [FRAMES[i:] for i in range(len(order))]
    names = {kind: f"nccl:{kind}" for _, kind in order}  # PyTorch writes each text once
    for record in range(entries - stopped):
        purpose, kind = order[record % len(order)]
        issued[purpose] += 1
        done = record < entries - 1
        at = 1_758_000_000_000_000_000 + record * 1_000_000
        found.append(
            {
                "frames": stacks[record % len(order)],
                "record_id": record,
                "pg_id": numbers[purpose],
                "process_group": (groups[purpose][0], purpose),
                "thread_name": "python3",
                "thread_id": "1398816302560",
                "collective_seq_id": issued[purpose],
                "p2p_seq_id": 0,
                "op_id": record,
                "profiling_name": names[kind],
                "time_created_ns": at,
                "input_sizes": [[4096, 5120]],
                "input_dtypes": ["BFloat16"],
                "output_sizes": [[4096, 5120]],
                "output_dtypes": ["BFloat16"],
                "state": "completed" if done else "scheduled",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": at + 900_000 if done else None,
                "retired": done,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )
    config = {
        name: {
            "name": name,
            "desc": purpose,
            "ranks": "[" + ", ".join(f"{r:0{WIDTH}}" for r in ranks) + "]",
        }
        for purpose, (name, ranks) in groups.items()
    }
    return {"version": "2.10", "nccl_version": "2.28.3", "pg_config": config, "entries": found}


def write(folder: Path, world: int, entries: int, culprit: int) -> None:
    """The dumps: those of one stage are copies of its first rank's with other names and lists of
    groups."""
    base = dump(0, world, entries, stopped=False)
    data = pickle.dumps(base, 2)
    own = base["pg_config"]
    before = [(name, one["ranks"]) for name, one in own.items() if one["desc"] != "default_pg"]
    for rank in range(world):
        text = data
        if rank == culprit:
            text = pickle.dumps(dump(rank, world, entries, stopped=True), 2)
        elif rank:
            after = dump(rank, world, 1, stopped=False)["pg_config"]
            new = [
                (name, one["ranks"]) for name, one in after.items() if one["desc"] != "default_pg"
            ]
            for (old_name, old_ranks), (name, ranks) in zip(before, new, strict=True):
                text = text.replace(old_ranks.encode(), ranks.encode()).replace(
                    old_name.encode(), name.encode()
                )
        (folder / f"nccl_trace_rank_{rank}").write_bytes(text)


def main(world: int, entries: int) -> None:
    """Write the dumps, and time the command on two processes."""
    world -= world % (TENSOR * PIPELINE)
    culprit = world * 7 // 9
    with tempfile.TemporaryDirectory() as made:
        write(Path(made), world, entries, culprit)
        size = sum(path.stat().st_size for path in Path(made).iterdir())
        start = time.perf_counter()
        command = [sys.executable, "-m", "traceanalyzer", "hang", made, "--jobs", "2"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        took = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(text)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{world:,} ranks of {entries:,} entries, {size / 1e9:.2f} GB: {took:.1f} s, CPU {cpu:.1f} s"
    )
    print(f"{cpu / world * 1e3:.1f} ms of CPU a rank, at most {used.ru_maxrss >> 10} MiB a process")
    assert f"Rank {culprit} stopped" in text


if __name__ == "__main__":
    wanted = [int(text) for text in sys.argv[1:]]
    main(*wanted, *(10_000, 2_000)[len(wanted) :])
