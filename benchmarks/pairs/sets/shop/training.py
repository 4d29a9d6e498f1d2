"""Training as found in a company's daily work, of PyTorch alone: each with one mistake, and without it."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, kl_div, mse_loss, normalize, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def attention_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as a paper writes it."""
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


class Layer(nn.Module):
    """An encoder's layer."""

    attend = staticmethod(scaled_dot_product_attention)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), width // n(64, 16)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.after(x))))


def layers(number: int, width: int, kind: type[nn.Module] = Layer) -> nn.Sequential:
    """Layers made on the device."""
    with torch.device(DEVICE):
        return nn.Sequential(*(kind(width) for _ in range(number)))


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE)


class Recommender(nn.Module):
    """Embedding tables and a network over what is looked up in them."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.top = nn.Sequential(nn.Linear(tables * width, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.top(torch.cat([table(one) for table, one in zip(self.tables, rows, strict=True)], -1))


def recommender_default_adam(fixed: bool) -> Step:
    """A recommender with 26 embedding tables trained with Adam as it comes; the remedy is its fused version."""
    tables, rows = 26, n(400_000, 100)
    with torch.device(DEVICE):
        model = Recommender(tables, rows, n(32, 8))
    seen = torch.randint(0, rows, (tables, n(8192, 16)), device=DEVICE)
    # fused=False would choose the loop over parameters, not the default
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=fixed or None)
    return train(model, lambda: model(seen).square().mean(), optimizer)


class Cells(nn.Module):
    """Two layers of recurrent cells, called hour by hour."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.first, self.second = width, nn.GRUCell(width, width), nn.GRUCell(width, width)

    def forward(self, hours: torch.Tensor) -> torch.Tensor:
        a = b = hours.new_zeros(hours.shape[0], self.width)
        seen = []
        for hour in hours.unbind(1):
            a = self.first(hour, a)
            b = self.second(a, b)
            seen.append(b)
        return torch.stack(seen, 1)


def loads_forecast_by_cells(fixed: bool) -> Step:
    """A week of electric loads forecast by two layers of GRU cells in a loop over hours; the remedy is nn.GRU."""
    width = n(256, 16)
    with torch.device(DEVICE):
        model = nn.GRU(width, width, 2, batch_first=True) if fixed else Cells(width)
    hours = _random(n(512, 4), n(168, 6), width)

    def loss() -> Any:
        told = model(hours)
        return ((told[0] if fixed else told)[:, :-1] - hours[:, 1:]).square().mean()

    return train(model, loss)


class Modulated(Layer):
    """A diffusion transformer's layer: shifted, scaled and gated by the time step."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.modulation = nn.Linear(width, 6 * width)

    def forward(self, both: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        x, when = both
        a, b, c, d, e, f = self.modulation(nn.functional.silu(when)).unsqueeze(1).chunk(6, -1)
        q, k, v = self.qkv(self.before(x) * (1 + a) + b).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + c * self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + f * self.down(gelu(self.up(self.after(x) * (1 + d) + e), approximate="tanh")), when


def diffusion_layers_eager(fixed: bool) -> Step:
    """A small diffusion transformer trained eagerly; the remedy compiles its layers."""
    width = n(384, 32)
    model = layers(n(12, 2), width, Modulated)
    for layer in model if fixed else ():
        layer.compile(backend="inductor" if DEVICE == "cuda" else "eager")
    noisy, noise = (_random(n(48, 2), n(256, 8), width) for _ in range(2))
    when = _random(len(noisy), width)

    def loss() -> Any:
        with autocast():
            return mse_loss(model((noisy, when))[0], noise)

    return train(model, loss)


class ByHand(Layer):
    """An encoder's layer with attention written out."""

    attend = staticmethod(attention_by_hand)


def speech_attention_by_hand(fixed: bool) -> Step:
    """A speech encoder over 1500 frames whose attention is written out; the remedy calls PyTorch's."""
    width = n(512, 32)
    with torch.device(DEVICE):
        ears = nn.Sequential(nn.Conv1d(80, width, 3, 1, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU())
        model = nn.ModuleList([ears, layers(n(8, 1), width, Layer if fixed else ByHand), nn.Linear(width, 64)])
    mels, said = _random(n(12, 1), 80, n(3000, 32)), torch.randint(0, 64, (n(12, 1), n(1500, 16)), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model[2](model[1](model[0](mels).transpose(1, 2))).flatten(0, 1), said.flatten())

    return train(model, loss)


def teacher_outside_autocast(fixed: bool) -> Step:
    """A student under autocast learns from a teacher that runs in fp32 with TF32; the remedy is a teacher in bf16."""
    torch.set_float32_matmul_precision("high")
    kinds, big, small = n(1000, 16), n(1024, 32), n(384, 32)
    teacher = nn.Sequential(layers(n(20, 1), big), nn.Linear(big, kinds, device=DEVICE)).requires_grad_(False).eval()
    student = nn.Sequential(layers(n(6, 1), small), nn.Linear(small, kinds, device=DEVICE))
    kind = torch.bfloat16 if fixed else torch.float32
    teacher.to(kind)
    seen = _random(n(32, 2), n(256, 8), big).to(kind)
    less = _random(n(32, 2), n(256, 8), small)

    def loss() -> Any:
        with torch.no_grad():
            wanted = teacher(seen).mean(1).float().softmax(-1)
        with autocast():
            told = student(less).mean(1)
        return kl_div(told.float().log_softmax(-1), wanted, reduction="batchmean")

    return train(student, loss)


def contrastive_towers_fp32(fixed: bool) -> Step:
    """Pictures and captions brought together by two encoders in plain fp32; the remedy allows TF32."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    width = n(768, 32)
    eyes, words = layers(n(8, 1), width), layers(n(6, 1), width)
    pictures, captions = _random(n(48, 4), n(196, 9), width), _random(n(48, 4), n(64, 8), width)
    same = torch.arange(len(pictures), device=DEVICE)

    def loss() -> Any:
        a, b = normalize(eyes(pictures).mean(1), dim=-1), normalize(words(captions).mean(1), dim=-1)
        alike = a @ b.T * 20
        return cross_entropy(alike, same) + cross_entropy(alike.T, same)

    return train(nn.ModuleList([eyes, words]), loss)


class Causal(Layer):
    """A decoder's layer."""

    attend = staticmethod(functools.partial(scaled_dot_product_attention, is_causal=True))


class Adapted(nn.Module):
    """A frozen matrix and two thin ones that are trained."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.a = nn.Linear(inner.in_features, n(16, 2), bias=False)
        self.b = nn.Linear(n(16, 2), inner.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.b(self.a(x))


def adapters_checkpointed(fixed: bool) -> Step:
    """LoRA on a bf16 language model whose layers are computed again for backward; the remedy keeps what they need."""
    width, words = n(2048, 32), n(16000, 100)
    stack = layers(n(12, 2), width, Causal).requires_grad_(False)
    with torch.device(DEVICE):
        for layer in stack:
            layer.qkv, layer.down = Adapted(layer.qkv), Adapted(layer.down)
        ends = nn.ModuleList([nn.Embedding(words, width), nn.Linear(width, words)]).requires_grad_(False)
    model = nn.ModuleList([stack, ends]).to(torch.bfloat16)
    tokens = torch.randint(0, words, (n(4, 1), n(1025, 17)), device=DEVICE)

    def loss() -> Any:
        x = ends[0](tokens[:, :-1])
        for layer in stack:
            x = layer(x) if fixed else checkpoint(layer, x, use_reentrant=False)
        return cross_entropy(ends[1](x).flatten(0, 1).float(), tokens[:, 1:].flatten())

    return train(model, loss)


PAIRS = (
    Pair("fused_optimizer", recommender_default_adam, found=True, libraries=()),
    Pair("fused_rnn", loads_forecast_by_cells, found=True, libraries=()),
    Pair("compile", diffusion_layers_eager, found=True, early=("fix",), libraries=()),
    Pair("fused_attention", speech_attention_by_hand, found=True, libraries=()),
    Pair("low_precision", teacher_outside_autocast, found=True, libraries=()),
    Pair("tf32", contrastive_towers_fp32, found=True, libraries=()),
    Pair("no_recompute", adapters_checkpointed, found=True, libraries=()),
)
