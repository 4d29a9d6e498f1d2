"""Train a small network on the CPU: STEPS [exit|crash|hang]."""

import sys
import time

import torch

steps = int(sys.argv[1])
ending = sys.argv[2] if len(sys.argv) > 2 else ""
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("started", flush=True)
for _ in range(steps):
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.001)
print("trained", flush=True)
if ending == "exit":
    sys.exit(7)
if ending == "crash":
    raise RuntimeError("as asked")
if ending == "hang":
    time.sleep(60)
