"""An IterableDataset that shares its records among its workers; each record waits 3 ms."""

import sys
import time

import torch
from torch.utils import data

from benchmarks.try_cases.loop import Stopwatch


class Records(data.IterableDataset):
    def __iter__(self):
        worker = data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, 1 << 16, step):
            time.sleep(0.003)
            yield torch.full((64,), number / (1 << 16)), torch.tensor(number % 4)


def main():
    workers = int(sys.argv[2]) if "fix" in sys.argv else 0
    model = torch.nn.Linear(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stopwatch = Stopwatch()
    loader = data.DataLoader(Records(), batch_size=12, num_workers=workers)
    for number, (inputs, labels) in enumerate(loader):
        stopwatch.before_step()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == 400:
            break
    stopwatch.tell()


if __name__ == "__main__":
    main()
