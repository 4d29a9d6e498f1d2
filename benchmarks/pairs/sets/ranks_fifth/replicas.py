"""Programs under DDP: each rank has the whole model, and they add up their gradients."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, logsigmoid, silu

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train
from benchmarks.pairs.sets.ranks import RANK, parallel

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def encoder_layers(count: int, width: int) -> list[nn.Module]:
    """Layers of an encoder, on the device, for `batch, place, width`."""
    how: Any = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True, "device": DEVICE}
    return [nn.TransformerEncoderLayer(width, width // n(128, 16), 4 * width, **how) for _ in range(count)]


def proteins_of_four_lengths(fixed: bool) -> Step:
    """A wide encoder of proteins under DDP, a backward pass for each of four lengths, gradients reduced in all four."""
    width, letters = n(4096, 32), 33
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Embedding(letters, width), *encoder_layers(n(3, 1), width), nn.Linear(width, letters))
    ddp = parallel(model, gradient_as_bucket_view=True)
    shapes = ((8, n(64, 4)), (4, n(128, 8)), (2, n(256, 12)), (1, n(512, 16)))
    proteins = [torch.randint(0, letters, shape, device=DEVICE) for shape in shapes]
    optimizer = torch.optim.AdamW(ddp.parameters(), 1e-5, fused=True)

    def learn(protein: torch.Tensor) -> None:
        with autocast():
            loss = cross_entropy(ddp(protein).flatten(0, 1), protein.flatten())
        (loss / len(proteins)).backward()

    def step() -> None:
        for protein in proteins[:-1]:
            with ddp.no_sync() if fixed else contextlib.nullcontext():
                learn(protein)
        learn(proteins[-1])
        optimizer.step()
        optimizer.zero_grad()

    return step


class Messages(nn.Module):
    """Atoms hear from their neighbours, as far away as each is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.near, self.filter = nn.Linear(32, width), nn.Linear(width, width)
        self.sent, self.heard, self.out = (nn.Linear(width, width) for _ in range(3))

    def forward(self, atoms: torch.Tensor, pairs: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        weights = self.filter(silu(self.near(distances)))
        messages = self.sent(atoms).index_select(0, pairs[0]) * weights
        heard = torch.zeros_like(atoms).index_add(0, pairs[1], messages)
        return atoms + self.out(silu(self.heard(heard)))


class Molecules(nn.Module):
    """The energy of molecules."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.kinds, self.layers = nn.Embedding(100, width), nn.ModuleList(Messages(width) for _ in range(layers))
        self.energy = nn.Linear(width, 1)

    def forward(self, kinds: torch.Tensor, pairs: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        atoms = self.kinds(kinds)
        for layer in self.layers:
            atoms = layer(atoms, pairs, distances)
        energy: torch.Tensor = self.energy(atoms)
        return energy


def molecules_bucket_per_weight(fixed: bool) -> Step:
    """A deep network of molecules under DDP, its buckets so small that each weight has its own; the remedy is 25 MB."""
    atoms, near, width = n(1024, 16), 8, n(256, 16)
    with torch.device(DEVICE):
        model = Molecules(n(40, 2), width)
        kinds = torch.randint(0, 100, (atoms,))
        pairs = torch.stack((torch.randint(0, atoms, (atoms * near,)), torch.arange(atoms).repeat_interleave(near)))
        distances = torch.rand(atoms * near, 32)
    ddp = parallel(model, bucket_cap_mb=25 if fixed else 0.2)
    return train(ddp, lambda: ddp(kinds, pairs, distances).square().mean())


class Tower(nn.Module):
    """What a user saw lately, and films, as vectors: how well they fit."""

    def __init__(self, films: int, width: int) -> None:
        super().__init__()
        self.films = nn.EmbeddingBag(films, 64, mode="mean")
        self.user, self.film = (
            nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 64))
            for _ in range(2)
        )

    def forward(self, seen: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        films = self.film(self.films(shown.reshape(-1, 1)).view(*shown.shape, -1))
        return torch.einsum("uw,ufw->uf", self.user(self.films(seen)), films)


def films_unseen_drawn_in_numpy(fixed: bool) -> Step:
    """A network of films under DDP whose loop draws films that a user has not seen, user by user; or the GPU draws."""
    films, users, past, many = n(50_000, 5000), n(384, 8), 50, n(30, 4)
    ddp = parallel(Tower(films, n(1024, 16)).to(DEVICE))
    random = np.random.default_rng(RANK)
    histories = random.integers(0, films, (users, past))
    seen, liked = torch.from_numpy(histories).to(DEVICE), torch.from_numpy(histories[:, :1].copy()).to(DEVICE)

    def unseen(history: np.ndarray) -> np.ndarray:
        drawn = random.integers(0, films, 2 * many)
        return drawn[~np.isin(drawn, history)][:many]

    def drawn_on_device() -> torch.Tensor:
        first, other = torch.randint(0, films, (2, users, many), device=DEVICE)
        return torch.where((first[:, :, None] == seen[:, None]).any(-1), other, first)

    def loss() -> Any:
        if fixed:
            others = drawn_on_device()
        else:
            others = torch.from_numpy(np.stack([unseen(history) for history in histories])).to(DEVICE)
        fit = ddp(seen, torch.cat((liked, others), 1))
        return -(logsigmoid(fit[:, :1]) + logsigmoid(-fit[:, 1:]).mean(1, keepdim=True)).mean()

    return train(ddp, loss)


def _resampled(clips: np.ndarray, samples: int) -> np.ndarray:
    """Clips at another rate: their spectra cut off."""
    spectra = np.fft.rfft(clips)[:, : samples // 2 + 1]
    return (np.fft.irfft(spectra, samples) * (samples / clips.shape[1])).astype(np.float32)


def clips_resampled_on_one_rank(fixed: bool) -> Step:
    """Sounds are named under DDP; rank 1's files are at 44.1 kHz and resampled in every step, or were beforehand."""
    width, batch, samples, recorded = n(512, 64), n(8, 2), n(32_000, 800), n(88_200, 2205)
    layers = [nn.Linear(n(257, 17), width), *encoder_layers(n(4, 1), width), nn.Linear(width, 50)]
    ddp = parallel(nn.Sequential(*layers).to(DEVICE))
    files = np.random.default_rng(RANK).standard_normal((batch, samples if RANK == 0 else recorded)).astype(np.float32)
    files = _resampled(files, samples) if fixed and RANK == 1 else files
    kinds = torch.randint(0, 50, (batch,), device=DEVICE)
    frame = n(512, 32)
    window = torch.hann_window(frame, device=DEVICE)

    def loss() -> Any:
        clips = files if files.shape[1] == samples else _resampled(files, samples)
        sounds = torch.from_numpy(clips).to(DEVICE)
        spectra = torch.stft(sounds, frame, frame // 2, window=window, return_complex=True).abs().log1p()
        with autocast():
            return cross_entropy(ddp(spectra.transpose(1, 2)).mean(1), kinds)

    return train(ddp, loss)


PAIRS = (
    Pair("no_sync_accumulation", proteins_of_four_lengths, found=True, libraries=()),
    Pair("larger_buckets", molecules_bucket_per_weight, found=True, libraries=()),
    Pair("move_host_work", films_unseen_drawn_in_numpy, found=True, libraries=()),
    Pair("fix_straggler", clips_resampled_on_one_rank, found=True, libraries=()),
)
