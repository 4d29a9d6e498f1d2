"""Training with problems that its users report: averages, attention, graphs, molecules, equations, tables."""

from __future__ import annotations

import copy
import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, one_hot, softplus

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Mixed(nn.Module):
    """A layer of an MLP-Mixer: places are mixed, then channels."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.along = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.second(x))


def averages_tensor_by_tensor(fixed: bool) -> Step:
    """A denoiser with two moving averages of its weights, which a loop over the tensors updates after each step."""
    width, places = n(256, 32), n(64, 8)
    model = nn.Sequential(*(Mixed(places, width) for _ in range(n(14, 2))), nn.Linear(width, width)).to(DEVICE)
    kept = {decay: copy.deepcopy(model).requires_grad_(False) for decay in (0.999, 0.9999)}
    x = torch.randn(n(64, 2), places, width, device=DEVICE)
    noise = torch.randn_like(x)

    def loss() -> Any:
        with autocast():
            return mse_loss(model(x + noise), noise)

    update = train(model, loss)

    def step() -> None:
        update()
        with torch.no_grad():
            for decay, average in kept.items():
                if fixed:
                    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - decay)
                    continue
                now = model.state_dict()
                for name, value in average.state_dict().items():
                    if value.dtype.is_floating_point:
                        value *= decay
                        value += (1 - decay) * now[name].detach()

    return step


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


def equation_by_small_network(fixed: bool) -> Step:
    """A small network learns to solve Burgers' equation from its own derivatives; the remedy is a CUDA graph."""
    sizes = [2, *[64] * n(6, 2), 1]
    layers = [x for a, b in itertools.pairwise(sizes) for x in (nn.Linear(a, b), nn.Tanh())]
    model = nn.Sequential(*layers[:-1]).to(DEVICE)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, 1e-3, foreach=True, capturable=DEVICE == "cuda")
    inside = torch.rand(n(4096, 64), 2, device=DEVICE) * 2 - 1
    edge = torch.rand(n(512, 8), 2, device=DEVICE)
    known = -torch.sin(math.pi * edge[:, :1])

    def slope(of: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(of, by, torch.ones_like(of), create_graph=True)[0]

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        x, t = (one.detach().requires_grad_() for one in inside.split(1, 1))
        u = model(torch.cat((x, t), 1))
        along = slope(u, x)
        rest = slope(u, t) + u * along - 0.01 / math.pi * slope(along, x)
        (rest.square().mean() + mse_loss(model(edge), known)).backward(inputs=parameters)
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
    Pair("batch_calls", averages_tensor_by_tensor, found=True, libraries=()),
    Pair("fused_attention", attention_weights_unused, found=True, libraries=()),
    Pair("faster_kernels", messages_deterministic, found=True, libraries=()),
    Pair("compile", molecules_eager, found=True, libraries=(), early=("fix",)),
    Pair("cuda_graph", equation_by_small_network, found=True, libraries=()),
    Pair("pinned_memory", rows_from_pageable_memory, found=True, libraries=()),
)
