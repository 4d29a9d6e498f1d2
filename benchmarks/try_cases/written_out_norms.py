"""Chains of elementwise operators between small products."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


class Gated(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(width))
        self.weight = torch.nn.Linear(width, width)

    def forward(self, x):
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale
        gate = 0.5 * normed * (1 + torch.tanh(0.79788 * (normed + 0.0447 * normed**3)))
        return x + self.weight(gate) * torch.sigmoid(gate)


def main():
    torch.set_float32_matmul_precision("high")
    width = sized(1024, 32)
    model = torch.nn.Sequential(*[Gated(width) for _ in range(sized(8, 2))]).to(DEVICE)
    if FIXED:
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    inputs = torch.randn(sized(8192, 64), width, device=DEVICE)

    def step():
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
