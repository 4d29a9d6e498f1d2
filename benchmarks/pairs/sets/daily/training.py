"""Training as found in the daily work of research groups, of PyTorch alone: each with one mistake, and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, rms_norm, scaled_dot_product_attention

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def heads_of(x: torch.Tensor, number: int) -> torch.Tensor:
    """Batch, heads, places, width of a head; what comes in is joined by width."""
    return x.unflatten(-1, (number, -1)).transpose(1, 2)


class SelfAttending(nn.Module):
    """Attention and a feed-forward network, each on top of what comes in."""

    causal = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.number = width // n(64, 8)
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (heads_of(part, self.number) for part in self.joined(self.norms[0](x)).chunk(3, -1))
        seen = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


class Causal(SelfAttending):
    """The same, of which each place sees those before it."""

    causal = True


class Triangles(nn.Module):
    """Distances of residues updated along triangles: for each channel a product of two square matrices."""

    def __init__(self, channels: int, *, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.before, self.after = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.sides, self.gates = nn.Linear(channels, 2 * channels), nn.Linear(channels, 2 * channels)
        self.out, self.gate = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        x = self.before(pairs)
        sides = self.sides(x) * self.gates(x).sigmoid()
        left, right = (side.permute(2, 0, 1).contiguous() for side in sides.chunk(2, -1))
        if self.at_once:
            found = left @ right.transpose(1, 2)
        else:
            found = torch.stack([a @ b.T for a, b in zip(left, right, strict=True)])
        return pairs + self.out(self.after(found.permute(1, 2, 0))) * self.gate(x).sigmoid()


def protein_triangles_by_channel(fixed: bool) -> Step:
    """Proteins' pairs of residues updated by a product for each of 128 channels; the remedy is one batched product."""
    residues, channels = n(320, 12), n(128, 8)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Triangles(channels, at_once=fixed) for _ in range(n(5, 1))), nn.Linear(channels, 64))
        pairs = torch.randn(residues, residues, channels)
        distances = torch.randint(0, 64, (residues * residues,))

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(pairs).flatten(0, 1), distances)

    return train(model, loss)


class Cells(nn.Module):
    """Two recurrent layers, a note after the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(2))

    def forward(self, notes: torch.Tensor) -> torch.Tensor:
        states: list[Any] = [None for _ in self.cells]
        heard = []
        for x in notes:
            for number, cell in enumerate(self.cells):
                states[number] = cell(x, states[number])
                x = states[number][0]
            heard.append(x)
        return torch.stack(heard)


def melodies_cell_by_cell(fixed: bool) -> Step:
    """Melodies of 160 notes continued by two layers of LSTM cells, called for each note; the remedy is nn.LSTM."""
    width, words = n(384, 16), n(512, 20)
    with torch.device(DEVICE):
        names, out = nn.Embedding(words, width), nn.Linear(width, words)
        hear = nn.LSTM(width, width, 2) if fixed else Cells(width)
        notes = torch.randint(0, words, (n(160, 6) + 1, n(48, 2)))

    def loss() -> Any:
        heard = hear(names(notes[:-1]))
        return cross_entropy(out(heard[0] if fixed else heard).flatten(0, 1), notes[1:].flatten())

    return train(nn.ModuleList([names, hear, out]), loss)


class Terrain(nn.Module):
    """Height at a place: each layer is told the place again."""

    def __init__(self, width: int, told: int) -> None:
        super().__init__()
        self.first, self.height = nn.Linear(told, width), nn.Linear(width, 1)
        self.layers = nn.ModuleList(nn.Linear(width + told, width) for _ in range(n(8, 2)))

    def forward(self, place: torch.Tensor) -> torch.Tensor:
        x = self.first(place).relu()
        for layer in self.layers:
            x = layer(torch.cat((x, place), -1)).relu()
        return self.height(x)


def terrain_told_the_place(fixed: bool) -> Step:
    """A map of heights whose layers of 1024 get three coordinates besides; the remedy pads these to eight."""
    place = torch.randn(n(65536, 32), 3, device=DEVICE)
    heights = place.sin().sum(-1, keepdim=True)
    told = nn.functional.pad(place, (0, 5 if fixed else 0)).to(torch.bfloat16)
    with torch.device(DEVICE):
        model = Terrain(n(1024, 16), told.shape[1])

    def loss() -> Any:
        with autocast():
            return (model(told).float() - heights).square().mean()

    return train(model, loss)


class Scale(nn.Module):
    """Root mean square normalization: as the paper has it, or PyTorch's."""

    def __init__(self, width: int, *, by_hand: bool) -> None:
        super().__init__()
        self.by_hand, self.weight = by_hand, nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.by_hand:
            return rms_norm(x, (x.shape[-1],), self.weight, 1e-6)
        exact = x.float()
        return self.weight * (exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class CodeLayer(nn.Module):
    """A layer of a model of code: queries and keys are normalized, too, and a gated feed-forward network."""

    def __init__(self, width: int, *, by_hand: bool) -> None:
        super().__init__()
        self.number, inner = width // n(128, 8), width * 8 // 3 // 64 * 64 + 64
        self.norms = nn.ModuleList(Scale(width, by_hand=by_hand) for _ in range(2))
        self.of_heads = nn.ModuleList(Scale(n(128, 8), by_hand=by_hand) for _ in range(2))
        self.joined, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.number, -1)) for part in self.joined(self.norms[0](x)).chunk(3, -1))
        q, k = self.of_heads[0](q), self.of_heads[1](k)
        seen = scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)


def code_model_norms_by_hand(fixed: bool) -> Step:
    """A model of code in bf16 with RMS norms written out, four in a layer; the remedy calls PyTorch's."""
    width, words = n(1024, 16), n(16384, 32)
    with torch.device(DEVICE):
        layers = [CodeLayer(width, by_hand=not fixed) for _ in range(n(8, 1))]
        last = (Scale(width, by_hand=not fixed), nn.Linear(width, words, bias=False))
        model = nn.Sequential(nn.Embedding(words, width), *layers, *last).to(torch.bfloat16)
        tokens = torch.randint(0, words, (n(12, 1), n(1024, 8) + 1))
    return train(model, lambda: cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()))


def card_histories_in_small_batches(fixed: bool) -> Step:
    """Fraud found in the last 32 payments of 24 cards a step, by eight small layers; the remedy takes 192 cards."""
    width, cards = n(256, 16), n(24, 2) * (8 if fixed else 1)
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Linear(40, width), *(Causal(width) for _ in range(n(8, 1))), nn.Linear(width, 1))
        payments, bad = torch.randn(cards, n(32, 4), 40), torch.rand(cards, n(32, 4), 1).round()

    def loss() -> Any:
        with autocast():
            return binary_cross_entropy_with_logits(model(payments).float(), bad)

    return train(model, loss)


PAIRS = (
    Pair("batched_matmul", protein_triangles_by_channel, found=True, libraries=()),
    Pair("fused_rnn", melodies_cell_by_cell, found=True, libraries=()),
    Pair("pad_shapes", terrain_told_the_place, found=True, libraries=()),
    Pair("fuse_elementwise", code_model_norms_by_hand, found=True, libraries=()),
    Pair("larger_batch", card_histories_in_small_batches, found=True, as_much=8.0, libraries=()),
)
