"""Train with DDP on gloo: STEPS [crash|hang] [RANK]. `hang` leaves the rank's peers in a collective
for ever."""

import sys
import time

import torch
import torch.distributed as dist

steps = int(sys.argv[1])
ending = sys.argv[2] if len(sys.argv) > 2 else ""
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(steps):
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
print("stepped", flush=True)
if ending == "crash" and dist.get_rank() == 1:
    raise RuntimeError("as asked")
if ending in ("crash", "hang"):
    time.sleep(60)
dist.destroy_process_group()
