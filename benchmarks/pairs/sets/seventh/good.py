"""Programs that are well written: what sounds right is timed on each, and brings nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Good, autocast, graphed, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def good_photographs(version: str) -> Step:
    """torchvision's ResNet-50 on 160 photographs a step, in bf16 with channels last and a fused AdamW."""
    from torchvision.models import resnet50

    batch, side = n(160, 2) * (2 if version == "larger_batch" else 1), n(224, 32)
    with torch.device(DEVICE):
        model = resnet50(num_classes=1000).to(memory_format=torch.channels_last)
        photographs = torch.randn(batch, 3, side, side).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(photographs), labels)

    step = train(model, loss, optimizer)
    return graphed(step) if version == "cuda_graph" else step


class Layer(nn.Module):
    """A layer of a transformer, its attention fused."""

    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.causal, self.size = causal, n(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, -1, self.size)).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(gelu(self.up(self.second(x))))


def _transformer(layers: int, width: int, words: int, *, causal: bool) -> nn.Sequential:
    with torch.device(DEVICE):
        inner = (Layer(width, causal=causal) for _ in range(layers))
        model = nn.Sequential(nn.Embedding(words, width), *inner, nn.LayerNorm(width), nn.Linear(width, words))
    return model.to(torch.bfloat16)


class Hidden(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Texts, and the same with a seventh of the words hidden."""

    def __init__(self, words: int, length: int) -> None:
        self.words, self.length = words, length

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = np.random.default_rng(number)
        text = draw.integers(1, self.words, self.length)
        return torch.from_numpy(np.where(draw.random(self.length) < 1 / 7, 0, text)), torch.from_numpy(text)


def good_hidden_words(version: str) -> Step:
    """A wide encoder in bf16 guesses words on 64 texts of 256 that four workers prepare, long before it needs them."""
    words, length, more = n(8192, 64), n(256, 16), version == "data_loader_workers"
    model = _transformer(n(6, 1), n(1536, 32), words, causal=False)
    loader = DataLoader(
        Hidden(words, length), n(64, 2), num_workers=n(12, 2) if more else n(4, 1), persistent_workers=True,
        pin_memory=version == "pinned_memory" and DEVICE == "cuda",
    )  # fmt: skip
    batches = iter(loader)

    def loss() -> Any:
        seen, wanted = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return cross_entropy(model(seen).flatten(0, 1), wanted.flatten())

    return train(model, loss)


def good_eddies(version: str) -> Step:
    """Eddies on a plane of 4096 points squared, in fp32: two steps of a spectral method, Fourier transforms mostly."""
    torch.set_float32_matmul_precision("high" if version == "tf32" else "highest")
    size = n(4096, 32)
    with torch.device(DEVICE):
        y = torch.fft.fftfreq(size, 1 / size)[:, None]
        x = torch.fft.rfftfreq(size, 1 / size)[None]
        square = (x * x + y * y).clamp(min=1)
        wanted = torch.stack(torch.broadcast_tensors(1j * y / square, -1j * x / square, 1j * x, 1j * y))
        fade = torch.exp(-1e-6 * square) * (square < (size / 3) ** 2)
        state = torch.fft.rfft2(torch.randn(size, size))
        state *= fade

    def slope(now: torch.Tensor) -> torch.Tensor:
        u, v, along, across = torch.fft.irfft2(now * wanted, s=(size, size))
        return torch.fft.rfft2((u * along).addcmul_(v, across))

    def advance() -> None:
        with torch.no_grad():
            for _ in range(2):
                half = torch.sub(state, slope(state), alpha=5e-7)
                state.sub_(slope(half), alpha=1e-6).mul_(fade)

    return graphed(advance) if version == "cuda_graph" else advance


def good_bytes(version: str) -> Step:
    """A model of bytes, two layers in bf16, reads a text of 32,768 with flash attention; AdamW as it comes."""
    length, batch = n(32_768, 32), 2 if version == "larger_batch" else 1
    model = _transformer(2, n(1024, 32), 256, causal=True)
    text = torch.randint(0, 256, (batch, length + 1), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=version == "fused_optimizer" or None)
    return train(model, lambda: cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()), optimizer)


PROGRAMS = (
    Good(("cuda_graph", "larger_batch"), good_photographs, found=True, libraries=("torchvision.models",)),
    Good(("data_loader_workers", "pinned_memory"), good_hidden_words, found=True),
    Good(("tf32", "cuda_graph"), good_eddies),
    Good(("fused_optimizer", "larger_batch"), good_bytes, found=True),
)
