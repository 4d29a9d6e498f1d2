"""Gradients of eight small batches are added up, and the loss of each is read."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized

PARTS = 8


def main():
    torch.set_float32_matmul_precision("high")
    width = sized(1024, 16)
    layers = []
    for _ in range(sized(8, 2)):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(PARTS, sized(2048, 4), width, device=DEVICE)
    labels = torch.randint(0, 10, (PARTS, sized(2048, 4)), device=DEVICE)
    losses = []

    def step():
        total = 0.0
        right = 0
        for some, wanted in zip(inputs, labels, strict=True):
            told = model(some)
            loss = torch.nn.functional.cross_entropy(told, wanted) / PARTS
            loss.backward()
            hits = (told.argmax(1) == wanted).sum()
            total += loss.detach() if FIXED else loss.item()
            right += hits if FIXED else hits.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append((total, right))

    run(step)


if __name__ == "__main__":
    main()
