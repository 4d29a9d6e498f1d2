"""What answers, plans and solves in daily work, of PyTorch alone: each with one mistake, and without it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from benchmarks.pairs.program import DEVICE, Pair, graphed, n
from benchmarks.pairs.sets.daily.training import Causal, SelfAttending, heads_of

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def arm_planned_eagerly(fixed: bool) -> Step:
    """A robot's arm plans: 1024 sampled courses of 32 moves through a learned model, thrice; the remedy is a graph."""
    moves, state, width = n(32, 3), 24, n(256, 16)
    with torch.device(DEVICE):
        learned = nn.Sequential(
            nn.Linear(state + 7, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, state)
        )
        learned.requires_grad_(requires_grad=False)
        now, goal = torch.randn(1, state), torch.randn(state)
        plan, noise = torch.zeros(moves, 1, 7), torch.zeros(moves, n(1024, 4), 7)

    def step() -> None:
        for _ in range(3):
            actions = (plan + 0.3 * noise.normal_()).clamp(-1, 1)
            at, cost = now.expand(noise.shape[1], -1), torch.zeros(noise.shape[1], device=DEVICE)
            for action in actions:
                at = at + 0.05 * learned(torch.cat((at, action), -1))
                cost = cost + (at - goal).square().sum(-1) + 0.01 * action.square().sum(-1)
            weight = (-cost / cost.std()).softmax(0)[:, None]
            plan.copy_((weight * actions).sum(1, keepdim=True))

    return graphed(step) if fixed else step


class Between(nn.Module):
    """The frame between two, by residual convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(6, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(n(10, 1))
        )

    def forward(self, both: torch.Tensor) -> torch.Tensor:
        x = self.first(both)
        for block in self.blocks:
            x = x + block(x)
        return both[:, :3].lerp(both[:, 3:], 0.5) + self.last(x)


def frames_between_fp32(fixed: bool) -> Step:
    """A film's frames doubled by convolutions in fp32 (TF32, as convolutions are by default); the remedy is bf16."""
    kind = torch.bfloat16 if fixed else torch.float32
    model = Between(n(96, 4)).to(DEVICE, kind, memory_format=torch.channels_last).requires_grad_(requires_grad=False)
    films = torch.randint(0, 256, (n(4, 1), 6, n(270, 16), n(480, 16)), dtype=torch.uint8, device=DEVICE)

    def step() -> torch.Tensor:
        both = (films.to(kind) / 255).contiguous(memory_format=torch.channels_last)
        return (model(both).float() * 255).clamp(0, 255).to(torch.uint8)

    return step


def passages_sorted_whole(fixed: bool) -> Step:
    """Search: 64 questions are encoded, and all million passages sorted for each; the remedy takes the best 100."""
    width, half = n(384, 16), torch.float16 if DEVICE == "cuda" else torch.float32
    with torch.device(DEVICE):
        encoder = (
            nn.Sequential(*(SelfAttending(width) for _ in range(n(12, 1)))).to(half).requires_grad_(requires_grad=False)
        )
        passages = torch.randn(n(2**20, 300), width, dtype=half)
        questions = torch.randn(n(64, 2), n(64, 4), width, dtype=half)

    def step() -> torch.Tensor:
        scores = (encoder(questions).mean(1) @ passages.T).float()
        if fixed:
            return scores.topk(100).indices.cpu()
        return scores.sort(descending=True).indices[:, :100].cpu()

    return step


class Translating(Causal):
    """A decoder's layer that looks at the sentence to translate, too."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.before, self.asked, self.told = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.source = nn.Linear(width, 2 * width)

    def look(self, x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """What it is told by the sentence, and then by the words before."""
        k, v = (heads_of(part, self.number).expand(len(x), -1, -1, -1) for part in self.source(source).chunk(2, -1))
        seen = scaled_dot_product_attention(heads_of(self.asked(self.before(x)), self.number), k, v)
        return self(x + self.told(seen.transpose(1, 2).flatten(2)))


def hypotheses_scored_in_turn(fixed: bool) -> Step:
    """Thirty-two translations of a sentence scored by a second model, one by one; the remedy pads and scores all."""
    width, words = n(1024, 16), n(8192, 32)
    half = torch.bfloat16
    with torch.device(DEVICE):
        names, out = nn.Embedding(words, width), nn.Linear(width, words)
        layers = nn.ModuleList(Translating(width) for _ in range(n(8, 1)))
        nn.ModuleList([names, layers, out]).to(half).requires_grad_(requires_grad=False)
        source = torch.randn(1, n(80, 5), width, dtype=half)
    lengths = np.random.default_rng(0).integers(n(64, 4), n(97, 7), n(32, 3)).tolist()
    texts = [torch.randint(0, words, (1, length + 1), device=DEVICE) for length in lengths]
    padded = nn.utils.rnn.pad_sequence([text[0] for text in texts], batch_first=True)
    kept = torch.arange(max(lengths), device=DEVICE) < torch.tensor(lengths, device=DEVICE)[:, None]

    def surprise(text: torch.Tensor) -> torch.Tensor:
        x = names(text[:, :-1])
        for layer in layers:
            x = layer.look(x, source)
        return cross_entropy(out(x).transpose(1, 2), text[:, 1:], reduction="none")

    def step() -> torch.Tensor:
        if fixed:
            return (surprise(padded) * kept).sum(1).argmin().cpu()
        return torch.stack([surprise(text).sum() for text in texts]).argmin().cpu()

    return step


class Caching(SelfAttending):
    """A layer that keeps keys and values of the words before."""

    def __init__(self, width: int, agents: int, words: int) -> None:
        super().__init__(width)
        self.register_buffer("kept", torch.randn(2, agents, self.number, words, width // self.number))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads_of(part, self.number) for part in self.joined(self.norms[0](x)).chunk(3, -1))
        self.kept[0, :, :, -1:], self.kept[1, :, :, -1:] = k, v
        seen = scaled_dot_product_attention(q, self.kept[0], self.kept[1])
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


def tool_calls_checked_in_python(fixed: bool) -> Step:
    """Four agents write calls of tools; Python finds the words that may follow; the remedy has tables of them."""
    width, words, agents, places = n(1024, 16), n(32000, 60), 4, 12
    half = torch.bfloat16
    with torch.device(DEVICE):
        layers = [Caching(width, agents, n(1024, 8)) for _ in range(n(16, 1))]
        model = nn.Sequential(nn.Embedding(words, width), *layers, nn.Linear(width, words)).to(half)
        model.requires_grad_(requires_grad=False)
        said = torch.randint(0, words, (agents, 1))
    spelled = [f"{number * 7919 % 99991:x}" for number in range(words)]
    starts = [frozenset("0123456789abcdef"[place % 5 : place % 5 + 9]) for place in range(places)]

    def allowed(place: int) -> list[bool]:
        return [word[0] in starts[place] for word in spelled]

    tables = torch.tensor([allowed(place) for place in range(places)], device=DEVICE)
    agent, count = torch.arange(agents, device=DEVICE), itertools.count()

    def step() -> torch.Tensor:
        scores, turn = model(said)[:, -1], next(count)
        if fixed:
            may = tables[(agent + turn) % places]
        else:
            may = torch.tensor([allowed((one + turn) % places) for one in range(agents)], device=DEVICE)
        said.copy_(scores.masked_fill(~may, -torch.inf).argmax(-1, keepdim=True))
        return said.cpu()

    return step


def _laplace(p: torch.Tensor) -> torch.Tensor:
    q = 4.0 * p
    q[1:] -= p[:-1]
    q[:-1] -= p[1:]
    q[:, 1:] -= p[:, :-1]
    q[:, :-1] -= p[:, 1:]
    return q


def pressure_residual_read(fixed: bool) -> Step:
    """A flow's pressure by 150 rounds of conjugate gradients that read two numbers each; the remedy reads each 25th."""
    side, rounds = n(768, 12), n(150, 3)
    right = torch.randn(side, side, device=DEVICE)

    def reading() -> torch.Tensor:
        x, r, p = torch.zeros_like(right), right.clone(), right.clone()
        square = float(r.flatten().dot(r.flatten()))
        for _ in range(rounds):
            q = _laplace(p)
            share = square / float(p.flatten().dot(q.flatten()))
            x.add_(p, alpha=share)
            r.sub_(q, alpha=share)
            before, square = square, float(r.flatten().dot(r.flatten()))
            if square < 1e-12:
                break
            p.mul_(square / before).add_(r)
        return x

    def seldom() -> torch.Tensor:
        x, r, p = torch.zeros_like(right), right.clone(), right.clone()
        square = r.flatten().dot(r.flatten())
        for number in range(rounds):
            q = _laplace(p)
            share = square / p.flatten().dot(q.flatten())
            x.addcmul_(p, share)
            r.addcmul_(q, share, value=-1.0)
            before, square = square, r.flatten().dot(r.flatten())
            if number % 25 == 24 and float(square) < 1e-12:
                break
            p.mul_(square / before).add_(r)
        return x

    return seldom if fixed else reading


PAIRS = (
    Pair("cuda_graph", arm_planned_eagerly, libraries=()),
    Pair("low_precision", frames_between_fp32, libraries=()),
    Pair("faster_kernels", passages_sorted_whole, libraries=()),
    Pair("batch_calls", hypotheses_scored_in_turn, libraries=()),
    Pair("move_host_work", tool_calls_checked_in_python, libraries=()),
    Pair("remove_syncs", pressure_residual_read, libraries=()),
)
