"""Programs that see, with problems that users of detectors and image generators report."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, interpolate, silu

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Bottleneck(nn.Module):
    """A residual block that is narrow inside."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        middle = outputs // 4
        self.change = nn.Sequential(
            nn.Conv2d(inputs, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        short = (nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Identity() if inputs == outputs and stride == 1 else nn.Sequential(*short)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.change(x) + self.short(x)).relu_()


class Backbone(nn.Module):
    """A residual network; says what each of its stages but the first saw."""

    def __init__(self, depths: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        widths = (width, *(4 * width * 2**stage for stage in range(len(depths))))
        self.stages = nn.ModuleList(
            nn.Sequential(
                Bottleneck(a, b, 1 if number == 0 else 2), *(Bottleneck(b, b, 1) for _ in range(depths[number] - 1))
            )
            for number, (a, b) in enumerate(itertools.pairwise(widths))
        )
        self.widths = widths[2:]

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        seen = [self.stages[0](self.stem(x))]
        for stage in self.stages[1:]:
            seen.append(stage(seen[-1]))
        return seen[1:]


class Pyramid(nn.Module):
    """A detector of one stage: a backbone, a feature pyramid, and one head for all its levels."""

    def __init__(self, depths: tuple[int, ...], width: int, middle: int, outputs: int) -> None:
        super().__init__()
        self.backbone = Backbone(depths, width)
        self.across = nn.ModuleList(nn.Conv2d(one, middle, 1) for one in self.backbone.widths)
        layers = [x for _ in range(2) for x in (nn.Conv2d(middle, middle, 3, padding=1), nn.ReLU(inplace=True))]
        self.head = nn.Sequential(*layers, nn.Conv2d(middle, outputs, 3, padding=1))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        levels = [across(one) for across, one in zip(self.across, self.backbone(x), strict=True)]
        for small, large in itertools.pairwise(range(len(levels) - 1, -1, -1)):
            levels[large] = levels[large] + interpolate(levels[small], size=levels[large].shape[2:])
        return [self.head(level) for level in levels]


def pictures(many: int, side: int) -> torch.Tensor:
    """Of noise, channels last."""
    return torch.randn(many, 3, side, side, device=DEVICE).to(memory_format=torch.channels_last)


def detector_group_per_tensor(fixed: bool) -> Step:
    """A detector of one stage trained in bf16; its SGD has a group of its own for every tensor, to set its decay."""
    depths = (3, 4, 6, 3) if n(1, 0) else (1, 1)
    model = Pyramid(depths, n(32, 8), n(128, 16), 36).to(DEVICE, memory_format=torch.channels_last)
    x = pictures(n(4, 1), n(320, 64))
    groups: list[dict[str, Any]] = [
        {"params": [p], "weight_decay": 1e-4 if p.ndim > 1 else 0.0} for p in model.parameters()
    ]
    if fixed:
        groups = [
            {"params": [p for p in model.parameters() if (p.ndim > 1) == large], "weight_decay": 1e-4 * large}
            for large in (True, False)
        ]
    optimizer = torch.optim.SGD(groups, 1e-3, momentum=0.9, fused=True if fixed else None)

    def loss() -> Any:
        with autocast():
            return torch.stack([level.float().square().mean() for level in model(x)]).sum()

    return train(model, loss, optimizer)


def focal(said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The focal loss of logits."""
    chance = said.sigmoid()
    entropy = binary_cross_entropy_with_logits(said, wanted, reduction="none")
    right = chance * wanted + (1 - chance) * (1 - wanted)
    weight = 0.25 * wanted + 0.75 * (1 - wanted)
    return (weight * (1 - right) ** 2 * entropy).mean()


def focal_loss_by_hand(fixed: bool) -> Step:
    """A detector whose focal loss over 80 classes of 48,384 anchors is written out; the remedy compiles the loss."""
    kinds, anchors, batch, side = n(80, 4), n(9, 2), n(16, 1), n(512, 64)
    layers = [x for a, b in ((3, 64), (64, 128), (128, 128)) for x in (nn.Conv2d(a, b, 3, 2, 1), nn.ReLU())]
    tops = nn.ModuleList(nn.Conv2d(128, kinds * anchors, 3, stride, 1) for stride in (1, 2, 4))
    model = nn.ModuleList((nn.Sequential(*layers), tops)).to(DEVICE, memory_format=torch.channels_last)
    x = pictures(batch, side)
    places = sum((side // cut) ** 2 for cut in (8, 16, 32)) * anchors
    wanted = (torch.rand(batch, places, kinds, device=DEVICE) < 0.001).float()
    loss_of = torch.compile(focal) if fixed else focal

    def loss() -> Any:
        with autocast():
            seen = model[0](x)
            maps = [top(seen).permute(0, 2, 3, 1).reshape(batch, -1, kinds) for top in tops]
        return loss_of(torch.cat(maps, 1).float(), wanted)

    return train(model, loss)


class Grown(nn.Module):
    """A residual block of a decoder of pictures."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.one, self.two = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.short(x) + self.two(silu(self.second(self.one(silu(self.first(x))))))


def latents_decoded_upcast(fixed: bool) -> Step:
    """The decoder of a latent diffusion model draws four pictures of 512 pixels, upcast to fp32; the remedy is bf16."""
    widths = (n(512, 32), n(512, 32), n(256, 16), n(128, 8))
    parts: list[nn.Module] = [nn.Conv2d(4, widths[0], 3, padding=1), Grown(widths[0], widths[0])]
    for a, b in itertools.pairwise(widths):
        parts += [nn.Upsample(scale_factor=2), nn.Conv2d(a, a, 3, padding=1), Grown(a, b), Grown(b, b)]
    model = nn.Sequential(*parts, nn.GroupNorm(8, widths[-1]), nn.SiLU(), nn.Conv2d(widths[-1], 3, 3, padding=1))
    kind = torch.bfloat16 if fixed else torch.float32
    model = model.to(DEVICE, kind).eval()
    latents = torch.randn(n(4, 1), 4, n(64, 8), n(64, 8), device=DEVICE, dtype=torch.bfloat16)

    def step() -> Any:
        with torch.inference_mode():
            return (model(latents.to(kind)).float() / 2 + 0.5).clamp(0, 1)

    return step


def densenet_saving_memory(fixed: bool) -> Step:
    """torchvision's DenseNet-121 in bf16, its memory-saving switch on, which computes every layer's input again."""
    from torchvision.models import densenet121

    model = densenet121(weights=None, memory_efficient=not fixed, num_classes=200)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    x, y = pictures(n(80, 2), n(224, 64)), torch.randint(0, 200, (n(80, 2),), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(x), y)

    return train(model, loss)


def detections_read_one_by_one(fixed: bool) -> Step:
    """A detector's best 60 boxes in each of four pictures are walked through in Python, and read one by one."""
    kinds, best = 20, n(60, 5)
    depths = (2, 2, 2) if n(1, 0) else (1, 1)
    model = Pyramid(depths, n(32, 8), n(128, 16), 4 + kinds).to(DEVICE, memory_format=torch.channels_last).eval()
    x = pictures(4, n(384, 64))

    def step() -> list[dict[str, Any]]:
        with torch.inference_mode():
            with autocast():
                said = torch.cat([level.flatten(2) for level in model(x)], 2).transpose(1, 2).float()
            scores, labels = said[..., 4:].softmax(-1).max(-1)
            scores, places = scores.topk(best, 1)
            labels, boxes = labels.gather(1, places), said[..., :4].gather(1, places[..., None].expand(-1, -1, 4))
            results: list[dict[str, Any]] = []
            if fixed:
                for three in zip(scores.tolist(), labels.tolist(), boxes.tolist(), strict=True):
                    results += [
                        {"score": score, "label": label, "box": box}
                        for score, label, box in zip(*three, strict=True)
                        if score > 0.05
                    ]
                return results
            for picture in range(len(x)):
                for score, label, box in zip(scores[picture], labels[picture], boxes[picture], strict=True):
                    if score > 0.05:
                        results.append({"score": score.item(), "label": label.item(), "box": box.tolist()})
        return results

    return step


PAIRS = (
    Pair("fused_optimizer", detector_group_per_tensor, found=True, libraries=(), fixed_too=False),
    Pair("fuse_elementwise", focal_loss_by_hand, found=True, libraries=(), early=("fix",)),
    Pair("low_precision", latents_decoded_upcast, libraries=()),
    Pair("no_recompute", densenet_saving_memory, found=True, libraries=("torchvision",)),
    Pair("remove_syncs", detections_read_one_by_one, libraries=()),
)
