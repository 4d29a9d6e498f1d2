"""Programs of PyTorch alone that are well written: what sounds right is timed on each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Good, autocast, graphed, n, train
from benchmarks.pairs.sets.plain.loading import ahead, convolutions, pinned
from benchmarks.pairs.sets.plain.training import Block

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pairs.program import Step

CUDA = DEVICE == "cuda"
HALF = torch.float16 if CUDA else torch.bfloat16


def _adamw(model: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=CUDA)


def _sorted(get: Callable[[], torch.Tensor], batch: int) -> Step:
    model = convolutions(3, n(128, 8), n(10, 2), 100)
    kinds = torch.arange(batch, device=DEVICE) % 100

    def loss() -> Any:
        pictures = get()
        with autocast():
            x = pictures.to(torch.bfloat16, memory_format=torch.channels_last) / 255
            return cross_entropy(model(x), kinds)

    return train(model, loss, _adamw(model))


def good_pictures_ahead(version: str) -> Step:
    """Pictures are sorted in bf16, channels last; bytes come from pinned memory, copied during the step before."""
    batch = n(256, 2) * (2 if version == "larger_batch" else 1)
    host = [torch.randint(0, 256, (batch, 3, n(128, 16), n(128, 16)), dtype=torch.uint8) for _ in range(2)]
    if version == "keep_on_device":
        there = host[0].to(DEVICE)
        return _sorted(lambda: there, batch)
    batches = itertools.cycle([pinned(one) for one in host])
    return _sorted(ahead(lambda: next(batches)), batch)


class Pictures(Dataset[np.ndarray[Any, Any]]):
    """Pictures that are read at once, mirrored now and then."""

    def __init__(self) -> None:
        shape = (64, n(96, 16), n(96, 16), 3)
        self.pictures = np.random.default_rng(0).integers(0, 256, shape, np.uint8)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, number: int) -> np.ndarray[Any, Any]:
        picture = self.pictures[number % 64]
        return np.ascontiguousarray((picture[:, ::-1] if number % 2 else picture).transpose(2, 0, 1))


def good_loader(version: str) -> Step:
    """Pictures are sorted in bf16; four workers read them faster than they are needed, into pinned memory."""
    batch, workers = n(256, 2), n(8, 2) if version == "data_loader_workers" else n(4, 1)
    batches = iter(DataLoader(Pictures(), batch, num_workers=workers, pin_memory=CUDA))
    if version == "copy_ahead":
        return _sorted(ahead(lambda: next(batches)), batch)
    return _sorted(lambda: next(batches).to(DEVICE, non_blocking=True), batch)


def good_half_decoder(version: str) -> Step:
    """A wide decoder of four layers learns in bf16 from eight texts; it knows 16,008 words, a multiple of eight."""
    width, words, layers = n(2048, 32), 16_064 if version == "pad_shapes" else 16_008, n(4, 1)
    with torch.device(DEVICE):
        blocks = [Block(width, causal=True) for _ in range(layers)]
        model = nn.Sequential(nn.Embedding(words, width), *blocks, nn.LayerNorm(width), nn.Linear(width, words))
        tokens = torch.randint(0, 16_008, (n(8, 1), n(1025, 9)))
    model = model.to(torch.bfloat16)

    def loss() -> Any:
        return cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    step = train(model, loss, _adamw(model))
    return graphed(step) if version == "cuda_graph" else step


def good_wave_packets(version: str) -> Step:
    """Sixteen wave packets move on a grid by Fourier transforms, potentials applied in place, factors folded in."""
    shape = (n(16, 1), n(1024, 16), n(1024, 16))
    with torch.device(DEVICE):
        wave = torch.polar(torch.ones(shape), torch.rand(shape))
        potential = torch.polar(torch.ones(shape[1:]), torch.rand(shape[1:]))
        motion = torch.polar(torch.full(shape[1:], 1 / shape[1] / shape[2]), torch.rand(shape[1:]))
        there, back = torch.empty_like(wave), torch.empty_like(wave)
    outs = (there, back) if version == "avoid_allocations" else (None, None)

    def step() -> None:
        with torch.no_grad():
            now = wave
            for _ in range(n(8, 1)):
                spectrum = torch.fft.fft2(now.mul_(potential), out=outs[0]).mul_(motion)
                now = torch.fft.ifft2(spectrum, norm="forward", out=outs[1])
            wave.copy_(now)

    return graphed(step) if version == "cuda_graph" else step


def good_graphed_ranker(version: str) -> Step:
    """An encoder in half precision ranks 64 passages from a CUDA graph; the scores are read at once."""
    width, passages, length = n(1024, 32), n(64, 2), n(256, 16)
    with torch.device(DEVICE):
        layers = [Block(width) for _ in range(n(6, 1))]
        model = nn.Sequential(nn.Embedding(16_384, width), *layers, nn.Linear(width, 1)).to(HALF).eval()
        tokens = torch.zeros(passages, length, dtype=torch.long)
        scores = torch.zeros(passages, dtype=HALF)
    asked = torch.randint(0, 16_384, (passages, length))
    asked = pinned(asked) if version == "pinned_memory" else asked

    def rank() -> None:
        with torch.no_grad():
            scores.copy_(model(tokens).mean((1, 2)))

    replay = graphed(rank)

    def step() -> object:
        tokens.copy_(asked, non_blocking=version == "pinned_memory")
        replay()
        return scores if version == "remove_syncs" else scores.tolist()

    return step


def good_long_video(version: str) -> Step:
    """Two wide layers learn in bf16 from a video of 24,576 patches: it is almost all flash attention."""
    width, patches = n(1024, 32), n(24_576, 16)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Block(width) for _ in range(2))).to(torch.bfloat16)
        video, wanted = torch.randn(2, 1, patches, width, dtype=torch.bfloat16)

    def loss() -> Any:
        return mse_loss(model(video), wanted)

    step = train(model, torch.compile(loss, dynamic=False) if version == "compile" else loss, _adamw(model))
    return graphed(step) if version == "cuda_graph" else step


PROGRAMS = (
    Good(("keep_on_device", "larger_batch"), good_pictures_ahead, found=True),
    Good(("data_loader_workers", "copy_ahead"), good_loader, found=True),
    Good(("cuda_graph", "pad_shapes"), good_half_decoder, found=True),
    Good(("cuda_graph", "avoid_allocations"), good_wave_packets),
    Good(("remove_syncs", "pinned_memory"), good_graphed_ranker),
    Good(("compile", "cuda_graph"), good_long_video, found=True, early=("compile",)),
)
