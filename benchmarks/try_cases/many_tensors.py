"""AdamW that walks over hundreds of small tensors one by one."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    width = 256
    layers = [torch.nn.Linear(width, width) for _ in range(sized(150, 10))]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    how = {"fused": True} if FIXED else {"foreach": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)
    inputs = torch.randn(64, width, device=DEVICE)

    def step():
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
