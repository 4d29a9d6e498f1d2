"""Models that answer, plan, simulate and play, and what keeps them from doing so sooner."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, graphed, n, pair

HALF = torch.float16 if DEVICE == "cuda" else torch.float32


class Hearing(Module):  # A block of a recogniser of speech: far and then near, with a way around it
    def __init__(self, width, reach):
        layers = []
        for _ in range(2):
            layers += [
                nn.Conv1d(width, width, reach, padding=reach // 2, groups=width, bias=False),
                nn.Conv1d(width, width, 1, bias=False),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


ALPHABET = np.frombuffer(b"_ abcdefghijklmnopqrstuvwxyz'", np.uint8)


# What was said, and how sure that is: neighbours that are the same are one letter, the first is
# none
def _letter_by_letter(logits):
    best, letters = logits.float().log_softmax(1).max(1)
    found = []
    for sure, line in zip(best.tolist(), letters.tolist(), strict=True):
        text = ""
        total = 0.0
        last = 0
        for one, letter in zip(sure, line, strict=True):
            if letter not in (0, last):
                text += chr(ALPHABET[letter])
                total += one
            last = letter
        found.append((text, total / max(len(text), 1)))
    return found


def _all_letters(logits):  # The same, for all letters at once
    best, letters = logits.float().log_softmax(1).max(1)
    kept = letters != 0
    kept[:, 1:] &= letters[:, 1:] != letters[:, :-1]
    sure = ((best * kept).sum(1) / kept.sum(1).clamp(min=1)).tolist()
    marks = kept.cpu().numpy()
    lines = ALPHABET[letters.cpu().numpy()]
    texts = (line[mark].tobytes().decode() for line, mark in zip(lines, marks, strict=True))
    return list(zip(texts, sure, strict=True))


@pair("move_host_work")
def dictations_spelt_in_python(fixed):
    """A recogniser of 64 recordings whose letters Python joins one by one; the remedy does it for
    all at once."""
    width = n(512, 16)
    batch = n(64, 2)
    with torch.device(DEVICE):
        first = nn.Sequential(nn.Conv1d(80, width, 11, 2, 5), nn.BatchNorm1d(width), nn.ReLU())
        blocks = (Hearing(width, reach) for reach in (11, 13, 15, 17)[: n(4, 1)])
        model = nn.Sequential(first, *blocks, nn.Conv1d(width, len(ALPHABET), 1)).to(HALF).eval()
    heard = torch.randn(batch, 80, n(1200, 40), dtype=HALF, pin_memory=DEVICE == "cuda")
    spell = _all_letters if fixed else _letter_by_letter

    def step():
        with torch.inference_mode():
            sent = heard.to(DEVICE, non_blocking=True)
            return spell(model((sent - sent.mean(2, keepdim=True)) / sent.std(2, keepdim=True)))

    return step


@pair("cuda_graph")
def walks_planned_eagerly(fixed):
    """A robot tries 512 plans of 40 moves in five learnt models of itself, eagerly; the remedy is a
    CUDA graph."""
    torch.set_float32_matmul_precision("high")
    plans = n(512, 4)
    ahead = n(40, 3)
    size = 24
    moves = 6
    width = n(200, 8)
    sizes = size + moves, width, width, size
    with torch.device(DEVICE):
        weights = [torch.randn(5, a, b) * a ** (-0.5) for a, b in itertools.pairwise(sizes)]
        biases = [torch.zeros(5, 1, b) for b in sizes[1:]]
        state = torch.zeros(size)
        goal = torch.randn(size)
        plan = torch.zeros(ahead, moves)
    sensed = torch.randn(size, pin_memory=DEVICE == "cuda")

    def moved(states, move):
        x = torch.cat((states, move.expand(5, -1, -1)), 2)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = F.silu(torch.baddbmm(bias, x, weight))
        return states + 0.1 * torch.baddbmm(biases[-1], x, weights[-1]).tanh()

    def improve():
        with torch.no_grad():
            tried = (plan[:, None] + 0.3 * torch.randn(ahead, plans, moves, device=DEVICE)).clamp(
                -1, 1
            )
            states = state.expand(5, plans, size)
            costs = torch.zeros(plans, device=DEVICE)
            for move in tried:
                states = moved(states, move)
                costs = costs + (states.mean(0) - goal).square().sum(1) + states.var(0).sum(1)
                costs = costs + 0.01 * move.square().sum(1)
            plan.copy_((torch.softmax(-costs + costs.min(), 0)[:, None] * tried).sum(1))

    once = graphed(improve) if fixed else improve
    told = []

    def step():
        sensed.mul_(0.99).add_(0.01 * sum(told))
        state.copy_(sensed, non_blocking=True)
        plan[:-1] = plan[1:].clone()
        once()
        told[:] = plan[0].tolist()

    return step


@pair("batch_calls", libraries=("transformers.models.electra.modeling_electra",))
def passages_judged_singly(fixed):
    """transformers' ELECTRA judges 8 passages for a question, each in a call; the remedy judges
    them together."""
    from transformers import ElectraConfig, ElectraForSequenceClassification

    width = n(384, 16)
    words = n(16_384, 64)
    length = n(192, 12)
    many = n(8, 3)
    config = ElectraConfig(
        vocab_size=words,
        embedding_size=n(128, 16),
        hidden_size=width,
        intermediate_size=4 * width,
        num_labels=1,
        num_attention_heads=n(6, 2),
        num_hidden_layers=n(4, 1),
        max_position_embeddings=256,
    )
    with torch.device(DEVICE):
        model = ElectraForSequenceClassification(config).to(HALF).eval()
    tokens = torch.randint(1, words, (many, length))
    known = (torch.arange(length) < torch.randint(length // 2, length, (many, 1))).long()

    def step():
        with torch.inference_mode():
            sent = {"input_ids": tokens.to(DEVICE), "attention_mask": known.to(DEVICE)}
            if fixed:
                scores = model(**sent).logits
            else:
                parts = ({key: one[at : at + 1] for key, one in sent.items()} for at in range(many))
                scores = torch.cat([model(**part).logits for part in parts])
            best = scores[:, 0].float().sigmoid().sort(descending=True)
            return list(zip(best.values[:5].tolist(), best.indices[:5].tolist(), strict=True))

    return step


class Coupling(
    Module
):  # A layer of a normalising flow: half of an event scales and shifts the other half
    def __init__(self, size, width):
        self.first, self.last = nn.Linear(size // 2, width), nn.Linear(width, size)
        self.inner, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, density):
        kept, other = x.chunk(2, 1)
        wide = F.silu(self.first(kept))
        wide = (
            wide
            + F.silu(self.inner(F.layer_norm(wide, wide.shape[1:]))) * self.gate(wide).sigmoid()
        )
        scale, shift = self.last(F.layer_norm(wide, wide.shape[1:])).chunk(2, 1)
        scale = 2 * torch.tanh(scale / 2)
        return (torch.cat((other * scale.exp() + shift, kept), 1), density + scale.sum(1))


class Flow(Module):  # How likely an event is
    def __init__(self, size, width, layers):
        self.layers = nn.ModuleList(Coupling(size, width) for _ in range(layers))

    def forward(self, x):
        density = torch.zeros(len(x), device=x.device)
        for layer in self.layers:
            x, density = layer(x, density)
        return density - 0.5 * x.square().sum(1)


@pair("compile", early=("fix",))
def events_scored_eagerly(fixed):
    """A flow finds the strangest of 100,000 collisions that a detector has counted; the remedy
    compiles the flow."""
    torch.set_float32_matmul_precision("high")
    events = n(100_000, 64)
    size = n(32, 8)
    with torch.device(DEVICE):
        model = Flow(size, n(256, 16), n(6, 2)).eval()
        mean = torch.zeros(size)
        spread = torch.ones(size)
    counts = torch.randn(events, size, pin_memory=DEVICE == "cuda")
    called = torch.compile(model, dynamic=False) if fixed else model

    def step():
        with torch.no_grad():
            x = (counts.to(DEVICE, non_blocking=True) - mean) / spread
            worst = called(x).topk(n(100, 4), largest=False)
            mean.lerp_(x.mean(0) * spread + mean, 0.01)
            return torch.cat((worst.values[:, None], x[worst.indices]), 1).tolist()

    return step


@pair("remove_syncs")
def smoke_residual_watched(fixed):
    """Smoke on a plane; its solver asks the GPU at each iteration whether it may end; the remedy at
    each 20th."""
    size = n(384, 16)
    most = n(60, 4)
    with torch.device(DEVICE):
        places = torch.linspace(-1, 1, size)
        grid = torch.stack(torch.meshgrid(places, places, indexing="xy"), -1)[None]
        smoke = torch.rand(1, 1, size, size)
        flow = torch.zeros(1, 2, size, size)
        star = torch.tensor([[0.0, -1, 0], [-1, 4, -1], [0, -1, 0]])[None, None]
        source = torch.zeros(1, 1, size, size)
        pressure = torch.zeros(1, 1, size, size)
        source[..., size // 8 : size // 4, size // 3 : size // 2] = 0.1
    frame = 0
    log = []

    def solve(wanted, x):
        rest = wanted - F.conv2d(x, star, padding=1)
        way = rest
        square = rest.square().sum()
        enough = 1e-9 * square
        for number in range(most):
            along = F.conv2d(way, star, padding=1)
            share = square / (way * along).sum()
            x = x + share * way
            rest = rest - share * along
            before = square
            square = rest.square().sum()
            if (not fixed or number % 20 == 19) and square < enough:
                break
            way = rest + square / before * way
        return x

    def step():
        nonlocal smoke, flow, pressure, frame
        with torch.no_grad():
            both = torch.cat((flow, smoke), 1)
            moved = F.grid_sample(
                both, grid - 0.5 / size * flow.permute(0, 2, 3, 1), "bilinear", "border", True
            )
            flow = moved[:, :2] * 0.99
            smoke = moved[:, 2:] * 0.999 + source
            flow[:, 1:] += 0.1 * smoke
            wide = F.pad(flow, (1, 1, 1, 1))
            spread = (
                wide[:, :1, 1:-1, 2:]
                - wide[:, :1, 1:-1, :-2]
                + wide[:, 1:, 2:, 1:-1]
                - wide[:, 1:, :-2, 1:-1]
            )
            pressure = solve(-0.5 * spread, pressure)
            wide = F.pad(pressure, (1, 1, 1, 1), mode="replicate")
            flow[:, :1] -= 0.5 * (wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2])
            flow[:, 1:] -= 0.5 * (wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1])
            frame += 1
            if frame % 50 == 0:
                log.append(smoke.sum().item())

    return step
