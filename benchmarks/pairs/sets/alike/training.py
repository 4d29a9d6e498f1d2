"""Models that are trained: their norms, products, activations, optimizers and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, mse_loss

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.pairs.program import Step


def encoder(layers: int, width: int) -> nn.Sequential:
    """Transformer layers, a norm first, made on the device."""
    heads = width // n(64, 16)
    with torch.device(DEVICE):
        made = [
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, gelu, batch_first=True, norm_first=True)
            for _ in range(layers)
        ]
    return nn.Sequential(*made)


class ChannelNorm(nn.Module):
    """A norm over the channels of a map, as the code of many a segmentation model has it; or PyTorch's."""

    def __init__(self, channels: int, *, whole: bool) -> None:
        super().__init__()
        self.weight, self.bias, self.whole = (
            nn.Parameter(torch.ones(channels)),
            nn.Parameter(torch.zeros(channels)),
            whole,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.whole:
            last = x.permute(0, 2, 3, 1)
            return layer_norm(last, self.weight.shape, self.weight, self.bias, 1e-6).permute(0, 3, 1, 2)
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Mixed(nn.Module):
    """A residual block that mixes the channels of each place."""

    def __init__(self, channels: int, *, whole: bool) -> None:
        super().__init__()
        self.norm = ChannelNorm(channels, whole=whole)
        self.up, self.down = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(gelu(self.up(self.norm(x))))


def masks_norm_over_channels(fixed: bool) -> Step:
    """Masks refined by eight blocks in bf16 whose norm over channels is written out; the remedy is PyTorch's norm."""
    channels, side = n(192, 8), n(96, 8)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Mixed(channels, whole=fixed) for _ in range(n(8, 2))))
        maps = torch.randn(n(32, 2), channels, side, side, dtype=torch.bfloat16)
    model.to(torch.bfloat16).to(memory_format=torch.channels_last)
    maps = maps.to(memory_format=torch.channels_last)
    return train(model, lambda: model(maps).square().mean())


class Orthogonal(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal by five rounds of Newton's and Schulz's method (Muon)."""

    def __init__(self, parameters: Iterable[torch.Tensor], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update every matrix."""
        for group in self.param_groups:
            for p in group["params"]:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                momentum = self.state[p]["momentum"].lerp_(p.grad, 0.05)
                x = momentum / (momentum.norm() + 1e-7)
                for _ in range(5):
                    product = x @ x.T
                    x = 3.4445 * x + (-4.775 * product + 2.0315 * product @ product) @ x
                p.add_(x, alpha=-group["lr"])


def orthogonal_updates_fp32(fixed: bool) -> Step:
    """Six wide layers in bf16 whose optimizer (Muon) makes its updates orthogonal in fp32; the remedy allows TF32."""
    width = n(2048, 16)
    with torch.device(DEVICE):
        model = nn.Sequential(*(x for _ in range(6) for x in (nn.Linear(width, width, bias=False), nn.SiLU())))
        rows = torch.randn(n(4096, 8), width)
    optimizer = Orthogonal(model.parameters(), 1e-4)

    def loss() -> Any:
        # both versions run in one process: the switch is the step's own
        torch.set_float32_matmul_precision("high" if fixed else "highest")
        with autocast():
            return model(rows).square().mean()

    return train(model, loss, optimizer)


def profiles_amsgrad(fixed: bool) -> Step:
    """An autoencoder of gene profiles, 16 layers of 4096, with AdamW with AMSGrad; the remedy is the fused one."""
    width = n(4096, 16)
    with torch.device(DEVICE):
        model = nn.Sequential(*(x for _ in range(n(16, 2)) for x in (nn.Linear(width, width), nn.ReLU())))
        profiles = torch.randn(n(512, 4), width)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, amsgrad=True, fused=fixed or None)

    def loss() -> Any:
        with autocast():
            return mse_loss(model(profiles), profiles)

    return train(model, loss, optimizer)


class OldAdam(torch.optim.Optimizer):
    """Adam without bias correction, as the first code for BERT had it: tensor by tensor."""

    def __init__(self, parameters: Iterable[torch.Tensor], lr: float, decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update every parameter."""
        for group in self.param_groups:
            for p in group["params"]:
                if not self.state[p]:
                    self.state[p] |= {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
                mean, square = self.state[p]["mean"], self.state[p]["square"]
                mean.mul_(0.9).add_(p.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                update = mean / (square.sqrt() + 1e-6)
                update += group["decay"] * p
                p.add_(-group["lr"] * update)


def notes_old_adam(fixed: bool) -> Step:
    """An encoder of clinical notes with BERT's first Adam, a loop over tensors; the remedy is the fused AdamW."""
    width, words = n(512, 32), n(16384, 64)
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Embedding(words, width), encoder(n(16, 2), width), nn.Linear(width, 128))
        notes = torch.randint(0, words, (n(16, 2), n(256, 8)))
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, 1e-5, fused=True) if fixed else OldAdam(parameters, 1e-5, 0.01)

    def loss() -> Any:
        with autocast():
            return model(notes).mean(1).square().mean()

    return train(model, loss, optimizer)


class Snake(nn.Module):
    """An activation that swings, as vocoders have it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (1.0 / (self.rate + 1e-9)) * torch.sin(self.rate * x).pow(2)


class Residual(nn.Module):
    """Two convolutions of a vocoder, the first with holes."""

    def __init__(self, channels: int, holes: int) -> None:
        super().__init__()
        self.before, self.between = Snake(channels), Snake(channels)
        self.first = nn.Conv1d(channels, channels, 3, padding=holes, dilation=holes)
        self.second = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.between(self.first(self.before(x))))


def vocoder_snakes_eager(fixed: bool) -> Step:
    """The last stage of a vocoder, trained in bf16, its activations written op by op; the remedy compiles it."""
    channels, frames = n(64, 8), n(2048, 16)
    with torch.device(DEVICE):
        blocks = [Residual(channels, holes) for holes in (1, 3, 5) * n(2, 1)]
        up = nn.ConvTranspose1d(2 * channels, channels, 8, 4, 2)
        model = nn.Sequential(up, *blocks, Snake(channels), nn.Conv1d(channels, 1, 7, padding=3), nn.Tanh())
        spectra = torch.randn(n(32, 2), 2 * channels, frames)
        sound = torch.randn(n(32, 2), 1, 4 * frames).tanh()
    called = torch.compile(model) if fixed else model

    def loss() -> Any:
        with autocast():
            return (called(spectra).float() - sound).abs().mean()

    return train(model, loss)


class Masked(nn.Module):
    """A masked autoencoder: a large encoder sees a quarter of the patches, a small decoder paints all."""

    def __init__(self, patch: int, places: int, width: int, narrow: int) -> None:
        super().__init__()
        self.seen, self.first, self.last = places // 4, nn.Linear(patch, width), nn.Linear(narrow, patch)
        self.encoder, self.decoder, self.between = (
            encoder(n(12, 2), width),
            encoder(4, narrow),
            nn.Linear(width, narrow),
        )
        self.places, self.hidden = nn.Parameter(torch.zeros(places, width)), nn.Parameter(torch.zeros(1, 1, narrow))

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        order = torch.rand(patches.shape[:2], device=patches.device).argsort(1)
        x = self.first(patches) + self.places
        x = self.between(self.encoder(x.gather(1, order[:, : self.seen, None].expand(-1, -1, x.shape[2]))))
        hidden = self.hidden.expand(len(x), patches.shape[1] - self.seen, -1)
        x = torch.cat((x, hidden.to(x.dtype)), 1)
        return self.last(self.decoder(x.gather(1, order.argsort(1)[..., None].expand(-1, -1, x.shape[2]))))


def masked_patches_four_pictures(fixed: bool) -> Step:
    """A masked autoencoder (12 and 4 layers) in bf16 on four pictures a step; with the remedy it takes 64."""
    patch, places = n(768, 12), n(196, 8)
    with torch.device(DEVICE):
        model = Masked(patch, places, n(384, 32), n(256, 16))
        pictures = torch.randn((16 if fixed else 1) * n(4, 1), places, patch)

    def loss() -> Any:
        with autocast():
            return mse_loss(model(pictures).float(), pictures)

    return train(model, loss)


PAIRS = (
    Pair("fuse_elementwise", masks_norm_over_channels, found=True, libraries=()),
    Pair("tf32", orthogonal_updates_fp32, found=True, libraries=()),
    Pair("fused_optimizer", profiles_amsgrad, found=True, libraries=()),
    Pair("fused_optimizer", notes_old_adam, found=True, libraries=()),
    Pair("compile", vocoder_snakes_eager, found=True, early=("fix",), libraries=()),
    Pair("larger_batch", masked_patches_four_pictures, found=True, as_much=16, libraries=()),
)
