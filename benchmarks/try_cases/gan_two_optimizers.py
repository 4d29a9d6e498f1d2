"""A GAN whose two Adams walk over many small tensors one by one."""

import itertools

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized

NOISE = 64


def tower(widths):
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [torch.nn.Linear(before, after), torch.nn.LayerNorm(after), torch.nn.SiLU()]
    return torch.nn.Sequential(*layers)


def main():
    width = sized(192, 8)
    count = sized(36, 2)
    generator = torch.nn.Sequential(
        tower([NOISE, *[width] * count]), torch.nn.Linear(width, width)
    ).to(DEVICE)
    critic = torch.nn.Sequential(tower([width] * count), torch.nn.Linear(width, 1)).to(DEVICE)
    how = {"fused": True} if FIXED else {"foreach": False}
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.99), **how)
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.99), **how)
    real = torch.randn(256, width, device=DEVICE)

    def step():
        fake = generator(torch.randn(len(real), NOISE, device=DEVICE))
        wrong = torch.relu(1 - critic(real)).mean() + torch.relu(1 + critic(fake.detach())).mean()
        of_critic.zero_grad()
        wrong.backward()
        of_critic.step()
        loss = -critic(fake).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()

    run(step)


if __name__ == "__main__":
    main()
