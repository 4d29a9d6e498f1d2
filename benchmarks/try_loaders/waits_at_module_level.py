"""Each sample waits 2 ms for a disk. All of it is at module level."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.try_cases.loop import Stopwatch


class Files(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((256,), index / (1 << 20)), index % 10


if __name__ == "__main__":
    workers = int(sys.argv[2]) if "fix" in sys.argv else 0
    loader = DataLoader(Files(), batch_size=16, shuffle=True, num_workers=workers)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    stopwatch = Stopwatch()
    for number, (inputs, labels) in enumerate(loader):
        stopwatch.before_step()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number == 400:
            break
    stopwatch.tell()
