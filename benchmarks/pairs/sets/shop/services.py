"""Services, rollouts and averages as found in a company's daily work: each with one mistake, and without it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train
from benchmarks.pairs.sets.shop.training import layers

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Decoding(nn.Module):
    """A decoder's layer that reads one word a text and keeps keys and values of those before it."""

    def __init__(self, width: int, texts: int, length: int) -> None:
        super().__init__()
        self.width, self.heads = width, width // n(128, 16)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 6 * width, bias=False), nn.Linear(3 * width, width, bias=False)
        self.before, self.after = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.register_buffer("kept", torch.randn(2, texts, self.heads, length, width // self.heads))

    def forward(self, x: torch.Tensor, place: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        new = self.qkv(rms_norm(x, (self.width,), self.before)).unflatten(-1, (3, self.heads, -1))
        q, k, v = new.permute(2, 0, 3, 1, 4)
        self.kept[0].index_copy_(2, place, k)
        self.kept[1].index_copy_(2, place, v)
        read = scaled_dot_product_attention(q, self.kept[0], self.kept[1], attn_mask=seen)
        x = x + self.out(read.transpose(1, 2).flatten(2))
        gate, value = self.up(rms_norm(x, (self.width,), self.after)).chunk(2, -1)
        return x + self.down(silu(gate) * value)


def chat_decoding_eager(fixed: bool) -> Step:
    """A chat model writes one word for each of eight texts, eagerly; the remedy replays a CUDA graph."""
    width, texts, length, words = n(1024, 32), n(8, 2), n(1024, 8), n(16000, 100)
    with torch.device(DEVICE):
        model = nn.ModuleList(Decoding(width, texts, length) for _ in range(n(20, 2)))
        ends = nn.ModuleList([nn.Embedding(words, width), nn.Linear(width, words, bias=False)])
        last, place = torch.zeros(texts, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
        places = torch.arange(length)
    model.to(torch.bfloat16)
    ends.to(torch.bfloat16)

    def step() -> None:
        with torch.no_grad():
            x, seen = ends[0](last), (places <= place)[None]
            for layer in model:
                x = layer(x, place, seen)
            last.copy_(ends[1](x).argmax(-1))
            place.add_(1).remainder_(length)

    return graphed(step) if fixed else step


class Messages(nn.Module):
    """Atoms tell their neighbours what they are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        told = silu(self.message(torch.cat([x[source], x[target]], -1)))
        heard = torch.zeros_like(x).index_add_(0, target, told)
        return x + silu(self.update(torch.cat([x, heard], -1)))


def molecules_one_by_one(fixed: bool) -> Step:
    """Ninety-six molecules screened by a graph network one after the other; the remedy makes one graph of them."""
    width, random = n(128, 8), np.random.default_rng(0)
    with torch.device(DEVICE):
        passes, score = nn.ModuleList(Messages(width) for _ in range(n(5, 1))), nn.Linear(width, 1)
    sizes = random.integers(12, 40, n(96, 3))
    atoms = [torch.randn(size, width, device=DEVICE) for size in sizes]
    bonds = [torch.from_numpy(random.integers(0, size, (2, 4 * size))).to(DEVICE) for size in sizes]
    begins = np.cumsum(sizes) - sizes
    joined = torch.cat(atoms), torch.cat([bond + int(begin) for bond, begin in zip(bonds, begins, strict=True)], 1)
    whose = torch.repeat_interleave(torch.arange(len(sizes)), torch.from_numpy(sizes)).to(DEVICE)

    def told(x: torch.Tensor, bond: torch.Tensor) -> torch.Tensor:
        for one in passes:
            x = one(x, bond[0], bond[1])
        return score(x)

    def step() -> torch.Tensor:
        with torch.no_grad():
            if fixed:
                return torch.zeros(len(sizes), 1, device=DEVICE).index_add_(0, whose, told(*joined)).cpu()
            return torch.stack([told(x, bond).sum(0) for x, bond in zip(atoms, bonds, strict=True)]).cpu()

    return step


def _advantages_listed(rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Discounted advantages, number by number."""
    told, valued = rewards.tolist(), values.tolist()
    found = [[0.0] * len(told[0]) for _ in told]
    for actor in range(len(told[0])):
        coming = 0.0
        for moment in reversed(range(len(told))):
            surprise = told[moment][actor] + 0.99 * valued[moment + 1][actor] - valued[moment][actor]
            coming = surprise + 0.99 * 0.95 * coming
            found[moment][actor] = coming
    return np.asarray(found, np.float32)


def _advantages_together(rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same for all actors at once."""
    found, coming = np.empty_like(rewards), np.zeros_like(rewards[0])
    surprises = rewards + 0.99 * values[1:] - values[:-1]
    for moment in reversed(range(len(rewards))):
        coming = found[moment] = surprises[moment] + np.float32(0.99 * 0.95) * coming
    return found


def rollout_advantages_in_python(fixed: bool) -> Step:
    """PPO whose advantages are computed number by number in Python; the remedy takes all actors at once."""
    moments, actors, width = n(256, 6), n(96, 3), n(512, 16)
    with torch.device(DEVICE):
        body = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        model = nn.ModuleList([body, nn.Linear(width, 8), nn.Linear(width, 1)])
    seen = torch.randn(moments + 1, actors, 64, device=DEVICE)
    done = torch.randint(0, 8, (moments, actors, 1), device=DEVICE)
    rewards = np.random.default_rng(0).standard_normal((moments, actors), np.float32)
    optimizer = torch.optim.Adam(model.parameters(), 1e-5, fused=True)
    advantages_of = _advantages_together if fixed else _advantages_listed

    def likely() -> tuple[torch.Tensor, torch.Tensor]:
        x = model[0](seen)
        return model[1](x[:-1]).log_softmax(-1).gather(-1, done)[..., 0], model[2](x)[..., 0]

    def step() -> None:
        with torch.no_grad():
            before, values = likely()
        advantages = torch.from_numpy(advantages_of(rewards, values.cpu().numpy())).to(DEVICE)
        wanted = advantages + values[:-1]
        for _ in range(3):
            now, valued = likely()
            ratio = (now - before).exp()
            gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
            ((valued[:-1] - wanted).square() - gain).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return step


def ema_on_the_host(fixed: bool) -> Step:
    """An encoder whose averaged weights are kept in host memory; the remedy averages them on the device."""
    model = layers(n(8, 1), n(768, 32))
    weights = [p.detach() for p in model.parameters()]
    mean = [w.clone() if fixed else w.cpu().clone() for w in weights]
    x = torch.randn(n(16, 2), n(256, 8), n(768, 32), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return model(x).float().square().mean()

    trained = train(model, loss)

    def step() -> None:
        trained()
        if fixed:
            torch._foreach_lerp_(mean, weights, 0.001)
        for old, new in itertools.islice(zip(mean, weights, strict=True), 0 if fixed else None):
            old.lerp_(new.cpu(), 0.001)

    return step


PAIRS = (
    Pair("cuda_graph", chat_decoding_eager, libraries=()),
    Pair("batch_calls", molecules_one_by_one, libraries=()),
    Pair("move_host_work", rollout_advantages_in_python, libraries=()),
    Pair("keep_on_device", ema_on_the_host, found=True, libraries=()),
)
