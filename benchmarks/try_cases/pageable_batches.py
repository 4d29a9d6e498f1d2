"""Batches in pageable memory: the host waits for each copy."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def batches():
    pixels = sized(3 * 256 * 256, 64)
    data = TensorDataset(torch.randn(2048, pixels))
    pinned = FIXED and DEVICE == "cuda"
    while True:
        yield from DataLoader(
            data, batch_size=128, num_workers=4, pin_memory=pinned, persistent_workers=True
        )


def main():
    torch.set_float32_matmul_precision("high")
    model = torch.nn.Sequential(
        torch.nn.Linear(sized(3 * 256 * 256, 64), 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    source = batches()

    def step():
        (inputs,) = next(source)
        loss = model(inputs.to(DEVICE, non_blocking=FIXED)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
