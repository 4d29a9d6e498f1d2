"""A convolutional network in half precision whose images are contiguous."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def block(channels):
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(channels),
        torch.nn.ReLU(),
    )


def main():
    channels = sized(256, 8)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, channels, 3, padding=1), *[block(channels) for _ in range(sized(12, 2))]
    )
    inputs = torch.randn(sized(64, 2), 3, sized(56, 8), sized(56, 8), device=DEVICE)
    model = model.to(DEVICE)
    if FIXED:
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def step():
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = model(inputs).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
