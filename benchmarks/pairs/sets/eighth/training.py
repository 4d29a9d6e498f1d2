"""Models that are trained as their authors would, each with one thing that costs more than it
must."""

import copy
import math
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair


# A step with clipped gradients, a rate that rises and falls, and a log that is read now and then
def fit(model, loss_of, after=None):
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, 2e-5, weight_decay=0.05, fused=True)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min((at + 1) / 50, 1.0) * 0.9999**at
    )
    running = torch.zeros((), device=DEVICE)
    log = []

    def step():
        loss = loss_of()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rate.step()
        if after:
            after()
        running.lerp_(loss.detach().float(), 0.02)
        if rate.last_epoch % 200 == 0:
            log.append(running.item())

    return step


def _heads(x):  # Query, key and value, head by head
    return list(x.unflatten(-1, (3, -1, n(64, 8))).permute(2, 0, 3, 1, 4).unbind())


class Modulated(
    Module
):  # A layer of a diffusion transformer: what is known of a picture scales and shifts its norms
    def __init__(self, width):
        self.about = nn.Linear(width, 6 * width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 6 * width, bias=False), nn.Linear(3 * width, width)

    def forward(self, x, known):
        scale, shift, gate, scale2, shift2, gate2 = self.about(F.silu(known))[:, None].chunk(6, -1)
        q, k, v = _heads(self.qkv(F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift))
        seen = F.scaled_dot_product_attention(
            F.normalize(q, dim=-1) * 4, F.normalize(k, dim=-1) * 4, v
        )
        x = x + gate * self.out(seen.transpose(1, 2).flatten(2))
        left, right = self.up(F.layer_norm(x, x.shape[-1:]) * (1 + scale2) + shift2).chunk(2, -1)
        return x + gate2 * self.down(F.silu(left) * right)


class Denoiser(Module):  # Tells from a noisy picture in which direction the clean one is
    def __init__(self, width, layers, side):
        self.patches = nn.Conv2d(4, width, 2, 2)
        self.places = nn.Parameter(torch.randn((side // 2) ** 2, width) * 0.02)
        self.kinds, self.time = (
            nn.Embedding(100, width),
            nn.Sequential(nn.Linear(64, width), nn.SiLU()),
        )
        self.layers = nn.ModuleList(Modulated(width) for _ in range(layers))
        self.last = nn.ConvTranspose2d(width, 4, 2, 2)

    def forward(self, noisy, time, kind):
        waves = (
            time[:, None]
            * torch.exp(torch.arange(32, device=time.device) * (-math.log(1000) / 32))
            * 1000
        )
        known = self.time(torch.cat((waves.cos(), waves.sin()), -1)) + self.kinds(kind)
        maps = self.patches(noisy)
        x = maps.flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x, known)
        return self.last(x.transpose(1, 2).unflatten(2, maps.shape[2:]))


@pair("compile", found=True, early=("fix",))
def pictures_denoised_eagerly(fixed):
    """A diffusion transformer learns to clean 96 pictures in bf16, an average of it kept; the
    remedy compiles it."""
    batch = n(96, 2)
    side = n(32, 8)
    with torch.device(DEVICE):
        model = Denoiser(n(512, 16), n(6, 1), side)
        clean = torch.randn(batch, 4, side, side)
        kinds = torch.randint(0, 100, (batch,))
    weights = list(model.parameters())
    averages = [one.detach().clone() for one in weights]
    called = torch.compile(model, dynamic=False) if fixed else model

    def loss():
        noise = torch.randn_like(clean)
        time = torch.randn(batch, device=DEVICE).sigmoid()
        noisy = torch.lerp(clean, noise, time[:, None, None, None])
        with autocast():
            told = called(noisy, time, kinds)
        return F.mse_loss(told.float(), noise - clean)

    def average():
        with torch.no_grad():
            torch._foreach_lerp_(averages, weights, 0.001)

    return fit(model, loss, average)


@pair("low_precision", found=True, libraries=("transformers.models.whisper.modeling_whisper",))
def dictation_tuned_fp32(fixed):
    """transformers' Whisper is tuned on 24 dictations in fp32, TF32 allowed; the remedy is autocast
    to bf16."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.set_float32_matmul_precision("high")
    width = n(512, 16)
    words = n(8192, 64)
    frames = n(750, 20)
    heads = n(8, 2)
    config = WhisperConfig(
        vocab_size=words,
        d_model=width,
        encoder_layers=n(6, 1),
        decoder_layers=n(2, 1),
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        dropout=0.1,
        max_source_positions=frames,
        max_target_positions=n(128, 16),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    with torch.device(DEVICE):
        model = WhisperForConditionalGeneration(config).train()
        heard = torch.randn(n(24, 2), config.num_mel_bins, 2 * frames)
        said = torch.randint(3, words, (n(24, 2), n(96, 8)))
    precision = autocast if fixed else nullcontext

    def loss():
        with precision():
            return model(input_features=heard, labels=said).loss

    return fit(model, loss)


def _norm_by_hand(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def _gelu_by_hand(x):
    return (
        0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    )


class Bar(Module):  # A layer of a transformer, as in GPT-2
    def __init__(self, width, *, fused=True, causal=True, dropped=0.1):
        self.fused, self.causal, self.drop = fused, causal, nn.Dropout(dropped)
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(2))
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def _norm(self, x, number):
        weight = self.scales[number]
        bias = self.shifts[number]
        return (
            F.layer_norm(x, x.shape[-1:], weight, bias)
            if self.fused
            else _norm_by_hand(x, weight, bias)
        )

    def forward(self, x):
        seen = F.scaled_dot_product_attention(
            *_heads(self.qkv(self._norm(x, 0))), is_causal=self.causal
        )
        x = x + self.drop(self.out(seen.transpose(1, 2).flatten(2)))
        inner = self.up(self._norm(x, 1))
        return x + self.drop(
            self.down(F.gelu(inner, approximate="tanh") if self.fused else _gelu_by_hand(inner))
        )


@pair("fuse_elementwise", found=True)
def notes_norms_by_hand(fixed):
    """A model of music reads 24 pieces, its norms and activations written out; the remedy calls
    PyTorch's own."""
    width = n(768, 16)
    length = n(1024, 16)
    batch = n(24, 2)
    with torch.device(DEVICE):
        pitch = nn.Embedding(130, width)
        lasting = nn.Embedding(64, width)
        bars = nn.Sequential(*(Bar(width, fused=fixed) for _ in range(n(6, 1))))
        told = nn.ModuleList((nn.Linear(width, 130), nn.Linear(width, 64)))
        pitches, times = (torch.randint(0, most, (batch, length + 1)) for most in (130, 64))

    def loss():
        with autocast():
            x = bars(pitch(pitches[:, :-1]) + lasting(times[:, :-1]))
            parts = zip(told, (pitches, times), (1.0, 0.5), strict=True)
            return sum(
                (
                    share * F.cross_entropy(head(x).flatten(0, 1), of[:, 1:].flatten())
                    for head, of, share in parts
                )
            )

    return fit(nn.ModuleList((pitch, lasting, bars, told)), loss)


class Glance(
    Module
):  # A small vision transformer for pictures of any size, and the head of one that teaches itself
    def __init__(self, width, layers, grid, kinds):
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.places = nn.Parameter(torch.randn(1, width, grid, grid) * 0.02)
        self.layers = nn.Sequential(*(Bar(width, causal=False, dropped=0.0) for _ in range(layers)))
        self.head = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 256)
        )
        self.kinds = nn.Linear(256, kinds, bias=False)

    def forward(self, pictures):
        x = self.patches(pictures)
        x = x + F.interpolate(self.places, size=x.shape[2:], mode="bilinear")
        return self.kinds(
            F.normalize(self.head(self.layers(x.flatten(2).transpose(1, 2)).mean(1)), dim=-1)
        )


@pair("batch_calls", found=True)
def glances_crop_by_crop(fixed):
    """A vision transformer teaches itself from two large and four small crops, one by one; the
    remedy joins them."""
    torch.set_float32_matmul_precision("high")
    batch = n(32, 2)
    kinds = n(2048, 16)
    side = n(96, 16)
    with torch.device(DEVICE):
        student = Glance(n(512, 16), n(2, 1), side // 8, kinds)
        center = torch.zeros(kinds)
        large = [torch.randn(batch, 3, side, side) for _ in range(2)]
        small = [torch.randn(batch, 3, side // 2, side // 2) for _ in range(4)]
    teacher = copy.deepcopy(student).requires_grad_(False)
    learnt = list(student.parameters())
    taught = list(teacher.parameters())

    def told(model, crops):
        return (
            list(model(torch.cat(crops)).chunk(len(crops)))
            if fixed
            else [model(crop) for crop in crops]
        )

    def loss():
        with torch.no_grad():
            wanted = torch.stack(told(teacher, large))
        found = torch.stack(told(student, large) + told(student, small))
        targets = ((wanted - center) / 0.04).softmax(-1)
        center.lerp_(wanted.mean((0, 1)), 0.1)
        apart = -torch.einsum("abk,cbk->ac", targets, F.log_softmax(found / 0.1, -1)) / batch
        return (apart.sum() - apart.diagonal().sum()) / (apart.numel() - len(wanted))

    def average():
        with torch.no_grad():
            torch._foreach_lerp_(taught, learnt, 0.004)

    return fit(student, loss, average)
