"""How long collectives of many sizes take on a machine's links.

    torchrun --standalone --nproc-per-node=4 -m benchmarks.link_curve OUT.json

For each collective, number of ranks and size: the median time by CUDA events of many calls in a
row, us. Where the machine has four GPUs groups of two are timed, too.
"""

import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

SIZES_BYTES = tuple(1 << power for power in range(10, 31, 2))
CALLS = 20
ROUNDS = 7


def call_of(kind: str, size_bytes: int, group: dist.ProcessGroup) -> Callable[[], object]:
    """A collective of bf16 values whose larger side has `size_bytes` a rank."""
    ranks = dist.get_world_size(group)
    count = max(size_bytes // 2 // ranks, 1) * ranks
    whole = torch.zeros(count, device="cuda", dtype=torch.bfloat16)
    part = torch.zeros(count // ranks, device="cuda", dtype=torch.bfloat16)
    calls = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(whole), whole, group=group),
    }
    return calls[kind]


def median_us(call: Callable[[], object]) -> float:
    """Median time of a call among many in a row, us."""
    for _ in range(3):
        call()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / CALLS)
    return statistics.median(times)


def main(out: Path) -> None:
    """Time all; rank 0 writes what it read."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    world = dist.get_world_size()
    groups = {world: dist.group.WORLD}
    if world > 2:
        pairs = [dist.new_group([first, first + 1]) for first in range(0, world, 2)]
        groups[2] = pairs[rank // 2]
    rows = [
        {
            "collective": kind,
            "ranks": ranks,
            "bytes": size,
            "us": round(median_us(call_of(kind, size, group)), 3),
        }
        for ranks, group in groups.items()
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
        for size in SIZES_BYTES
    ]
    if rank == 0:
        about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
        out.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
