"""Programs of science: equations, filters, particles."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from benchmarks.pairs.program import DEVICE, Pair, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def _tanh_network(*sizes: int) -> nn.Sequential:
    layers = [x for a, b in itertools.pairwise(sizes[:-1]) for x in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(*sizes[-2:])).to(DEVICE)


def flow_solved_in_small_steps(fixed: bool) -> Step:
    """A neural differential equation solved in 50 Runge-Kutta steps of four calls, in a CUDA graph or not."""
    field, start = _tanh_network(64, 256, 256, 64), torch.randn(512, 64, device=DEVICE)
    many, dt = n(50, 3), 0.02

    def step() -> Any:
        with torch.inference_mode():
            x = start
            for _ in range(many):
                a = field(x)
                b = field(x + dt / 2 * a)
                c = field(x + dt / 2 * b)
                d = field(x + dt * c)
                x = x + dt / 6 * (a + 2 * b + 2 * c + d)
            return x

    return graphed(step) if fixed else step


def equation_few_points(fixed: bool) -> Step:
    """A network learns Burgers' equation from 1024 points, derived twice; the remedy is eight times as many."""
    model = _tanh_network(2, 64, 64, 64, 64, 64, 1)
    many = n(1024, 8) * (8 if fixed else 1)
    places = torch.rand(many, 2, device=DEVICE).requires_grad_()
    begin = torch.cat((torch.zeros(many // 8, 1), torch.rand(many // 8, 1)), 1).to(DEVICE)

    def loss() -> Any:
        u = model(places)
        (first,) = torch.autograd.grad(u.sum(), places, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 1].sum(), places, create_graph=True)
        wrong = first[:, :1] + u * first[:, 1:] - 0.003 * second[:, 1:]
        return wrong.square().mean() + (model(begin) + (np.pi * begin[:, 1:]).sin()).square().mean()

    return train(model, loss, torch.optim.Adam(model.parameters(), 1e-4, fused=True))


def filters_one_by_one(fixed: bool) -> Step:
    """Kalman filters of 48 tracked objects, each predicted, solved and corrected on its own."""
    objects, states, seen = n(48, 3), 18, 9
    move = torch.eye(states, device=DEVICE) + 0.01 * torch.randn(states, states, device=DEVICE)
    look = torch.randn(seen, states, device=DEVICE)
    drift, noise, same = (torch.eye(size, device=DEVICE) for size in (states, seen, states))
    state, wide = torch.randn(objects, states, 1, device=DEVICE), torch.eye(states, device=DEVICE).repeat(objects, 1, 1)
    measured = torch.randn(objects, seen, 1, device=DEVICE)

    def update(x: torch.Tensor, p: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, p = move @ x, move @ p @ move.T + 0.01 * drift
        gain = torch.linalg.solve(look @ p @ look.T + 0.1 * noise, look @ p).mT
        return x + gain @ (z - look @ x), (same - gain @ look) @ p

    def step() -> Any:
        with torch.inference_mode():
            if fixed:
                return update(state, wide, measured)
            each = [update(*one) for one in zip(state, wide, measured, strict=True)]
            return torch.stack([x for x, _ in each]), torch.stack([p for _, p in each])

    return step


def forces(x: torch.Tensor, box: float) -> torch.Tensor:
    """Of every particle on every other (Lennard-Jones, periodic)."""
    apart = x[:, None] - x[None]
    apart = apart - box * (apart / box).round()
    square = apart.square().sum(-1)
    near = (square < 9.0) & (square > 0)
    square = square.masked_fill(~near, 1.0)
    sixth = (1.0 / square) ** 3
    strength = near * 24 * (2 * sixth * sixth - sixth) / square
    return (strength[..., None] * apart).sum(1)


def particles_eager(fixed: bool) -> Step:
    """Molecular dynamics of 3375 particles, the forces of all pairs in eager PyTorch; the remedy is torch.compile."""
    side, dt = n(15, 3), 1e-4
    line, box = torch.arange(side, device=DEVICE) * 1.2, side * 1.2
    x = torch.cartesian_prod(line, line, line) + 0.01 * torch.randn(side**3, 3, device=DEVICE)
    v = torch.zeros_like(x)
    push = torch.compile(forces, dynamic=False) if fixed else forces

    def step() -> None:
        with torch.no_grad():
            for _ in range(n(4, 1)):
                v.add_(push(x, box), alpha=dt)
                x.add_(v, alpha=dt).remainder_(box)

    return step


PAIRS = (
    Pair("cuda_graph", flow_solved_in_small_steps, libraries=(), fixed_too=False),
    Pair("larger_batch", equation_few_points, found=True, as_much=8, libraries=(), fixed_too=False),
    Pair("batch_calls", filters_one_by_one, libraries=()),
    Pair("compile", particles_eager, libraries=(), fixed_too=False, early=("fix",)),
)
