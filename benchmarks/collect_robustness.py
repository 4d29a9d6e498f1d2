"""Trains with DDP, for collect_robustness.sh: STEPS [crash|sleep|stuck]."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS = int(sys.argv[1])
ENDING = sys.argv[2] if len(sys.argv) > 2 else ""
GPU = torch.cuda.is_available()


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    if GPU:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if GPU else "gloo")
    device = f"cuda:{rank}" if GPU else "cpu"
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))).to(device)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(32, 256, device=device)
    for _ in range(STEPS):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("stepped", flush=True)
    if ENDING == "crash" and rank == 1:
        raise RuntimeError("as asked")
    if ENDING in ("crash", "stuck") and rank == 0:
        total = torch.ones(1, device=device)
        dist.all_reduce(total)
        print(total.item())
    if ENDING in ("sleep", "stuck"):
        time.sleep(600)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
