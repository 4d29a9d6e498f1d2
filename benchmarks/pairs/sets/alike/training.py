"""Models that are trained: their norms, products, activations, optimizers and batches."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair, train


def encoder(layers, width):  # Transformer layers, a norm first, made on the device
    heads = width // n(64, 16)
    with torch.device(DEVICE):
        made = [
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        ]
    return nn.Sequential(*made)


# A norm over the channels of a map, as the code of many a segmentation model has it; or PyTorch's
class ChannelNorm(Module):
    def __init__(self, channels, *, whole):
        self.weight, self.bias, self.whole = (
            nn.Parameter(torch.ones(channels)),
            nn.Parameter(torch.zeros(channels)),
            whole,
        )

    def forward(self, x):
        if self.whole:
            last = x.permute(0, 2, 3, 1)
            return F.layer_norm(last, self.weight.shape, self.weight, self.bias, 1e-6).permute(
                0, 3, 1, 2
            )
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Mixed(Module):  # A residual block that mixes the channels of each place
    def __init__(self, channels, *, whole):
        self.norm = ChannelNorm(channels, whole=whole)
        self.up, self.down = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


@pair("fuse_elementwise", found=True)
def masks_norm_over_channels(fixed):
    """Masks refined by eight blocks in bf16 whose norm over channels is written out; the remedy is
    PyTorch's norm."""
    channels = n(192, 8)
    side = n(96, 8)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Mixed(channels, whole=fixed) for _ in range(n(8, 2))))
        maps = torch.randn(n(32, 2), channels, side, side, dtype=torch.bfloat16)
    model.to(torch.bfloat16).to(memory_format=torch.channels_last)
    maps = maps.to(memory_format=torch.channels_last)
    return train(model, lambda: model(maps).square().mean())


# Momentum whose matrices are made orthogonal by five rounds of Newton's and Schulz's method (Muon)
class Orthogonal(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):  # Update every matrix
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


@pair("tf32", found=True)
def orthogonal_updates_fp32(fixed):
    """Six wide layers in bf16 whose optimizer (Muon) makes its updates orthogonal in fp32; the
    remedy allows TF32."""
    width = n(2048, 16)
    with torch.device(DEVICE):
        model = nn.Sequential(
            *(x for _ in range(6) for x in (nn.Linear(width, width, bias=False), nn.SiLU()))
        )
        rows = torch.randn(n(4096, 8), width)

    def loss():
        # both versions run in one process: the switch is the step's own
        torch.set_float32_matmul_precision("high" if fixed else "highest")
        with autocast():
            return model(rows).square().mean()

    return train(Orthogonal(model.parameters(), 0.0001), loss)


@pair("fused_optimizer", found=True)
def profiles_amsgrad(fixed):
    """An autoencoder of gene profiles, 16 layers of 4096, with AdamW with AMSGrad; the remedy is
    the fused one."""
    width = n(4096, 16)
    with torch.device(DEVICE):
        model = nn.Sequential(
            *(x for _ in range(n(16, 2)) for x in (nn.Linear(width, width), nn.ReLU()))
        )
        profiles = torch.randn(n(512, 4), width)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, amsgrad=True, fused=fixed or None)
    return train(optimizer, lambda: F.mse_loss(model(profiles), profiles), cast=True)


# Adam without bias correction, as the first code for BERT had it: tensor by tensor
class OldAdam(torch.optim.Optimizer):
    def __init__(self, parameters, lr, decay):
        super().__init__(parameters, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):  # Update every parameter
        for group in self.param_groups:
            for p in group["params"]:
                if not self.state[p]:
                    self.state[p] |= {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
                mean = self.state[p]["mean"]
                square = self.state[p]["square"]
                mean.mul_(0.9).add_(p.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                update = mean / (square.sqrt() + 1e-6)
                update += group["decay"] * p
                p.add_(-group["lr"] * update)


@pair("fused_optimizer", found=True)
def notes_old_adam(fixed):
    """An encoder of clinical notes with BERT's first Adam, a loop over tensors; the remedy is the
    fused AdamW."""
    width = n(512, 32)
    words = n(16_384, 64)
    with torch.device(DEVICE):
        model = nn.Sequential(
            nn.Embedding(words, width), encoder(n(16, 2), width), nn.Linear(width, 128)
        )
        notes = torch.randint(0, words, (n(16, 2), n(256, 8)))
    parameters = list(model.parameters())
    optimizer = (
        torch.optim.AdamW(parameters, 1e-5, fused=True)
        if fixed
        else OldAdam(parameters, 1e-5, 0.01)
    )
    return train(optimizer, lambda: model(notes).mean(1).square().mean(), cast=True)


class Snake(Module):  # An activation that swings, as vocoders have it
    def __init__(self, channels):
        self.rate = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x):
        return x + 1.0 / (self.rate + 1e-9) * torch.sin(self.rate * x).pow(2)


class Residual(Module):  # Two convolutions of a vocoder, the first with holes
    def __init__(self, channels, holes):
        self.before, self.between = Snake(channels), Snake(channels)
        self.first = nn.Conv1d(channels, channels, 3, padding=holes, dilation=holes)
        self.second = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.second(self.between(self.first(self.before(x))))


@pair("compile", found=True, early=("fix",))
def vocoder_snakes_eager(fixed):
    """The last stage of a vocoder, trained in bf16, its activations written op by op; the remedy
    compiles it."""
    channels = n(64, 8)
    frames = n(2048, 16)
    with torch.device(DEVICE):
        blocks = [Residual(channels, holes) for holes in (1, 3, 5) * n(2, 1)]
        up = nn.ConvTranspose1d(2 * channels, channels, 8, 4, 2)
        model = nn.Sequential(
            up, *blocks, Snake(channels), nn.Conv1d(channels, 1, 7, padding=3), nn.Tanh()
        )
        spectra = torch.randn(n(32, 2), 2 * channels, frames)
        sound = torch.randn(n(32, 2), 1, 4 * frames).tanh()
    called = torch.compile(model) if fixed else model
    return train(model, lambda: (called(spectra).float() - sound).abs().mean(), cast=True)


# A masked autoencoder: a large encoder sees a quarter of the patches, a small decoder paints all
class Masked(Module):
    def __init__(self, patch, places, width, narrow):
        self.seen, self.first, self.last = (
            places // 4,
            nn.Linear(patch, width),
            nn.Linear(narrow, patch),
        )
        self.encoder, self.decoder, self.between = (
            encoder(n(12, 2), width),
            encoder(4, narrow),
            nn.Linear(width, narrow),
        )
        self.places, self.hidden = (
            nn.Parameter(torch.zeros(places, width)),
            nn.Parameter(torch.zeros(1, 1, narrow)),
        )

    def forward(self, patches):
        order = torch.rand(patches.shape[:2], device=patches.device).argsort(1)
        x = self.first(patches) + self.places
        x = self.between(
            self.encoder(x.gather(1, order[:, : self.seen, None].expand(-1, -1, x.shape[2])))
        )
        x = torch.cat(
            (x, self.hidden.expand(len(x), patches.shape[1] - self.seen, -1).to(x.dtype)), 1
        )
        return self.last(
            self.decoder(x.gather(1, order.argsort(1)[..., None].expand(-1, -1, x.shape[2])))
        )


@pair("larger_batch", found=True, as_much=16)
def masked_patches_four_pictures(fixed):
    """A masked autoencoder (12 and 4 layers) in bf16 on four pictures a step; with the remedy it
    takes 64."""
    patch = n(768, 12)
    places = n(196, 8)
    with torch.device(DEVICE):
        model = Masked(patch, places, n(384, 32), n(256, 16))
        pictures = torch.randn((16 if fixed else 1) * n(4, 1), places, patch)
    return train(model, lambda: F.mse_loss(model(pictures).float(), pictures), cast=True)
