"""A convolutional network that needs nothing: compiled, in bf16, channels last, loaded ahead."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.try_cases.loop import DEVICE, run, sized


def block(channels):
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(channels),
        torch.nn.ReLU(),
    )


def main():
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    channels = sized(256, 8)
    side = sized(64, 8)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, channels, 3, padding=1), *[block(channels) for _ in range(sized(8, 1))]
    ).to(DEVICE, memory_format=torch.channels_last)
    call = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, fused=True)
    loader = DataLoader(
        TensorDataset(torch.randn(1024, 3, side, side)),
        batch_size=sized(64, 2),
        num_workers=4,
        pin_memory=DEVICE == "cuda",
        persistent_workers=True,
    )

    def batches():
        while True:
            yield from loader

    source = batches()

    def step():
        (pictures,) = next(source)
        pictures = pictures.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = call(pictures).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
