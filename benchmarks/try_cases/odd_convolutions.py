"""fp32 convolutions of which cuDNN takes its first guess."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    if FIXED:
        torch.backends.cudnn.benchmark = True
    channels = sized(96, 4)
    layers = []
    for kernel in (3, 5, 7, 3, 5, 7):
        layers += [
            torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2),
            torch.nn.ReLU(),
        ]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    inputs = torch.randn(sized(32, 1), channels, sized(64, 8), sized(64, 8), device=DEVICE)

    def step():
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
