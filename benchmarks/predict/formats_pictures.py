"""Programs of images, volumes and videos, each asked what another number format would take."""

import torch
import transformers
from torch import nn
from torch.nn import functional

from benchmarks.predict.others import torchvision_model, trains_on_images
from benchmarks.predict.program import (
    DEVICE,
    Program,
    Setting,
    Step,
    classes,
    images,
    n,
    program,
    train,
)

ORGANS = 14
"""What a voxel may be."""


@program(Setting(48, 0, "tf32"), batch=(24, 64), precision=("bf16", "fp32"))
def efficientnet_v2_train(setting: Setting) -> Step:
    """EfficientNetV2-S trains."""
    return trains_on_images(torchvision_model("efficientnet_v2_s"), setting)


@program(Setting(32, 0, "tf32"), batch=(16, 48), precision=("bf16", "fp32"))
def swin_v2_train(setting: Setting) -> Step:
    """Swin-T of the second version trains."""
    return trains_on_images(torchvision_model("swin_v2_t"), setting)


def _twice(given: int, made: int) -> nn.Sequential:
    """Two convolutions with norms over the batch."""
    layers: list[nn.Module] = []
    for size in (given, made):
        layers += [nn.Conv2d(size, made, 3, 1, 1, bias=False)]
        layers += [nn.BatchNorm2d(made), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def _twice_3d(given: int, made: int) -> nn.Sequential:
    """Two convolutions with norms of each volume."""
    layers: list[nn.Module] = []
    for size in (given, made):
        layers += [nn.Conv3d(size, made, 3, 1, 1)]
        layers += [nn.InstanceNorm3d(made, affine=True), nn.LeakyReLU(0.01, inplace=True)]
    return nn.Sequential(*layers)


class Segmenter(nn.Module):
    """The U-Net of 2015, of images, or of volumes if `deep`."""

    def __init__(self, given: int, sizes: list[int], made: int, *, deep: bool) -> None:
        super().__init__()
        blocks = _twice_3d if deep else _twice
        rise = nn.ConvTranspose3d if deep else nn.ConvTranspose2d
        leave = nn.Conv3d if deep else nn.Conv2d
        self.pool = nn.MaxPool3d(2) if deep else nn.MaxPool2d(2)
        inputs = [given, *sizes[:-1]]
        self.down = nn.ModuleList([blocks(a, b) for a, b in zip(inputs, sizes, strict=True)])
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))[::-1]
        self.rise = nn.ModuleList([rise(low, high, 2, 2) for low, high in pairs])
        self.up = nn.ModuleList([blocks(2 * high, high) for _, high in pairs])
        self.leave = leave(sizes[0], made, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of each pixel or voxel."""
        kept = []
        for block in self.down[:-1]:
            x = block(x)
            kept.append(x)
            x = self.pool(x)
        x = self.down[-1](x)
        for rise, block in zip(self.rise, self.up, strict=True):
            x = block(torch.cat([kept.pop(), rise(x)], 1))
        return self.leave(x)


@program(Setting(4, 0, "fp32"), batch=(2, 8), precision=("tf32", "bf16"))
def cells_train(setting: Setting) -> Step:
    """The U-Net of 31 million parameters learns which of 384 x 384 pixels are cells."""
    side = n(384, 32)
    size = n(64, 4)
    sizes = [size, 2 * size, 4 * size, 8 * size, 16 * size]
    model = Segmenter(3, sizes, 2, deep=False).to(DEVICE)
    x = images(setting, side)
    y = torch.randint(0, 2, (setting.batch, side, side), device=DEVICE)
    return train(model, lambda: functional.cross_entropy(model(x), y), setting)


@program(Setting(2), batch=(1, 4), precision=("tf32", "fp32"))
def organs_train(setting: Setting) -> Step:
    """A U-Net of volumes of 96 x 96 x 96 learns organs, as nnU-Net does."""
    side = n(96, 32)
    size = n(32, 4)
    sizes = [size, 2 * size, 4 * size, 8 * size, 10 * size]
    model = Segmenter(1, sizes, ORGANS, deep=True).to(DEVICE)
    x = torch.randn(setting.batch, 1, side, side, side, device=DEVICE)
    y = torch.randint(0, ORGANS, (setting.batch, side, side, side), device=DEVICE)
    hot = functional.one_hot(y, ORGANS).movedim(-1, 1).float()

    def loss() -> torch.Tensor:
        scores = model(x)
        shares = scores.float().softmax(1)
        met = (shares * hot).sum((2, 3, 4))
        dice = 2 * met / (shares.sum((2, 3, 4)) + hot.sum((2, 3, 4)) + 1e-5)
        return functional.cross_entropy(scores, y) - dice.mean()

    return train(model, loss, setting)


def _normed(given: int, made: int) -> nn.Sequential:
    groups = min(32, given // 2)
    return nn.Sequential(nn.GroupNorm(groups, given), nn.SiLU(), nn.Conv2d(given, made, 3, 1, 1))


class Residual(nn.Module):
    """A residual block of an autoencoder."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.both = nn.Sequential(_normed(given, made), _normed(made, made))
        self.skip = nn.Identity() if given == made else nn.Conv2d(given, made, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        return self.skip(x) + self.both(x)


class Autoencoder(nn.Module):
    """Images to a mean and a spread of four channels, a fourth as wide and high, and back."""

    def __init__(self, size: int) -> None:
        super().__init__()
        first, second, third = size, 2 * size, 4 * size
        self.encoder = nn.Sequential(
            nn.Conv2d(3, first, 3, 1, 1),
            Residual(first, first),
            nn.Conv2d(first, first, 3, 2, 1),
            Residual(first, second),
            nn.Conv2d(second, second, 3, 2, 1),
            Residual(second, third),
            Residual(third, third),
            _normed(third, 8),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(4, third, 3, 1, 1),
            Residual(third, third),
            Residual(third, third),
            nn.Upsample(scale_factor=2.0),
            nn.Conv2d(third, third, 3, 1, 1),
            Residual(third, second),
            Residual(second, second),
            nn.Upsample(scale_factor=2.0),
            nn.Conv2d(second, second, 3, 1, 1),
            Residual(second, first),
            Residual(first, first),
            _normed(first, 3),
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The image again, and how far the codes are from a normal distribution."""
        mean, spread = self.encoder(x).float().chunk(2, 1)
        spread = spread.clamp(-30.0, 20.0)
        code = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        far = 0.5 * (mean.square() + spread.exp() - 1 - spread).mean()
        return self.decoder(code), far


@program(Setting(8, 0, "tf32"), batch=(4, 12), precision=("bf16", "fp32"))
def autoencoder_train(setting: Setting) -> Step:
    """A variational autoencoder of 256 x 256 pixels trains."""
    model = Autoencoder(n(64, 8)).to(DEVICE)
    x = images(setting, n(256, 32))

    def loss() -> torch.Tensor:
        made, far = model(x)
        return functional.l1_loss(made.float(), x) + 1e-6 * far

    return train(model, loss, setting)


@program(Setting(8), batch=(4, 12), precision=("tf32", "fp32"))
def videos_train(setting: Setting) -> Step:
    """VideoMAE base learns what is done in videos of 16 images."""
    side = n(224, 32)
    count = n(16, 4)
    config = transformers.VideoMAEConfig(
        image_size=side,
        num_frames=count,
        hidden_size=n(768, 64),
        num_hidden_layers=n(12, 2),
        num_attention_heads=n(12, 4),
        intermediate_size=n(3072, 128),
        num_labels=400,
    )
    model = transformers.VideoMAEForVideoClassification(config).to(DEVICE).train()
    x = torch.randn(setting.batch, count, 3, side, side, device=DEVICE)
    y = classes(setting, 400)
    return train(model, lambda: model(pixel_values=x, labels=y).loss, setting)


PROGRAMS: tuple[Program, ...] = (
    efficientnet_v2_train,
    swin_v2_train,
    cells_train,
    organs_train,
    autoencoder_train,
    videos_train,
)
