"""Pictures as found in a company's daily work: each with one mistake, and without it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, softplus

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pairs.program import Step


def _convolved(before: int, after: int, stride: int = 1) -> nn.Sequential:
    with torch.device(DEVICE):
        return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class Segments(nn.Module):
    """A U-Net of three sizes that tells each pixel's kind."""

    def __init__(self, width: int, kinds: int) -> None:
        super().__init__()
        self.a = nn.Sequential(_convolved(3, width), _convolved(width, width))
        self.b = nn.Sequential(_convolved(width, 2 * width, 2), _convolved(2 * width, 2 * width))
        self.c = nn.Sequential(_convolved(2 * width, 4 * width, 2), _convolved(4 * width, 4 * width))
        with torch.device(DEVICE):
            self.up_b = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
            self.up_a = nn.ConvTranspose2d(2 * width, width, 2, 2)
            self.out = nn.Conv2d(width, kinds, 1)
        self.joined_b, self.joined_a = _convolved(4 * width, 2 * width), _convolved(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(a)
        b = self.joined_b(torch.cat([b, self.up_b(self.c(b))], 1))
        return self.out(self.joined_a(torch.cat([a, self.up_a(b)], 1)))


def _pictures(number: int, size: int) -> torch.Tensor:
    return torch.randn(number, 3, size, size, device=DEVICE)


def segmentation_default_layout(fixed: bool) -> Step:
    """Streets segmented by a U-Net in bf16, channels first; the remedy is channels_last."""
    layout = torch.channels_last if fixed else torch.contiguous_format
    model = Segments(n(64, 8), 19).to(memory_format=layout)
    pictures = _pictures(n(16, 2), n(256, 16)).contiguous(memory_format=layout)
    kinds = torch.randint(0, 19, (n(16, 2), n(256, 16), n(256, 16)), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(pictures), kinds)

    return train(model, loss)


def evaluation_empties_cache(fixed: bool) -> Step:
    """Segmentation evaluated on large pictures, the memory cache emptied after each batch; the remedy keeps it."""
    model = Segments(n(48, 8), 19).to(memory_format=torch.channels_last).eval()
    pictures = _pictures(n(8, 2), n(512, 16)).contiguous(memory_format=torch.channels_last)
    kinds = torch.randint(0, 19, (n(8, 2), n(512, 16), n(512, 16)), device=DEVICE)
    right = torch.zeros((), device=DEVICE)

    def step() -> None:
        with torch.inference_mode(), autocast():
            right.add_((model(pictures).argmax(1) == kinds).float().mean())
        if not fixed:
            torch.cuda.empty_cache()

    return step


class Detector(nn.Module):
    """A backbone of residual blocks; each cell of its last map tells kinds and a box."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolved(3, width, 2), _convolved(width, width, 2), _convolved(width, width, 2))
        self.blocks = nn.ModuleList(
            nn.Sequential(_convolved(width, width // 2), _convolved(width // 2, width)) for _ in range(blocks)
        )
        with torch.device(DEVICE):
            self.head = nn.Conv2d(width, 84, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def detector_clipped_by_hand(fixed: bool) -> Step:
    """A detector whose gradient norms are read one by one to clip them; the remedy clips without reading."""
    model = Detector(n(128, 16), n(24, 2)).to(memory_format=torch.channels_last)
    pictures = _pictures(n(16, 2), n(320, 16)).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = torch.rand_like(model(pictures))
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, 1e-4, 0.9, fused=True)

    def clip() -> None:
        if fixed:
            nn.utils.clip_grad_norm_(parameters, 0.01)
            return
        norm = sum(p.grad.norm().item() ** 2 for p in parameters) ** 0.5
        if norm > 0.01:
            for p in parameters:
                p.grad.mul_(0.01 / norm)

    def step() -> None:
        with autocast():
            told = model(pictures)
        (binary_cross_entropy_with_logits(told[:, :80].float(), wanted[:, :80])
         + (told[:, 80:].float() - wanted[:, 80:]).abs().mean()).backward()  # fmt: skip
        clip()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Augmented(torch.utils.data.Dataset[Any]):
    """Pictures cropped, mirrored, recoloured and normalized with NumPy, one at a time."""

    def __init__(self) -> None:
        self.side, self.random = n(192, 16), np.random.default_rng(0)
        self.pictures = self.random.integers(0, 256, (64, self.side + 32, self.side + 32, 3), np.uint8)

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        top, left = self.random.integers(0, 32, 2)
        x = self.pictures[number % 64, top : top + self.side, left : left + self.side].astype(np.float32) / 255
        x = x[:, ::-1] if number % 2 else x
        grey = x.mean(2, keepdims=True)
        x = np.clip(grey + (x - grey) * self.random.uniform(0.6, 1.4), 0, 1) ** self.random.uniform(0.8, 1.2)
        x = (x - x.mean((0, 1))) / (x.std((0, 1)) + 1e-3)
        return torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1), np.float32)), number % 100


def augmented_in_the_loop(fixed: bool) -> Step:
    """Pictures augmented with NumPy by a DataLoader without workers; the remedy is eight, and pinned memory."""
    model = nn.Sequential(
        Detector(n(96, 16), n(8, 1)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(84, 100, device=DEVICE)
    ).to(memory_format=torch.channels_last)
    how: dict[str, Any] = {"num_workers": n(8, 1), "pin_memory": DEVICE == "cuda", "persistent_workers": True}
    batches = iter(torch.utils.data.DataLoader(Augmented(), n(48, 2), **(how if fixed else {})))

    def loss() -> Any:
        pictures, kinds = (x.to(DEVICE, non_blocking=True) for x in next(batches))
        with autocast():
            return cross_entropy(model(pictures.contiguous(memory_format=torch.channels_last)), kinds)

    return train(model, loss)


def _copies(batches: list[torch.Tensor], ahead: bool) -> Callable[[], torch.Tensor]:
    """The next batch on the device; with `ahead` the one after it is already under way on a stream of its own."""
    turn = itertools.cycle(batches)
    if not ahead or DEVICE != "cuda":
        return lambda: next(turn).to(DEVICE, non_blocking=True)
    side = torch.cuda.Stream()

    def begin() -> torch.Tensor:
        with torch.cuda.stream(side):
            return next(turn).to(DEVICE, non_blocking=True)

    coming = [begin()]

    def take() -> torch.Tensor:
        torch.cuda.current_stream().wait_stream(side)
        ready = coming.pop()
        ready.record_stream(torch.cuda.current_stream())
        coming.append(begin())
        return ready

    return take


def gan_pictures_copied_in_line(fixed: bool) -> Step:
    """A GAN whose pictures are copied where they are needed; the remedy copies the next batch meanwhile."""
    width, side, many = n(24, 4), n(192, 16), n(256, 2)
    sizes = [width, 2 * width, 4 * width, 8 * width]
    critic = nn.Sequential(*(_convolved(a, b, 2) for a, b in itertools.pairwise([3, *sizes])))
    with torch.device(DEVICE):
        critic.append(nn.Conv2d(8 * width, 1, 1))
        ups = [[nn.ConvTranspose2d(b, a, 4, 2, 1, bias=False), nn.BatchNorm2d(a), nn.ReLU()]
               for a, b in reversed(list(itertools.pairwise(sizes)))]  # fmt: skip
        maker = nn.Sequential(*itertools.chain(*ups), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
    critic.to(memory_format=torch.channels_last)
    maker.to(memory_format=torch.channels_last)
    real = [torch.rand(many, 3, side, side) for _ in range(2)]
    take = _copies([x.pin_memory() if DEVICE == "cuda" else x for x in real], fixed)
    seeds = torch.randn(many, 8 * width, side // 16, side // 16, device=DEVICE)
    optimizers = [torch.optim.Adam(model.parameters(), 2e-4, fused=True) for model in (critic, maker)]

    def step() -> None:
        with autocast():
            made = maker(seeds)
            loss = softplus(-critic(take())).mean() + softplus(critic(made.detach())).mean()
        loss.backward()
        optimizers[0].step()
        optimizers[0].zero_grad()
        with autocast():
            loss = softplus(-critic(made)).mean()
        loss.backward()
        optimizers[1].step()
        for optimizer in optimizers:
            optimizer.zero_grad()

    return step


PAIRS = (
    Pair("channels_last", segmentation_default_layout, found=True, libraries=()),
    Pair("avoid_allocations", evaluation_empties_cache, libraries=()),
    Pair("remove_syncs", detector_clipped_by_hand, found=True, libraries=()),
    Pair("data_loader_workers", augmented_in_the_loop, found=True, libraries=()),
    Pair("copy_ahead", gan_pictures_copied_in_line, libraries=()),
)
