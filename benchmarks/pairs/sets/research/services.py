"""Services of research code: experts, texts, proteins, styles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import gelu, instance_norm, interpolate, scaled_dot_product_attention

from benchmarks.pairs.program import DEVICE, Pair, n
from benchmarks.pairs.sets.everyday.services import HALF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.pairs.program import Step


class Experts(nn.Module):
    """Eight experts, two for each token: found by a mask each, or from one sorted list."""

    def __init__(self, width: int, *, fixed: bool) -> None:
        super().__init__()
        self.gate, self.fixed = nn.Linear(width, 8, bias=False), fixed
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(8))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(8))

    def groups(self, choice: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Which tokens go to each expert, and as which of their two choices."""
        if not self.fixed:
            for expert in range(len(self.up)):
                yield torch.where(choice == expert)
            return
        flat = choice.flatten()
        counts = flat.new_zeros(len(self.up)).scatter_add_(0, flat, torch.ones_like(flat)).tolist()
        for some in flat.argsort(stable=True).split(counts):
            yield some // 2, some % 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, choice = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for (rows, which), up, down in zip(self.groups(choice), self.up, self.down, strict=True):
            out.index_add_(0, rows, down(gelu(up(x[rows]))) * weight[rows, which, None])
        return x + out


def experts_by_mask(fixed: bool) -> Step:
    """A mixture of experts in bf16 that finds each expert's tokens by a boolean mask; the remedy sorts them once."""
    with torch.device(DEVICE):
        model = nn.Sequential(*(Experts(n(1024, 32), fixed=fixed) for _ in range(n(4, 1))))
    model = model.to(torch.bfloat16).eval()
    x = torch.randn(n(16_384, 16), n(1024, 32), device=DEVICE, dtype=torch.bfloat16)

    def step() -> Any:
        with torch.inference_mode():
            return model(x)

    return step


def words_drawn_in_numpy(fixed: bool) -> Step:
    """A GRU writes 32 texts; numpy sorts the chances of every word and draws the next one, text by text (top-p)."""
    words, width, batch, most = n(16_384, 64), n(1024, 16), n(32, 2), 0.9
    table, head = nn.Embedding(words, width).to(DEVICE, HALF), nn.Linear(width, words).to(DEVICE, HALF)
    layer = nn.GRU(width, width, 2, batch_first=True).to(DEVICE, HALF)
    token, chance = torch.zeros(batch, 1, dtype=torch.long, device=DEVICE), np.random.default_rng(0)
    state = torch.zeros(2, batch, width, device=DEVICE, dtype=HALF)

    def drawn(row: np.ndarray) -> int:
        order = np.argsort(-row)
        share = np.exp(row[order] - row[order[0]])
        share /= share.sum()
        kept = share[: int(np.searchsorted(share.cumsum(), most)) + 1]
        return int(order[chance.choice(len(kept), p=kept / kept.sum())])

    def on_device(logits: torch.Tensor) -> torch.Tensor:
        share, order = logits.softmax(-1).sort(-1, descending=True)
        kept = share * (share.cumsum(-1) - share < most)
        return order.gather(1, (kept / torch.empty_like(kept).exponential_()).argmax(-1, keepdim=True))

    def step() -> None:
        with torch.inference_mode():
            said, new = layer(table(token), state)
            state.copy_(new)
            logits = head(said[:, -1]).float()
            if fixed:
                token.copy_(on_device(logits))
            else:
                rows = logits.cpu().numpy().astype(np.float64)
                token.copy_(torch.tensor([[drawn(row)] for row in rows]))

    return step


class PairBias(nn.Module):
    """Attention along the rows of an alignment, with a bias from each pair of places, and a gate."""

    def __init__(self, width: int, heads: int, *, fixed: bool) -> None:
        super().__init__()
        self.heads, self.fixed = heads, fixed
        self.norm, self.qkv, self.gate = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias, self.out = nn.Linear(128, heads, bias=False), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, pair: torch.Tensor) -> torch.Tensor:
        y, bias = self.norm(x), self.bias(pair).permute(2, 0, 1).contiguous()[None]
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.fixed:
            seen = scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            seen = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + bias).softmax(-1) @ v
        return x + self.out(self.gate(y).sigmoid() * seen.transpose(1, 2).flatten(2))


def alignment_rows_biased(fixed: bool) -> Step:
    """A protein folder's attention over 96 aligned rows in half precision, its bias added to written-out scores."""
    width, length = n(256, 32), n(384, 16)
    layers = nn.ModuleList(PairBias(width, n(8, 2), fixed=fixed) for _ in range(n(4, 1))).to(DEVICE, HALF).eval()
    rows = torch.randn(n(96, 2), length, width, device=DEVICE, dtype=HALF)
    pair = torch.randn(length, length, 128, device=DEVICE, dtype=HALF)

    def step() -> Any:
        with torch.inference_mode():
            x = rows
            for layer in layers:
                x = layer(x, pair)
            return x

    return step


class PictureNorm(nn.Module):
    """Each picture's channels brought to mean 0 and spread 1, written out or by PyTorch's own."""

    def __init__(self, width: int, *, fixed: bool) -> None:
        super().__init__()
        self.weight, self.bias, self.fixed = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), fixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fixed:
            return instance_norm(x, weight=self.weight, bias=self.bias)
        mean = x.mean((2, 3), keepdim=True)
        spread = (x.var((2, 3), keepdim=True, unbiased=False) + 1e-5).sqrt()
        return (x - mean) / spread * self.weight[:, None, None] + self.bias[:, None, None]


def style_norm_by_hand(fixed: bool) -> Step:
    """A network paints pictures of 512 pixels in a style, in half precision; its norms are means and divisions."""

    def layer(a: int, b: int, stride: int = 1) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), PictureNorm(b, fixed=fixed), nn.ReLU())

    down = nn.Sequential(layer(3, 32), layer(32, 64, 2), *(layer(*two) for two in ((64, 128, 2), *[(128, 128)] * 6)))
    middle, last = layer(128, 64), nn.Sequential(layer(64, 32), nn.Conv2d(32, 3, 3, padding=1))
    model = nn.ModuleList((down, middle, last)).to(DEVICE, HALF).eval()
    x = torch.randn(n(8, 1), 3, n(512, 32), n(512, 32), device=DEVICE, dtype=HALF)

    def step() -> Any:
        with torch.inference_mode():
            y = model[1](interpolate(model[0](x), scale_factor=2))
            return model[2](interpolate(y, scale_factor=2)).sigmoid()

    return step


PAIRS = (
    Pair("remove_syncs", experts_by_mask, libraries=()),
    Pair("move_host_work", words_drawn_in_numpy, libraries=()),
    Pair("fused_attention", alignment_rows_biased, libraries=(), fixed_too=False),
    Pair("fuse_elementwise", style_norm_by_hand, libraries=(), fixed_too=False),
)
