"""Training with problems that its users report: world models, attention, graphs, molecules, motions, tables."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, one_hot, softplus

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Dreamer(nn.Module):
    """A model of a world: what it keeps in mind, what it expects to see, and what it sees, as normal distributions."""

    def __init__(self, seen: int, acts: int, mind: int, drawn: int, *, checked: bool | None) -> None:
        super().__init__()
        self.cell, self.checked = nn.GRUCell(drawn + acts, mind), checked
        self.expect, self.notice = nn.Linear(mind, 2 * drawn), nn.Linear(mind + seen, 2 * drawn)
        self.again = nn.Sequential(nn.Linear(mind + drawn, mind), nn.ELU(), nn.Linear(mind, seen))

    def normal(self, x: torch.Tensor) -> Normal:
        """Of means and what becomes deviations."""
        mean, spread = x.chunk(2, -1)
        return Normal(mean, softplus(spread) + 0.1, validate_args=self.checked)

    def forward(self, seen: torch.Tensor, acts: torch.Tensor) -> torch.Tensor:
        mind = seen.new_zeros(seen.shape[1], self.cell.hidden_size)
        drawn, losses = seen.new_zeros(seen.shape[1], self.expect.out_features // 2), []
        for now, act in zip(seen, acts, strict=True):
            mind = self.cell(torch.cat((drawn, act), -1), mind)
            before, after = self.normal(self.expect(mind)), self.normal(self.notice(torch.cat((mind, now), -1)))
            drawn = after.rsample()
            shown = self.again(torch.cat((mind, drawn), -1))
            likely = Normal(shown, torch.ones_like(shown), validate_args=self.checked).log_prob(now)
            losses.append(kl_divergence(after, before).mean() - likely.mean())
        return torch.stack(losses).mean()


def distributions_checked(fixed: bool) -> Step:
    """An agent's model of its world, 32 steps of it; torch.distributions checks every argument, and waits for each."""
    model = Dreamer(64, 6, n(256, 32), n(32, 8), checked=False if fixed else None).to(DEVICE)
    steps, many = n(32, 3), n(64, 4)
    seen, acts = torch.randn(steps, many, 64, device=DEVICE), torch.randn(steps, many, 6, device=DEVICE)
    return train(model, lambda: model(seen, acts))


class Looking(nn.Module):
    """An encoder's layer over the places of a picture; positions are added to queries and keys."""

    def __init__(self, width: int, heads: int, *, weights: bool) -> None:
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(width, heads, batch_first=True), weights
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.change = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        at = x + places
        x = self.first(x + self.attention(at, at, x, need_weights=self.weights)[0])
        return self.second(x + self.change(x))


def attention_weights_unused(fixed: bool) -> Step:
    """An encoder over 1,444 places of a picture; nn.MultiheadAttention also returns its weights, which nobody reads."""
    width, many = n(256, 32), n(38, 4) ** 2
    layers = nn.ModuleList(Looking(width, 8, weights=not fixed) for _ in range(n(6, 1)))
    model = nn.ModuleList((layers, nn.Linear(width, 92))).to(DEVICE, torch.bfloat16)
    x, places = (torch.randn(n(12, 1), many, width, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    y = torch.randint(0, 92, (len(x) * many,), device=DEVICE)

    def loss() -> Any:
        seen = x
        for layer in layers:
            seen = layer(seen, places)
        return cross_entropy(model[1](seen).flatten(0, 1), y)

    return train(model, loss)


class Passing(nn.Module):
    """A layer of a graph network: messages along edges, summed where they arrive."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.own = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        sent = self.message(x).index_select(0, source)
        return (self.own(x) + torch.zeros_like(x).index_add_(0, target, sent)).relu()


def messages_deterministic(fixed: bool) -> Step:
    """A graph network whose script asks for deterministic algorithms, so its sums over edges sort first."""
    torch.use_deterministic_algorithms(not fixed, warn_only=True)
    nodes, width = n(60_000, 60), n(128, 16)
    layers = nn.ModuleList(Passing(width) for _ in range(3))
    model = nn.ModuleList((nn.Linear(64, width), layers, nn.Linear(width, 47))).to(DEVICE)
    x, y = torch.randn(nodes, 64, device=DEVICE), torch.randint(0, 47, (nodes,), device=DEVICE)
    source, target = torch.randint(0, nodes, (2, 10 * nodes), device=DEVICE)

    def loss() -> Any:
        seen = model[0](x).relu()
        for layer in layers:
            seen = layer(seen, source, target)
        return cross_entropy(model[2](seen), y)

    return train(model, loss)


class Molecule(nn.Module):
    """An energy from atoms and where they are: every pair of atoms sends filtered messages."""

    def __init__(self, layers: int, width: int, waves: int) -> None:
        super().__init__()
        self.atoms, self.head = nn.Linear(16, width), nn.Sequential(nn.Linear(width, width), nn.Linear(width, 1))
        self.filters = nn.ModuleList(
            nn.ModuleList((nn.Linear(waves, width), nn.Linear(width, width))) for _ in range(layers)
        )
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.register_buffer("centres", torch.linspace(0, 6, waves))

    def forward(self, kinds: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        far = ((where[:, :, None] - where[:, None]).square().sum(-1) + 1e-6).sqrt()
        waves = torch.exp(-10 * (far[..., None] - self.centres).square())
        near = 0.5 * (torch.cos(far * math.pi / 6) + 1) * (far < 6)
        x = self.atoms(kinds)
        for (first, second), mix in zip(self.filters, self.mix, strict=True):
            weights = second(softplus(first(waves)) - math.log(2)) * near[..., None]
            x = x + softplus(mix((weights * x[:, None]).sum(2))) - math.log(2)
        return self.head(x).sum((1, 2))


def molecules_eager(fixed: bool) -> Step:
    """A network of molecules in fp32 (TF32 allowed) filters all pairs of atoms, eager; the remedy is torch.compile."""
    torch.set_float32_matmul_precision("high")
    batch, atoms = n(128, 2), n(48, 5)
    model = Molecule(n(4, 1), n(128, 16), n(64, 8)).to(DEVICE)
    kinds = one_hot(torch.randint(0, 16, (batch, atoms), device=DEVICE), 16).float()
    where, energy = torch.randn(batch, atoms, 3, device=DEVICE) * 3, torch.randn(batch, device=DEVICE)
    forward = torch.compile(model, dynamic=False) if fixed else model
    return train(model, lambda: mse_loss(forward(kinds, where), energy))


def motion_from_learned_energy(fixed: bool) -> Step:
    """A small network learns the energy of a chain of pendulums from its slopes; the remedy is a CUDA graph."""
    links, width = 12, n(200, 16)
    sizes = (2 * links, width, width, width, 1)
    layers = [x for a, b in itertools.pairwise(sizes) for x in (nn.Linear(a, b), nn.Softplus())]
    model = nn.Sequential(*layers[:-1]).to(DEVICE)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, 1e-3, foreach=True, capturable=DEVICE == "cuda")
    where, pushed = (torch.randn(n(2048, 32), links, device=DEVICE) for _ in range(2))
    faster, slower = pushed.clone(), -where.sin()

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        loss: Any = 0.0
        # the middle of a step as well, as a rule of second order has it
        for part in (0.0, 0.05):
            q = (where + part * faster).detach().requires_grad_()
            p = (pushed + part * slower).detach().requires_grad_()
            energy = model(torch.cat((q, p), 1)).sum()
            by_q, by_p = torch.autograd.grad(energy, (q, p), create_graph=True)
            loss = loss + mse_loss(by_p, faster) + mse_loss(-by_q, slower) + 1e-4 * energy.square() / len(q) ** 2
        loss.backward(inputs=parameters)
        optimizer.step()

    return graphed(step) if fixed else step


def rows_from_pageable_memory(fixed: bool) -> Step:
    """A network of tables walks through rows in memory, 65,536 of 512 numbers at a time, which are not pinned."""
    batch, width = n(65_536, 32), n(512, 16)
    model = nn.Sequential(
        nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 1)
    ).to(DEVICE)
    rows, clicked = torch.randn(4 * batch, width), (torch.rand(4 * batch, 1) < 0.1).float()
    if fixed and DEVICE == "cuda":
        rows, clicked = rows.pin_memory(), clicked.pin_memory()
    begins = itertools.cycle(range(0, len(rows), batch))

    def loss() -> Any:
        some = slice(begin := next(begins), begin + batch)
        x, y = (one[some].to(DEVICE, non_blocking=fixed) for one in (rows, clicked))
        with autocast():
            return binary_cross_entropy_with_logits(model(x), y)

    return train(model, loss)


PAIRS = (
    Pair("remove_syncs", distributions_checked, found=True, libraries=()),
    Pair("fused_attention", attention_weights_unused, found=True, libraries=()),
    Pair("faster_kernels", messages_deterministic, found=True, libraries=()),
    Pair("compile", molecules_eager, found=True, libraries=(), early=("fix",)),
    Pair("cuda_graph", motion_from_learned_energy, found=True, libraries=()),
    Pair("pinned_memory", rows_from_pageable_memory, found=True, libraries=()),
)
