"""Programs that are well written, in domains of their own: what sounds right is timed on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, rms_norm, scaled_dot_product_attention, silu

from benchmarks.pairs.program import DEVICE, Good, graphed, n, train
from benchmarks.pairs.sets.everyday.services import HALF
from benchmarks.pairs.sets.found.loops import Block

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def _adamw(model: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")


def _tower(width: int) -> nn.Sequential:
    layers = [x for _ in range(3) for x in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(width, width // 4))


def good_two_towers(version: str) -> Step:
    """Two wide towers learn in bf16 which of 16,384 texts belongs to which picture; the loss is read once a step."""
    width, batch = n(4096, 32), n(16_384, 8)
    towers = nn.ModuleList((_tower(width), _tower(width))).to(DEVICE, torch.bfloat16)
    pictures, texts = (torch.randn(batch, width, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    right, last = torch.arange(batch, device=DEVICE), torch.zeros((), device=DEVICE)

    def loss() -> Any:
        a, b = towers[0](pictures), towers[1](texts)
        now = cross_entropy(a @ b.T / 32, right)
        last.copy_(now.detach())
        return now

    update = train(towers, loss, _adamw(towers))
    update = graphed(update) if version == "cuda_graph" else update

    def step() -> float:
        update()
        return 0.0 if version == "remove_syncs" else last.item()

    return step


class Causal(Block):
    """A layer of a decoder."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.second(x))))


def good_compiled_decoder(version: str) -> Step:
    """A decoder of four layers, compiled and trained in bf16 on 1024 tokens, with flash attention and a fused AdamW."""
    width, words, length = n(1280, 64), n(16_384, 64), n(1024, 16)
    layers = [Causal(width) for _ in range(n(4, 1))]
    model = nn.Sequential(nn.Embedding(words, width), *layers, nn.LayerNorm(width), nn.Linear(width, words, bias=False))
    model = model.to(DEVICE, torch.bfloat16)
    batch = n(12, 1) * (2 if version == "larger_batch" else 1)
    tokens = torch.randint(0, words, (batch, length + 1), device=DEVICE)

    def loss_of(now: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(now[:, :-1]).flatten(0, 1).float(), now[:, 1:].flatten())

    compiled = torch.compile(loss_of, dynamic=False)
    step = train(model, lambda: compiled(tokens), _adamw(model))
    return graphed(step) if version == "cuda_graph" else step


def good_passages(version: str) -> Step:
    """An encoder in half precision, eager, turns 128 passages of 256 tokens into vectors; its attention is fused."""
    width = n(1280, 64)
    model = nn.Sequential(nn.Embedding(16_384, width), *(Block(width) for _ in range(n(4, 1))))
    model = model.to(DEVICE, HALF).eval()
    batch = n(128, 2) * (2 if version == "larger_batch" else 1)
    texts = torch.randint(0, 16_384, (batch, n(256, 16)))
    texts = texts.pin_memory() if version == "pinned_memory" and DEVICE == "cuda" else texts
    tokens = torch.zeros_like(texts, device=DEVICE)
    forward = torch.compile(model, dynamic=False) if version == "compile" else model

    def encode() -> None:
        with torch.inference_mode():
            forward(tokens).mean(1)

    run = graphed(encode) if version == "cuda_graph" else encode

    def step() -> None:
        tokens.copy_(texts, non_blocking=version == "pinned_memory")
        run()

    return step


class Writing(nn.Module):
    """A layer of a decoder that writes: norms without means, a gate, keys and values kept in place."""

    def __init__(self, width: int, batch: int, length: int) -> None:
        super().__init__()
        self.width, self.heads, self.inner = width, width // 128 or 1, width * 5 // 2
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * self.inner, bias=False), nn.Linear(self.inner, width, bias=False)
        shape = (batch, self.heads, length, width // self.heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x: torch.Tensor, at: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(rms_norm(x, (self.width,))).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        y = scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.up(rms_norm(x, (self.width,))).chunk(2, -1)
        return x + self.down(silu(gate) * up)


def good_graphed_writer(version: str) -> Step:
    """A wide decoder writes eight texts, a token a step, from a CUDA graph; tokens go to pinned memory unwaited for."""
    width, batch, length, words = n(4096, 128), n(8, 2), n(1024, 32), n(32_000, 64)
    with torch.device(DEVICE):
        layers = nn.ModuleList(Writing(width, batch, length).to(torch.bfloat16) for _ in range(n(5, 1)))
        table, head = (nn.Linear(width, words, bias=False, dtype=torch.bfloat16) for _ in range(2))
    token, at = (torch.zeros(size, dtype=torch.long, device=DEVICE) for size in ((batch, 1), (1,)))
    places = torch.arange(length, device=DEVICE)
    told = torch.zeros(batch, 1, dtype=torch.long, pin_memory=DEVICE == "cuda")

    def forward(token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x, seen = table.weight[token], (places <= at)[None, None, None]
        for layer in layers:
            x = layer(x, at, seen)
        return head(x).argmax(-1)

    def write() -> None:
        with torch.no_grad():
            token.copy_(forward(token, at))
            at.add_(1).remainder_(length)

    replay = graphed(write)

    def step() -> None:
        replay()
        if version != "keep_on_device":
            told.copy_(token, non_blocking=True)

    return step


def good_graphed_agent(version: str) -> Step:
    """An agent's small networks in fp32 learn from 512 memories in a CUDA graph, with a fused AdamW."""
    torch.set_float32_matmul_precision("high" if version == "tf32" else "highest")
    actor, critic = (
        nn.Sequential(nn.Linear(first, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, last))
        for first, last in ((32, 8), (40, 1))
    )
    both = nn.ModuleList((actor, critic)).to(DEVICE)
    seen, wanted = torch.randn(512, 32, device=DEVICE), torch.randn(512, 1, device=DEVICE)

    def loss() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=version == "low_precision"):
            act = actor(seen).tanh()
            value = critic(torch.cat((seen, act), 1)).float()
            return (value - wanted).square().mean() - 0.1 * value.mean()

    return graphed(train(both, loss, _adamw(both)))


PROGRAMS = (
    Good(("remove_syncs", "cuda_graph"), good_two_towers, found=True),
    Good(
        ("cuda_graph", "larger_batch"), good_compiled_decoder, found=True,
        early=("base", "cuda_graph", "larger_batch"),
    ),
    Good(("cuda_graph", "pinned_memory", "larger_batch", "compile"), good_passages, early=("compile",)),
    Good(("keep_on_device",), good_graphed_writer),
    Good(("tf32", "low_precision"), good_graphed_agent),
)  # fmt: skip
