"""Train a small compiled network on the CPU: STEPS. Ends with status 1 if it was compiled more than
once."""

import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
run = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1])):
    run(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.001)
sys.exit(torch._dynamo.utils.counters["frames"]["total"] > 1)
