"""What goes into a model, in which order, and how it gets there, of PyTorch alone."""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, pixel_shuffle
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pairs.program import Step


def ahead(source: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """What the source gives, on the device; the next is copied there in a stream of its own meanwhile."""
    if DEVICE != "cuda":
        return source
    side, first = torch.cuda.Stream(), source()
    buffers = [torch.empty_like(first, device=DEVICE).copy_(first) for _ in range(2)]
    turns = itertools.cycle((0, 1))

    def get() -> torch.Tensor:
        current, turn = torch.cuda.current_stream(), next(turns)
        current.wait_stream(side)
        # the step before last is done with the other buffer
        side.wait_stream(current)
        with torch.cuda.stream(side):
            buffers[1 - turn].copy_(source(), non_blocking=True)
        return buffers[turn]

    return get


def convolutions(first: int, width: int, count: int, last: int) -> nn.Sequential:
    """Convolutions with batch norm, the first with stride 2, channels last, and a linear layer."""
    with torch.device(DEVICE):
        layers: list[nn.Module] = []
        for number in range(count):
            conv = nn.Conv2d(width if number else first, width, 3, 1 if number else 2, 1, bias=False)
            layers += [conv, nn.BatchNorm2d(width), nn.ReLU()]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, last))
    return model.to(memory_format=torch.channels_last)


def pinned(x: torch.Tensor) -> torch.Tensor:
    """In memory that the device copies from by itself."""
    return x.pin_memory() if DEVICE == "cuda" else x


class Clips(Dataset[tuple[np.ndarray[Any, Any], int]]):
    """Sounds of four seconds, packed; what is read of them is a picture of their tones."""

    def __init__(self) -> None:
        random_ = np.random.default_rng(0)
        self.samples = n(64_000, 4096)
        self.packed = [
            zlib.compress(random_.normal(0, 300, self.samples).astype(np.int16).tobytes()) for _ in range(32)
        ]
        self.tones = random_.random((257, 64), np.float32)
        self.window = np.hanning(512).astype(np.float32)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, number: int) -> tuple[np.ndarray[Any, Any], int]:
        sound = np.frombuffer(zlib.decompress(self.packed[number % 32]), np.int16).astype(np.float32) / 32768
        sound = np.roll(sound, number * 7919 % self.samples)
        frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::256] * self.window
        power = np.abs(np.fft.rfft(frames)).astype(np.float32) ** 2
        return np.log(power @ self.tones + 1e-6)[None], number % 35


def clips_read_in_turn(fixed: bool) -> Step:
    """A network hears commands in clips that the loop itself unpacks and transforms; the remedy has eight workers."""
    cuda = DEVICE == "cuda"
    loader = DataLoader(Clips(), n(48, 4), num_workers=n(8, 2) if fixed else 0, pin_memory=fixed and cuda)
    batches, model = iter(loader), convolutions(1, n(128, 8), n(6, 2), 35)

    def loss() -> Any:
        tones, said = (x.to(DEVICE, non_blocking=fixed) for x in next(batches))
        with autocast():
            return cross_entropy(model(tones), said)

    return train(model, loss)


def spectra_from_pages(fixed: bool) -> Step:
    """A deep network sorts spectra, 134 MB of them copied from ordinary memory each step; the remedy pins it."""
    width, channels = n(4096, 32), n(2048, 16)
    host = [torch.randn(n(16_384, 16), channels) for _ in range(2)]
    batches = itertools.cycle([pinned(one) for one in host] if fixed else host)
    with torch.device(DEVICE):
        inner = [x for _ in range(2) for x in (nn.GELU(), nn.Linear(width, width))]
        model = nn.Sequential(nn.Linear(channels, width), *inner, nn.GELU(), nn.Linear(width, 64))
        kinds = torch.randint(0, 64, (n(16_384, 16),))

    def loss() -> Any:
        spectra = next(batches).to(DEVICE, non_blocking=fixed)
        with autocast():
            return cross_entropy(model(spectra), kinds)

    return train(model, loss)


def weather_fields(fixed: bool) -> Step:
    """Weather of 64 fields from pinned memory, copied before each step, with the remedy during the one before."""
    shape = (n(8, 1), n(64, 4), n(256, 16), n(512, 16))
    batches = itertools.cycle([pinned(torch.randn(shape)) for _ in range(2)])
    model = convolutions(shape[1], n(128, 8), n(8, 2), 32)
    wanted = torch.randn(shape[0], 32, device=DEVICE)

    def here() -> torch.Tensor:
        return next(batches).to(DEVICE, non_blocking=True)

    get = ahead(lambda: next(batches)) if fixed else here

    def loss() -> Any:
        with autocast():
            fields = get().to(torch.bfloat16, memory_format=torch.channels_last)
            return mse_loss(model(fields).float(), wanted)

    return train(model, loss)


class Sharper(nn.Module):
    """Residual convolutions that make a picture twice as large."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 12, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))
            for _ in range(blocks)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return pixel_shuffle(self.last(x), 2)


def sharper_pictures(fixed: bool) -> Step:
    """Sixteen residual blocks make crops of pictures sharper in bf16, channels first; the remedy is channels last."""
    order, side = torch.channels_last if fixed else torch.contiguous_format, n(96, 16)
    with torch.device(DEVICE):
        model = Sharper(n(128, 8), n(16, 1)).to(memory_format=order)
        small = torch.randn(n(16, 1), 3, side, side).contiguous(memory_format=order)
        large = torch.randn(n(16, 1), 3, 2 * side, 2 * side).contiguous(memory_format=order)

    def loss() -> Any:
        with autocast():
            return mse_loss(model(small).float(), large)

    return train(model, loss)


PAIRS = (
    Pair("channels_last", sharper_pictures, found=True, libraries=()),
    Pair("data_loader_workers", clips_read_in_turn, found=True, libraries=()),
    Pair("pinned_memory", spectra_from_pages, found=True, libraries=()),
    Pair("copy_ahead", weather_fields, found=True, libraries=()),
)
