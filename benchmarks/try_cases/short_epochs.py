"""Workers that are started anew for each of many short epochs."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    data = TensorDataset(torch.randn(32 * 8, 256))
    loader = DataLoader(data, batch_size=32, num_workers=4, persistent_workers=FIXED)

    def batches():
        while True:
            yield from loader

    source = batches()
    width = sized(2048, 32)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, width), torch.nn.ReLU(), torch.nn.Linear(width, 256)
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def step():
        (inputs,) = next(source)
        loss = model(inputs.to(DEVICE)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
