"""A program that needs nothing: compiled, in bf16, large enough for the GPU."""

import torch

from benchmarks.try_cases.loop import DEVICE, run, sized


def main():
    torch.set_float32_matmul_precision("high")
    width = sized(4096, 64)
    layers = [torch.nn.Linear(width, width, dtype=torch.bfloat16) for _ in range(6)]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, fused=True)
    inputs = torch.randn(sized(4096, 64), width, device=DEVICE, dtype=torch.bfloat16)

    def step():
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
