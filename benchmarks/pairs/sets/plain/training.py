"""Training as in many a repository, of PyTorch alone: one thing in each program is not as it should be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, mse_loss, rms_norm, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.program import DEVICE, Pair, autocast, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Block(nn.Module):
    """A transformer's layer; its attention is fused unless it is to be written out."""

    def __init__(self, width: int, *, causal: bool = False, written_out: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.written_out = width // n(64, 16), causal, written_out
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """What each place sees of the others."""
        if not self.written_out:
            return scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        return scores.softmax(-1) @ v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.after(x))))


def _words(count: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, count, shape, device=DEVICE)


def encoder_layers(count: int, width: int) -> list[nn.Module]:
    """Layers of PyTorch's encoder, without dropout."""
    options: dict[str, Any] = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
    return [nn.TransformerEncoderLayer(width, width // n(64, 16), 4 * width, **options) for _ in range(count)]


def orbit_ode(fixed: bool) -> Step:
    """A small network learns an equation through ten Runge-Kutta steps; the remedy is a CUDA graph."""
    with torch.device(DEVICE):
        slope = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 16))
        start, end = torch.randn(256, 16), torch.randn(256, 16)
    length = 0.1

    def loss() -> Any:
        x = start
        for _ in range(n(10, 2)):
            a = slope(x)
            b = slope(x + length / 2 * a)
            c = slope(x + length / 2 * b)
            d = slope(x + length * c)
            x = x + length / 6 * (a + 2 * b + 2 * c + d)
        return mse_loss(x, end)

    adam = torch.optim.Adam(slope.parameters(), 1e-4, fused=True, capturable=DEVICE == "cuda")
    step = train(slope, loss, adam)
    return graphed(step) if fixed else step


class Modulated(Block):
    """A diffusion transformer's layer: a condition scales and shifts what goes in and what comes out."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(silu(condition))[:, None].chunk(6, -1)
        y = self.before(x) * (1 + scale) + shift
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = rms_norm(q, q.shape[-1:]), rms_norm(k, k.shape[-1:])
        x = x + gate * self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        y = self.after(x) * (1 + scale2) + shift2
        return x + gate2 * self.down(gelu(self.up(y), approximate="tanh"))


class Diffusion(nn.Module):
    """A diffusion transformer on patches of 16 numbers."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(16, width), nn.Linear(width, 16)
        self.layers = nn.ModuleList(Modulated(width) for _ in range(layers))

    def forward(self, patches: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        x = self.enter(patches)
        for layer in self.layers:
            x = layer(x, condition)
        return self.leave(x)


def diffusion_transformer(fixed: bool) -> Step:
    """A diffusion transformer of five layers in bf16, eager, on 16 pictures of 256 patches; the remedy compiles it."""
    width, batch, patches = n(1024, 32), n(16, 2), n(256, 8)
    with torch.device(DEVICE):
        model = Diffusion(n(5, 1), width)
        noisy, noise = torch.randn(2, batch, patches, 16)
        condition = torch.randn(batch, width)

    def loss() -> Any:
        with autocast():
            return mse_loss(model(noisy, condition).float(), noise)

    return train(model, torch.compile(loss, dynamic=False) if fixed else loss)


def translator_adam(fixed: bool) -> Step:
    """A translator of six and six layers whose Adam takes parameter by parameter; the remedy is the fused Adam."""
    width, words, length = n(512, 32), n(16_384, 64), n(64, 8)
    with torch.device(DEVICE):
        inner = nn.Transformer(width, n(8, 2), n(6, 1), n(6, 1), 4 * width, batch_first=True)
        model = nn.ModuleList((inner, nn.Embedding(words, width), nn.Linear(width, words)))
        later = nn.Transformer.generate_square_subsequent_mask(length, device=torch.device(DEVICE))
    source, target = _words(words, n(64, 2), length), _words(words, n(64, 2), length + 1)

    def loss() -> Any:
        with autocast():
            asked, told = model[1](source), model[1](target[:, :-1])
            seen = inner(asked, told, tgt_mask=later, tgt_is_causal=True)
            return cross_entropy(model[2](seen).flatten(0, 1), target[:, 1:].flatten())

    adam = torch.optim.Adam(model.parameters(), 1e-5, betas=(0.9, 0.98), foreach=False, fused=fixed)
    return train(model, loss, adam)


def _decoder(words: int, width: int, layers: int, *, written_out: bool = False) -> nn.Sequential:
    with torch.device(DEVICE):
        blocks = [Block(width, causal=True, written_out=written_out) for _ in range(layers)]
        return nn.Sequential(nn.Embedding(words, width), *blocks, nn.LayerNorm(width), nn.Linear(width, words))


def _next_word(model: nn.Module, tokens: torch.Tensor) -> Step:
    def loss() -> Any:
        with autocast():
            return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return train(model, loss)


def music_attention(fixed: bool) -> Step:
    """A decoder of notes on 2048 of them in bf16, attention written out with a mask; the remedy fuses the attention."""
    model = _decoder(512, n(768, 32), n(4, 1), written_out=not fixed)
    return _next_word(model, _words(512, n(4, 1), n(2049, 17)))


def extended_vocabulary(fixed: bool) -> Step:
    """A decoder of 32,000 words and three signs added to them, in bf16; the remedy pads the words to 32,064."""
    model = _decoder(n(32_064 if fixed else 32_003, 128 if fixed else 67), n(1024, 32), n(4, 1))
    return _next_word(model, _words(n(32_003, 67), n(8, 1), n(1025, 17)))


def _more(width: int) -> tuple[nn.Module, nn.Module]:
    return nn.SiLU(), nn.Linear(width, width)


def operator_network(fixed: bool) -> Step:
    """Two deep networks in fp32 learn what an operator makes of a function at a place; the remedy allows TF32."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    width = n(2048, 32)
    with torch.device(DEVICE):
        branch, trunk = (
            nn.Sequential(nn.Linear(first, width), *(x for _ in range(n(5, 1)) for x in _more(width)))
            for first in (n(1024, 16), 3)
        )
        functions, places = torch.randn(n(2048, 8), n(1024, 16)), torch.randn(n(8192, 16), 3)
        wanted = torch.randn(n(2048, 8), n(8192, 16))
    return train(nn.ModuleList((branch, trunk)), lambda: mse_loss(branch(functions) @ trunk(places).T, wanted))


def speech_encoder(fixed: bool) -> Step:
    """An encoder of speech, eight layers on 16 times 512 frames in fp32 with TF32; the remedy is autocast to bf16."""
    torch.set_float32_matmul_precision("high")
    width, sounds, shape = n(1024, 32), n(512, 16), (n(16, 1), n(512, 16))
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Linear(80, width), *encoder_layers(n(8, 1), width), nn.Linear(width, sounds))
        frames = torch.randn(*shape, 80)
    said = _words(sounds, *shape).flatten()

    def loss() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            return cross_entropy(model(frames).flatten(0, 1), said)

    return train(model, loss)


def picture_blocks_again(fixed: bool) -> Step:
    """A vision transformer of 12 layers in bf16, each checkpointed though memory is free; the remedy keeps all."""
    width, side = n(768, 32), n(224, 32)
    with torch.device(DEVICE):
        enter, layers = nn.Conv2d(3, width, 16, 16), nn.ModuleList(Block(width) for _ in range(n(12, 2)))
        model = nn.ModuleList((enter, layers, nn.Linear(width, n(1000, 8))))
        pictures = torch.randn(n(64, 2), 3, side, side)
    kinds = _words(n(1000, 8), n(64, 2))

    def loss() -> Any:
        with autocast():
            x = enter(pictures).flatten(2).transpose(1, 2)
            for layer in layers:
                x = layer(x) if fixed else checkpoint(layer, x, use_reentrant=False)
            return cross_entropy(model[2](x.mean(1)), kinds)

    return train(model, loss)


PAIRS = (
    Pair("cuda_graph", orbit_ode, found=True, libraries=()),
    Pair("compile", diffusion_transformer, found=True, early=("fix",), libraries=()),
    Pair("fused_optimizer", translator_adam, found=True, libraries=()),
    Pair("fused_attention", music_attention, found=True, libraries=()),
    Pair("pad_shapes", extended_vocabulary, found=True, libraries=()),
    Pair("tf32", operator_network, found=True, libraries=()),
    Pair("low_precision", speech_encoder, found=True, libraries=()),
    Pair("no_recompute", picture_blocks_again, found=True, libraries=()),
)
