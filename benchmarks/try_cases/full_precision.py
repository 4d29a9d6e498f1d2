"""Large fp32 products, at full precision."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    if FIXED:
        torch.set_float32_matmul_precision("high")
    width = sized(4096, 64)
    layers = [torch.nn.Linear(width, width) for _ in range(6)]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    inputs = torch.randn(sized(4096, 64), width, device=DEVICE)

    def step():
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
