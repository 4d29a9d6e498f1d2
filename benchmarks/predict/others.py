"""Programs of images, of tables and of graphs."""

from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional

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

SIDE = n(224, 64)
CLASSES = 1000


def timm_model(name: str, **how: Any) -> nn.Module:
    """A network of timm, not trained."""
    return import_module("timm").create_model(name, **how)


def torchvision_model(name: str) -> nn.Module:
    """A network of torchvision, not trained."""
    return getattr(import_module("torchvision").models, name)(weights=None)


def trains_on_images(model: nn.Module, setting: Setting) -> Step:
    """A step of a classifier of images."""
    model = model.to(DEVICE)
    x = images(setting, SIDE)
    y = classes(setting, CLASSES)
    return train(model, lambda: functional.cross_entropy(model(x), y), setting)


@program(Setting(32, 0, "tf32"), batch=(8, 64, 128), precision=("bf16", "fp32"))
def resnet_train(setting: Setting) -> Step:
    """ResNet-50 trains."""
    return trains_on_images(torchvision_model("resnet50"), setting)


@program(Setting(32), batch=(4, 128, 256), precision=("tf32",))
def vit_train(setting: Setting) -> Step:
    """ViT-S trains."""
    return trains_on_images(timm_model("vit_small_patch16_224", img_size=SIDE), setting)


@program(Setting(16), batch=(4, 64, 128))
def convnext_train(setting: Setting) -> Step:
    """ConvNeXt-T trains."""
    return trains_on_images(timm_model("convnext_tiny"), setting)


@program(Setting(16), batch=(4, 64), precision=("fp32",))
def swin_train(setting: Setting) -> Step:
    """Swin-T trains."""
    return trains_on_images(torchvision_model("swin_t"), setting)


@program(Setting(16), batch=(1, 64, 256))
def efficientnet_serves(setting: Setting) -> Step:
    """EfficientNet answers."""
    model = timm_model("efficientnet_b0").eval().to(DEVICE)
    x = images(setting, SIDE)
    return serve(lambda: model(x), setting)


@program(Setting(1024, 0, "fp32"), batch=(64, 4096, 16384), precision=("tf32", "bf16"))
def mlp_train(setting: Setting) -> Step:
    """A perceptron with norms trains."""
    size = n(2048, 64)
    layers = [nn.Sequential(nn.Linear(size, size), nn.LayerNorm(size), nn.SiLU()) for _ in range(6)]
    model = nn.Sequential(*layers, nn.Linear(size, 10)).to(DEVICE)
    x = torch.randn(setting.batch, size, device=DEVICE)
    y = classes(setting, 10)
    return train(model, lambda: functional.cross_entropy(model(x), y), setting)


class Block(nn.Module):
    """A residual block of a U-Net."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, given), nn.SiLU(), nn.Conv2d(given, made, 3, 1, 1)
        )
        self.second = nn.Sequential(
            nn.GroupNorm(8, made), nn.SiLU(), nn.Conv2d(made, made, 3, 1, 1)
        )
        self.skip = nn.Conv2d(given, made, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        return self.second(self.first(x)) + self.skip(x)


class Unet(nn.Module):
    """A U-Net with attention where it is narrowest."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, size, 3, 1, 1)
        self.down = nn.ModuleList([Block(size, size), Block(size, 2 * size)])
        self.mid = Block(2 * size, 2 * size)
        self.mixer = nn.MultiheadAttention(2 * size, 4, batch_first=True)
        self.up = nn.ModuleList([Block(4 * size, size), Block(2 * size, size)])
        self.leave = nn.Conv2d(size, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The noise."""
        x = self.enter(x)
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.mid(x)
        flat = x.flatten(2).transpose(1, 2)
        x = x + self.mixer(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(x)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, kept.pop()], 1))
        return self.leave(x)


@program(Setting(8), batch=(2, 32, 64), precision=("tf32",))
def diffusion_train(setting: Setting) -> Step:
    """A small U-Net learns noise."""
    model = Unet(n(96, 16)).to(DEVICE)
    x = images(setting, n(64, 16))
    noise = torch.randn_like(x)
    return train(model, lambda: functional.mse_loss(model(x + noise).float(), noise), setting)


@program(Setting(2048, 0, "fp32"), batch=(512, 8192, 32768))
def recommender_train(setting: Setting) -> Step:
    """Embeddings of features and a perceptron learn clicks."""
    size = n(64, 16)
    tables = nn.ModuleList([nn.Embedding(n(100000, 500), size) for _ in range(16)])
    head = nn.Sequential(nn.Linear(16 * size, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU())
    last = nn.Linear(256, 1)
    model = nn.ModuleList([tables, head, last]).to(DEVICE)
    shape = (16, setting.batch)
    features = torch.randint(0, n(100000, 500), shape, device=DEVICE)
    clicks = torch.rand(setting.batch, device=DEVICE)

    def loss() -> torch.Tensor:
        found = [table(features[i]) for i, table in enumerate(tables)]
        score = last(head(torch.cat(found, 1)))[:, 0]
        return functional.binary_cross_entropy_with_logits(score, clicks)

    return train(model, loss, setting, fused=False)


@program(Setting(64, 0, "fp32"), batch=(8, 256, 1024), precision=("tf32",))
def graphs_train(setting: Setting) -> Step:
    """Dense graphs of 64 nodes exchange messages."""
    size = n(256, 32)
    nodes = n(64, 8)
    layers = nn.ModuleList([nn.Linear(size, size) for _ in range(6)])
    model = nn.ModuleList([layers, nn.Linear(size, 10)]).to(DEVICE)
    x = torch.randn(setting.batch, nodes, size, device=DEVICE)
    edges = (torch.rand(setting.batch, nodes, nodes, device=DEVICE) < 0.1).float()
    y = classes(setting, 10)

    def loss() -> torch.Tensor:
        hidden = x
        for layer in layers:
            hidden = functional.relu(layer(torch.bmm(edges, hidden)) + hidden)
        return functional.cross_entropy(model[1](hidden.mean(1)), y)

    return train(model, loss, setting)


@program(Setting(64, 0, "tf32"), batch=(16, 256), precision=("bf16",))
def generator_train(setting: Setting) -> Step:
    """Transposed convolutions learn images."""
    size = n(64, 8)
    model = nn.Sequential(
        nn.ConvTranspose2d(100, size * 8, 4),
        nn.BatchNorm2d(size * 8),
        nn.ReLU(),
        nn.ConvTranspose2d(size * 8, size * 4, 4, 2, 1),
        nn.BatchNorm2d(size * 4),
        nn.ReLU(),
        nn.ConvTranspose2d(size * 4, size * 2, 4, 2, 1),
        nn.BatchNorm2d(size * 2),
        nn.ReLU(),
        nn.ConvTranspose2d(size * 2, 3, 4, 2, 1),
        nn.Tanh(),
    ).to(DEVICE)
    z = torch.randn(setting.batch, 100, 1, 1, device=DEVICE)
    x = images(setting, 32)
    return train(model, lambda: functional.mse_loss(model(z).float(), x), setting)


PROGRAMS: tuple[Program, ...] = (
    resnet_train,
    vit_train,
    convnext_train,
    swin_train,
    efficientnet_serves,
    mlp_train,
    diffusion_train,
    recommender_train,
    graphs_train,
    generator_train,
)
