"""Programs whose model is divided over the ranks: within layers, by expert, and as a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import gelu, layer_norm, mse_loss

from benchmarks.pairs.program import DEVICE, Pair, autocast, n
from benchmarks.pairs.sets.ranks import RANK
from benchmarks.pairs.sets.ranks_fifth.replicas import encoder_layers

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step

RANKS = 2


def _weights(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) * shape[-2] ** -0.5


def two_halves_wait_in_turn(fixed: bool) -> Step:
    """A tensor-parallel model answers two half batches; each waits for its sums before the other half may compute."""
    width, inner, rows = n(4096, 32), n(2048, 16) // RANKS, n(8192, 8)
    layers = [(_weights(width, inner), _weights(inner, width)) for _ in range(n(16, 2))]
    halves = [torch.randn(rows, width, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)]

    def step() -> list[torch.Tensor]:
        x, sums = list(halves), [torch.zeros_like(half) for half in halves]
        under_way: list[Any] = [None, None]

        def finish(half: int) -> None:
            if under_way[half]:
                under_way[half].wait()
            x[half] = x[half] + sums[half]

        with torch.no_grad():
            for up, down in layers:
                for half in (0, 1):
                    finish(half)
                    sums[half] = gelu(layer_norm(x[half], (width,)) @ up) @ down
                    under_way[half] = dist.all_reduce(sums[half], async_op=fixed)
            finish(0)
            finish(1)
        return x

    return step


def experts_with_room_for_twice(fixed: bool) -> Step:
    """Texts are read by experts on two ranks, by hash; what is sent has room for twice the tokens, or just for all."""
    width, inner, tokens, experts = n(4096, 32), n(512, 16), n(16_384, 32), n(16, 4)
    layers = [
        (_weights(experts // RANKS, width, inner), _weights(experts // RANKS, inner, width)) for _ in range(n(8, 2))
    ]
    room = tokens // experts * (1 if fixed else 2)
    expert = torch.arange(tokens, device=DEVICE) % experts
    slot = expert * room + torch.arange(tokens, device=DEVICE) // experts
    slot = slot[torch.randperm(tokens, device=DEVICE)]
    texts = torch.randn(tokens, width, device=DEVICE, dtype=torch.bfloat16)

    def exchanged(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out

    def read(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        sent = x.new_zeros(experts * room, width)
        sent[slot] = layer_norm(x, (width,))
        mine = exchanged(sent).view(RANKS, -1, room, width).transpose(0, 1).reshape(-1, RANKS * room, width)
        read = torch.bmm(gelu(torch.bmm(mine, up)), down)
        back = read.view(-1, RANKS, room, width).transpose(0, 1).reshape(-1, width)
        return x + exchanged(back)[slot]

    def step() -> torch.Tensor:
        x = texts
        with torch.no_grad():
            for up, down in layers:
                x = read(x, up, down)
        return x

    return step


def pipeline_cut_unevenly(fixed: bool) -> Step:
    """A pipeline of two stages of two and six layers, four parts at a time; the remedy is four layers each."""
    width, many = n(3072, 32), n(4, 2)
    counts = (n(4, 2), n(4, 2)) if fixed else (n(2, 1), n(6, 3))
    stage = nn.Sequential(*encoder_layers(counts[RANK], width))
    optimizer = torch.optim.AdamW(stage.parameters(), 1e-5, fused=True)
    parts = [torch.randn(n(4, 1), n(512, 8), width, device=DEVICE) for _ in range(many)]

    def computed(x: torch.Tensor) -> torch.Tensor:
        with autocast():
            y: torch.Tensor = stage(x)
        return y

    def first() -> None:
        results, sent = [], []
        for part in parts:
            results.append(computed(part).to(torch.bfloat16))
            sent.append(dist.isend(results[-1].detach(), 1))
        for result in results:
            gradient = torch.empty_like(result)
            dist.recv(gradient, 1)
            result.backward(gradient)
        for one in sent:
            one.wait()

    def second() -> None:
        received, losses, sent = [], [], []
        for part in parts:
            x = torch.empty_like(part, dtype=torch.bfloat16)
            dist.recv(x, 0)
            received.append(x.requires_grad_())
            losses.append(mse_loss(computed(x.float()), part) / many)
        for x, loss in zip(received, losses, strict=True):
            loss.backward()
            sent.append(dist.isend(x.grad, 0))
        for one in sent:
            one.wait()

    def step() -> None:
        first() if RANK == 0 else second()
        optimizer.step()
        optimizer.zero_grad()

    return step


PAIRS = (
    Pair("overlap_communication", two_halves_wait_in_turn, libraries=()),
    Pair("smaller_messages", experts_with_room_for_twice, libraries=()),
    Pair("fix_straggler", pipeline_cut_unevenly, found=True, libraries=()),
)
