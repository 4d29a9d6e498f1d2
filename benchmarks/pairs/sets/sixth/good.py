"""Programs that are well written, and what sounds right for them and brings nothing."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from benchmarks.pairs.program import DEVICE, Good, graphed, n, train
from benchmarks.pairs.sets.sixth.services import HALF
from benchmarks.pairs.sets.sixth.training import Block

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def good_spectra_squeezed(version: str) -> Step:
    """A wide autoencoder in bf16 learns 65,536 spectra a step: products that fill the GPU, and a fused AdamW."""
    width, batch = n(4096, 32), n(65_536, 8) * (2 if version == "larger_batch" else 1)
    with torch.device(DEVICE):
        sizes = (width, width, width // 4, width, width)
        inner = [
            x for before, after in itertools.pairwise(sizes) for x in (nn.Linear(before, after), nn.ReLU(inplace=True))
        ]
        model = nn.Sequential(*inner[:-1]).bfloat16()
        spectra = torch.randn(batch, width, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")
    step = train(model, lambda: mse_loss(model(spectra), spectra), optimizer)
    return graphed(step) if version == "cuda_graph" else step


def good_kriging(version: str) -> Step:
    """A field is estimated between 8192 stations in fp64: distances, one factorisation, two solves, checked once."""
    torch.set_float32_matmul_precision("high" if version == "tf32" else "highest")
    stations, places = n(8192, 32), n(4096, 16)
    with torch.device(DEVICE):
        at, wanted = (torch.rand(size, 2, dtype=torch.float64) for size in (stations, places))
        values = torch.randn(stations, 1, dtype=torch.float64)

    def alike(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch.cdist(one, other).mul_(-8).exp_()

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        with torch.inference_mode():
            between = alike(at, at)
            between.diagonal().add_(0.01)
            if version == "remove_syncs":
                factor = torch.linalg.cholesky_ex(between).L
            else:
                factor = torch.linalg.cholesky(between)
            far = torch.linalg.solve_triangular(factor, alike(at, wanted), upper=False)
            near = torch.linalg.solve_triangular(factor, values, upper=False)
            return far.T @ near, 1.01 - far.square().sum(0)

    return step


def good_tokens_copied(version: str) -> Step:
    """A wide encoder learns in bf16 from 8192 tokens, sent each step from pinned memory without waiting."""
    width, words, shape = n(2560, 64), n(16_384, 64), (n(16, 2), n(512, 8))
    with torch.device(DEVICE):
        layers = [Block(width) for _ in range(n(4, 1))]
        model = nn.Sequential(nn.Embedding(words, width), *layers, nn.LayerNorm(width), nn.Linear(width, words))
        model = model.bfloat16()
    texts = [torch.randint(0, words, shape, pin_memory=DEVICE == "cuda") for _ in range(8)]
    texts = [text.to(DEVICE) for text in texts] if version == "keep_on_device" else texts
    turns = itertools.cycle(texts)
    side = torch.cuda.Stream() if version == "copy_ahead" and DEVICE == "cuda" else None
    under_way = [next(turns).to(DEVICE)]

    def ahead() -> torch.Tensor:
        if side is None:
            return next(turns).to(DEVICE, non_blocking=True)
        now = under_way.pop()
        torch.cuda.current_stream().wait_stream(side)
        now.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            under_way.append(next(turns).to(DEVICE, non_blocking=True))
        return now

    def loss() -> torch.Tensor:
        tokens = ahead()
        return cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    return train(model, loss)


def good_nearest_songs(version: str) -> Step:
    """The ten songs nearest to each of 2048 among two million vectors in half precision, by parts; read at once."""
    width, number, part, parts = n(256, 16), n(2048, 4), n(262_144, 64), n(8, 2)
    with torch.device(DEVICE):
        songs = torch.randn(parts, part, width, dtype=HALF)
        asked = torch.zeros(number, width, dtype=HALF)
        found = torch.zeros(number, 10, dtype=torch.long)
    heard = torch.randn(number, width, dtype=HALF)
    heard = heard.pin_memory() if version == "pinned_memory" and DEVICE == "cuda" else heard

    def search() -> None:
        with torch.no_grad():
            best = [(asked @ some.T).topk(10) for some in songs.unbind()]
            values = torch.cat([one.values for one in best], 1)
            places = torch.cat([one.indices + at * part for at, one in enumerate(best)], 1)
            found.copy_(places.gather(1, values.topk(10).indices))

    run = graphed(search) if version == "cuda_graph" else search

    def step() -> torch.Tensor:
        asked.copy_(heard, non_blocking=version == "pinned_memory")
        run()
        return found.cpu()

    return step


PROGRAMS = (
    Good(("cuda_graph", "larger_batch"), good_spectra_squeezed, found=True),
    Good(("tf32", "remove_syncs"), good_kriging),
    Good(("copy_ahead", "keep_on_device"), good_tokens_copied, found=True),
    Good(("pinned_memory", "cuda_graph"), good_nearest_songs),
)
