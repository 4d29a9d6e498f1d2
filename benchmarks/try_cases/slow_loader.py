"""Each sample takes 2 ms to decode, in the training process."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized

DECODE_S = 0.002
BATCH = 16


class Decoded(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(DECODE_S)
        drawn = torch.Generator().manual_seed(index)
        return torch.randn(1024, generator=drawn), index % 10


def batches():
    more = {"num_workers": 8, "persistent_workers": True} if FIXED else {}
    while True:
        yield from DataLoader(Decoded(), batch_size=BATCH, shuffle=True, **more)


def main():
    width = sized(4096, 64)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, width), torch.nn.GELU(), torch.nn.Linear(width, 10)
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    source = batches()

    def step():
        inputs, labels = next(source)
        loss = torch.nn.functional.cross_entropy(model(inputs.to(DEVICE)), labels.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
