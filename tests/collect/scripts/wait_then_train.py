"""Train until the file given first exists, in a process that says where it is; fork workers for the
data."""

import sys
import time
from pathlib import Path

import torch

torch.set_num_threads(1)
until = Path(sys.argv[1])
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("started", flush=True)
while not until.exists():
    # workers are forked, and ended by SIGTERM when the iterator is dropped, also while the profiler
    # is on
    for batch in torch.utils.data.DataLoader(torch.randn(16, 16), batch_size=4, num_workers=1):
        model(batch).square().mean().backward()
        optimizer.step()
        time.sleep(0.001)
        if until.exists():
            break
print("ended", flush=True)
