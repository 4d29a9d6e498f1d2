"""A U-Net in bf16 whose pictures are contiguous."""

import torch
from torch.nn import functional as F  # noqa: N812

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def twice(before, after):
    layers = []
    for first in (before, after):
        layers += [
            torch.nn.Conv2d(first, after, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(after),
            torch.nn.ReLU(inplace=True),
        ]
    return torch.nn.Sequential(*layers)


class UNet(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = twice(3, width)
        self.second = twice(width, 2 * width)
        self.third = twice(2 * width, 4 * width)
        self.grow_second = torch.nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up_second = twice(4 * width, 2 * width)
        self.grow_first = torch.nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.up_first = twice(2 * width, width)
        self.last = torch.nn.Conv2d(width, 2, 1)

    def forward(self, pictures):
        first = self.first(pictures)
        second = self.second(F.max_pool2d(first, 2))
        third = self.third(F.max_pool2d(second, 2))
        x = self.up_second(torch.cat([second, self.grow_second(third)], 1))
        x = self.up_first(torch.cat([first, self.grow_first(x)], 1))
        return self.last(x)


def main():
    side = sized(256, 16)
    model = UNet(sized(64, 4)).to(DEVICE)
    pictures = torch.randn(sized(16, 2), 3, side, side, device=DEVICE)
    masks = torch.randint(0, 2, (sized(16, 2), side, side), device=DEVICE)
    if FIXED:
        model = model.to(memory_format=torch.channels_last)
        pictures = pictures.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = F.cross_entropy(model(pictures), masks)
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
