"""Programs of images, each at a setting at which people ask what another would take."""

from importlib import import_module

import torch
import transformers
from torch import nn
from torch.nn import functional

from benchmarks.predict.others import SIDE, torchvision_model, trains_on_images
from benchmarks.predict.program import (
    DEVICE,
    Program,
    Setting,
    Step,
    classes,
    images,
    n,
    program,
    serve,
    train,
)

PROMPT = (n(77, 8), n(768, 32))
"""Words of a prompt and the size of each."""


@program(Setting(128), batch=(64, 256), precision=("tf32",))
def clip_train(setting: Setting) -> Step:
    """CLIP ViT-B/16 trains on pairs of images and texts."""
    words = n(49408, 500)
    text = {"vocab_size": words, "eos_token_id": words - 1, "num_hidden_layers": n(12, 2)}
    text |= {"hidden_size": n(512, 64), "intermediate_size": n(2048, 128)}
    vision = {"image_size": SIDE, "patch_size": 16, "num_hidden_layers": n(12, 2)}
    vision |= {"hidden_size": n(768, 96), "intermediate_size": n(3072, 128)}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision)
    model = transformers.CLIPModel(config).to(DEVICE)
    x = torch.randint(0, words, (setting.batch, 77), device=DEVICE)
    pixels = images(setting, SIDE)
    return train(
        model, lambda: model(input_ids=x, pixel_values=pixels, return_loss=True).loss, setting
    )


@program(Setting(64, 0, "tf32"), batch=(32, 256), precision=("bf16", "fp32"))
def regnet_train(setting: Setting) -> Step:
    """RegNetY-3.2GF trains."""
    return trains_on_images(torchvision_model("regnet_y_3_2gf"), setting)


@program(Setting(256, 0, "fp32"), batch=(64, 1024), precision=("tf32", "bf16"))
def mobilenet_serves(setting: Setting) -> Step:
    """MobileNetV3 answers."""
    model = torchvision_model("mobilenet_v3_large").eval().to(DEVICE)
    x = images(setting, SIDE)
    return serve(lambda: model(x), setting)


@program(Setting(8), batch=(4, 16), precision=("tf32",))
def segformer_train(setting: Setting) -> Step:
    """SegFormer-B2 learns what each of 512 x 512 pixels shows."""
    side = n(512, 64)
    config = transformers.SegformerConfig(
        depths=[n(3, 1), n(4, 1), n(6, 1), n(3, 1)],
        hidden_sizes=[n(64, 8), n(128, 16), n(320, 40), n(512, 64)],
        decoder_hidden_size=n(768, 32),
        num_labels=150,
    )
    model = transformers.SegformerForSemanticSegmentation(config).to(DEVICE)
    x = images(setting, side)
    y = torch.randint(0, 150, (setting.batch, side, side), device=DEVICE)
    return train(model, lambda: model(pixel_values=x, labels=y).loss, setting)


def _tower(size: int, made: int) -> nn.Sequential:
    """Four convolutions, and one to `made` channels."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(size, size, 3, 1, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(size, made, 3, 1, 1))


@program(Setting(4, 0, "tf32"), batch=(2, 8, 16), precision=("bf16",))
def detector_train(setting: Setting) -> Step:
    """A RetinaNet of ResNet-50 and its pyramid trains, on images of 800 x 800 without objects."""
    made = import_module("torchvision.models.detection.backbone_utils")
    backbone = made.resnet_fpn_backbone(backbone_name="resnet50", weights=None)
    anchors = 9
    towers = [_tower(256, anchors * 80), _tower(256, anchors * 4)]
    model = nn.ModuleList([backbone, *towers]).to(DEVICE)
    x = images(setting, n(800, 64))

    def loss() -> torch.Tensor:
        found = []
        for level in list(backbone(x).values())[1:]:
            scores, boxes = (tower(level).float() for tower in towers)
            nothing = torch.zeros_like(scores)
            missed = functional.binary_cross_entropy_with_logits(scores, nothing, reduction="none")
            found.append((missed * scores.sigmoid() ** 2).mean())
            found.append(functional.smooth_l1_loss(boxes, torch.zeros_like(boxes)))
        return torch.stack(found).sum()

    return train(model, loss, setting)


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int) -> torch.Tensor:
    """Attention of several heads, of and to shape (batch, length, size)."""
    split = [one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (q, k, v)]
    return functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)


def _waves(times: torch.Tensor, size: int) -> torch.Tensor:
    """Sines and cosines of time steps, shape (batch, size)."""
    rates = torch.exp(-9.2 * torch.arange(size // 2, device=times.device) / (size // 2))
    angles = times[:, None].float() * rates
    return torch.cat([angles.cos(), angles.sin()], 1)


class Guided(nn.Module):
    """A transformer block whose norms follow a condition."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(size, eps=1e-6, elementwise_affine=False)
        self.guide = nn.Sequential(nn.SiLU(), nn.Linear(size, 6 * size))
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.wide = nn.Linear(size, 4 * size)
        self.narrow = nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """The block, of pixels (batch, length, size) and a condition (batch, size)."""
        guides = self.guide(condition)[:, None].chunk(6, -1)
        moved = self.norm(x) * (1 + guides[0]) + guides[1]
        x = x + guides[2] * self.out(_attended(*self.qkv(moved).chunk(3, -1), self.heads))
        moved = self.norm(x) * (1 + guides[3]) + guides[4]
        wide = functional.gelu(self.wide(moved), approximate="tanh")
        return x + guides[5] * self.narrow(wide)


class Dit(nn.Module):
    """A diffusion transformer of latent images of 32 x 32."""

    def __init__(self, size: int, layers: int, heads: int) -> None:
        super().__init__()
        self.size = size
        self.enter = nn.Conv2d(4, size, 2, 2)
        self.places = nn.Parameter(torch.zeros(1, 256, size))
        self.time = nn.Sequential(nn.Linear(size, size), nn.SiLU(), nn.Linear(size, size))
        self.kinds = nn.Embedding(1001, size)
        self.blocks = nn.ModuleList([Guided(size, heads) for _ in range(layers)])
        self.leave = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 16))

    def forward(self, x: torch.Tensor, times: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """The noise, of the shape of `x`: (batch, 4, 32, 32)."""
        condition = self.time(_waves(times, self.size)) + self.kinds(kinds)
        pixels = self.enter(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            pixels = block(pixels, condition)
        made = self.leave(pixels).transpose(1, 2).unflatten(2, (16, 16))
        return functional.pixel_shuffle(made, 2)


@program(Setting(32), batch=(16, 64, 128), precision=("tf32",))
def dit_train(setting: Setting) -> Step:
    """DiT-L/2 learns noise."""
    model = Dit(n(1024, 64), n(24, 2), n(16, 4)).to(DEVICE)
    x = torch.randn(setting.batch, 4, 32, 32, device=DEVICE)
    noise = torch.randn_like(x)
    times = classes(setting, 1000)
    kinds = classes(setting, 1000)
    return train(
        model, lambda: functional.mse_loss(model(x + noise, times, kinds).float(), noise), setting
    )


def _normed(given: int, made: int) -> nn.Sequential:
    return nn.Sequential(nn.GroupNorm(32, given), nn.SiLU(), nn.Conv2d(given, made, 3, 1, 1))


class Residual(nn.Module):
    """A residual block that a time step shifts."""

    def __init__(self, given: int, made: int, time: int) -> None:
        super().__init__()
        self.first = _normed(given, made)
        self.time = nn.Linear(time, made)
        self.second = _normed(made, made)
        self.skip = nn.Identity() if given == made else nn.Conv2d(given, made, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The block."""
        hidden = self.first(x) + self.time(functional.silu(time))[..., None, None]
        return self.skip(x) + self.second(hidden)


class Reader(nn.Module):
    """A transformer block of pixels that look at each other and at a prompt."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.group = nn.GroupNorm(32, size)
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(3)])
        self.qkv = nn.Linear(size, 3 * size, bias=False)
        self.asks = nn.Linear(size, size, bias=False)
        self.told = nn.Linear(PROMPT[1], 2 * size, bias=False)
        self.outs = nn.ModuleList([nn.Linear(size, size) for _ in range(3)])
        self.wide = nn.Linear(size, 8 * size)
        self.narrow = nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        """The block, of shape (batch, size, height, width)."""
        pixels = self.group(x).flatten(2).transpose(1, 2)
        own = self.qkv(self.norms[0](pixels)).chunk(3, -1)
        pixels = pixels + self.outs[0](_attended(*own, 8))
        keys, values = self.told(prompt).chunk(2, -1)
        read = _attended(self.asks(self.norms[1](pixels)), keys, values, 8)
        pixels = pixels + self.outs[1](read)
        wide, gate = self.wide(self.norms[2](pixels)).chunk(2, -1)
        pixels = pixels + self.narrow(wide * functional.gelu(gate))
        return x + self.outs[2](pixels).transpose(1, 2).view_as(x)


class Stage(nn.Module):
    """A residual block, and a reader where `reads`."""

    def __init__(self, given: int, made: int, time: int, *, reads: bool) -> None:
        super().__init__()
        self.block = Residual(given, made, time)
        self.reader = Reader(made) if reads else None

    def forward(self, x: torch.Tensor, time: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        """The stage."""
        x = self.block(x, time)
        return x if self.reader is None else self.reader(x, prompt)


class Denoiser(nn.Module):
    """The U-Net of Stable Diffusion 1, but for details."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        time = 4 * size
        self.time = nn.Sequential(nn.Linear(size, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, size, 3, 1, 1)
        sizes = [size, 2 * size, 4 * size, 4 * size]
        kept = [size]
        self.down = nn.ModuleList()
        for level, made in enumerate(sizes):
            for _ in range(2):
                self.down.append(Stage(kept[-1], made, time, reads=level < 3))
                kept.append(made)
            if level < 3:
                self.down.append(nn.Conv2d(made, made, 3, 2, 1))
                kept.append(made)
        self.middle = Stage(kept[-1], kept[-1], time, reads=True)
        given = kept[-1]
        self.up = nn.ModuleList()
        for level, made in reversed(list(enumerate(sizes))):
            for _ in range(3):
                self.up.append(Stage(given + kept.pop(), made, time, reads=level < 3))
                given = made
            if level:
                self.up.append(nn.Conv2d(made, made, 3, 1, 1))
        self.leave = _normed(size, 4)

    def forward(self, x: torch.Tensor, times: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        """The noise, of the shape of `x`."""
        time = self.time(_waves(times, self.size))
        x = self.enter(x)
        kept = [x]
        for stage in self.down:
            x = stage(x, time, prompt) if isinstance(stage, Stage) else stage(x)
            kept.append(x)
        x = self.middle(x, time, prompt)
        for stage in self.up:
            if isinstance(stage, Stage):
                x = stage(torch.cat([x, kept.pop()], 1), time, prompt)
            else:
                x = stage(functional.interpolate(x, scale_factor=2.0))
        return self.leave(x)


@program(Setting(8, 0, "tf32"), batch=(2, 16, 32), precision=("bf16",))
def stable_diffusion_denoises(setting: Setting) -> Step:
    """The U-Net of Stable Diffusion takes noise from images of 512 x 512."""
    model = Denoiser(n(320, 32)).eval().to(DEVICE)
    side = n(64, 16)
    x = torch.randn(setting.batch, 4, side, side, device=DEVICE)
    times = classes(setting, 1000)
    prompt = torch.randn(setting.batch, *PROMPT, device=DEVICE)
    return serve(lambda: model(x, times, prompt), setting)


PROGRAMS: tuple[Program, ...] = (
    clip_train,
    regnet_train,
    mobilenet_serves,
    segformer_train,
    detector_train,
    dit_train,
    stable_diffusion_denoises,
)
