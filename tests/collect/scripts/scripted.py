"""Run a scripted network on the CPU: infer|train STEPS."""

import sys
import time
import warnings

import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)
model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[2])):
    with torch.set_grad_enabled(sys.argv[1] == "train"):
        loss = model(torch.randn(4, 16)).square().mean()
    if sys.argv[1] == "train":
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    time.sleep(0.001)
