"""Training of research code: distillation, privacy, radiance fields, forecasts, contrast, scans."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, mse_loss, normalize

from benchmarks.pairs.program import DEVICE, Pair, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Residual(nn.Module):
    """Two narrow convolutions and what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.after = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.after(self.second(self.norm(self.first(x)).relu()))).relu()


def averaged_weights_in_loop(fixed: bool) -> Step:
    """A deep, narrow ResNet whose averaged copy (EMA) is updated tensor by tensor after every step."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *(Residual(32) for _ in range(n(20, 2))),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    ).to(DEVICE)  # fmt: skip
    average, decay = copy.deepcopy(model).eval().requires_grad_(False), 0.999
    x = torch.randn(n(64, 2), 3, 32, 32, device=DEVICE)
    y = torch.randint(0, 10, (len(x),), device=DEVICE)
    update = train(model, lambda: cross_entropy(model(x), y))

    def one_by_one() -> None:
        with torch.no_grad():
            for old, new in zip(average.state_dict().values(), model.state_dict().values(), strict=True):
                old.copy_(decay * old + (1 - decay) * new)

    states = [
        (old, new.detach())
        for old, new in zip(average.state_dict().values(), model.state_dict().values(), strict=True)
        if old.is_floating_point()
    ]

    def at_once() -> None:
        with torch.no_grad():
            torch._foreach_lerp_([old for old, _ in states], [new for _, new in states], 1 - decay)

    def step() -> None:
        update()
        (at_once if fixed else one_by_one)()

    return step


def private_gradients_in_loop(fixed: bool) -> Step:
    """Training with differential privacy: each of 64 pictures has a backward pass of its own, clipped and added."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(32 * 16, 32), nn.ReLU(), nn.Linear(32, 10),
    ).to(DEVICE)  # fmt: skip
    many, most = n(64, 3), 1.0
    x, y = torch.randn(many, 1, 28, 28, device=DEVICE), torch.randint(0, 10, (many,), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, fused=True)
    named = dict(model.named_parameters())

    def loss_of(weights: dict[str, torch.Tensor], picture: torch.Tensor, name: torch.Tensor) -> Any:
        return cross_entropy(functional_call(model, weights, (picture[None],)), name[None])

    every = vmap(grad(loss_of), (None, 0, 0))

    def one_by_one() -> list[torch.Tensor]:
        summed = [torch.zeros_like(p) for p in named.values()]
        for picture, name in zip(x, y, strict=True):
            optimizer.zero_grad()
            cross_entropy(model(picture[None]), name[None]).backward()
            nn.utils.clip_grad_norm_(named.values(), most)
            for total, p in zip(summed, named.values(), strict=True):
                total += p.grad
        return summed

    def at_once() -> list[torch.Tensor]:
        each = every({name: p.detach() for name, p in named.items()}, x, y)
        norms = torch.stack([one.flatten(1).norm(dim=1) for one in each.values()]).norm(dim=0)
        share = (most / (norms + 1e-6)).clamp(max=1.0)
        return [torch.einsum("i,i...->...", share, one) for one in each.values()]

    def step() -> None:
        for total, p in zip((at_once if fixed else one_by_one)(), named.values(), strict=True):
            p.grad = (total + 0.5 * torch.randn_like(total)) / many
        optimizer.step()

    return step


class Radiance(nn.Module):
    """Colour and density at a place, eight layers with the place joined in again at the fifth."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(60 if i == 0 else width, width) for i in range(4))
        self.then = nn.ModuleList(nn.Linear(width + 60 if i == 0 else width, width) for i in range(4))
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = (x[..., None] * 2.0 ** torch.arange(10, device=x.device)).flatten(-2)
        place = torch.cat((waves.sin(), waves.cos()), -1)
        y = place
        for layer in self.first:
            y = layer(y).relu()
        y = torch.cat((y, place), -1)
        for layer in self.then:
            y = layer(y).relu()
        return self.head(y)


def radiance_field_fp32(fixed: bool) -> Step:
    """A radiance field (NeRF) learns 2048 rays of 64 samples in fp32, products at PyTorch's default precision."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    model = Radiance(n(256, 32)).to(DEVICE)
    rays, samples = n(2048, 8), n(64, 4)
    places, colours = torch.rand(rays, samples, 3, device=DEVICE), torch.rand(rays, 3, device=DEVICE)

    def loss() -> Any:
        said = model(places)
        dense = said[..., 3].relu() / samples
        share = (1 - (-dense).exp()) * (dense - dense.cumsum(1)).exp()
        return mse_loss((share[..., None] * said[..., :3].sigmoid()).sum(1), colours)

    return train(model, loss)


class Forecaster(nn.Module):
    """Two recurrent layers, their gates written out or PyTorch's own."""

    def __init__(self, inputs: int, width: int, *, fixed: bool) -> None:
        super().__init__()
        self.layer = nn.LSTM(inputs, width, 2, batch_first=True) if fixed else None
        sizes = () if fixed else (inputs, width)
        self.seen = nn.ModuleList(nn.Linear(size, 4 * width) for size in sizes)
        self.kept = nn.ModuleList(nn.Linear(width, 4 * width) for _ in sizes)
        self.head, self.width = nn.Linear(width, 24), width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.layer is not None:
            return self.head(self.layer(x)[0][:, -1])
        for seen, kept in zip(self.seen, self.kept, strict=True):
            h = c = x.new_zeros(len(x), self.width)
            said = []
            for t in range(x.shape[1]):
                i, f, g, o = (seen(x[:, t]) + kept(h)).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                said.append(h)
            x = torch.stack(said, 1)
        return self.head(x[:, -1])


def forecaster_gates_by_hand(fixed: bool) -> Step:
    """A forecaster of electricity use whose LSTM is written gate by gate, as in a course, over 96 quarter hours."""
    model = Forecaster(12, n(256, 16), fixed=fixed).to(DEVICE)
    x, y = torch.randn(n(128, 2), n(96, 6), 12, device=DEVICE), torch.randn(n(128, 2), 24, device=DEVICE)
    return train(model, lambda: mse_loss(model(x), y))


def contrast_queue_on_host(fixed: bool) -> Step:
    """MoCo's queue of 65,536 negatives lives on the host: copied to the GPU in every step, and the new keys back."""
    width, batch, many = 128, n(256, 4), n(65_536, 64)
    layers = [x for a, b in ((3, 64), (64, 128), (128, 256)) for x in (nn.Conv2d(a, b, 3, 2, 1), nn.ReLU())]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, width)).to(DEVICE)
    slow = copy.deepcopy(model).requires_grad_(False)
    weights, slower = [p.detach() for p in model.parameters()], list(slow.parameters())
    queue = normalize(torch.randn(many, width), dim=1).to(DEVICE if fixed else "cpu")
    one, other = (torch.randn(batch, 3, 64, 64, device=DEVICE) for _ in range(2))
    place, right = [0], torch.zeros(batch, dtype=torch.long, device=DEVICE)

    def loss() -> Any:
        query = normalize(model(one), dim=1)
        with torch.no_grad():
            torch._foreach_lerp_(slower, weights, 0.001)
            key = normalize(slow(other), dim=1)
        near = (query * key).sum(1, keepdim=True)
        far = query @ queue.to(DEVICE, copy=True).T
        queue[place[0] : place[0] + batch] = key.to(queue.device)
        place[0] = (place[0] + batch) % many
        return cross_entropy(torch.cat((near, far), 1) / 0.07, right)

    return train(model, loss)


class Scans(torch.utils.data.Dataset):
    """Crops of scans that numpy turns, mirrors, brightens and blurs with noise when they are asked for."""

    def __init__(self) -> None:
        self.scans = np.random.default_rng(0).random((4, n(80, 20), n(160, 40), n(160, 40)), np.float32)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        chance, (depth, side) = np.random.default_rng(index), (n(48, 8), n(96, 16))
        scan = self.scans[index % len(self.scans)]
        z, y, x = (
            int(chance.integers(0, most - size)) for most, size in zip(scan.shape, (depth, side, side), strict=True)
        )
        crop = np.rot90(scan[z : z + depth, y : y + side, x : x + side], int(chance.integers(0, 4)), (1, 2))
        crop = crop[:, ::-1] if chance.random() < 0.5 else crop
        crop = crop ** chance.uniform(0.7, 1.5) + 0.05 * chance.standard_normal(crop.shape, np.float32)
        crop = (crop - crop.mean()) / crop.std()
        return torch.from_numpy(np.ascontiguousarray(crop, np.float32))[None], index % 2


def scans_two_workers(fixed: bool) -> Step:
    """A network in 3D learns from crops of scans that two workers cut and change; the remedy is twelve."""
    sizes = ((1, 32), (32, 64), (64, 128))
    layers = [x for a, b in sizes for x in (nn.Conv3d(a, b, 3, 2, 1), nn.BatchNorm3d(b), nn.ReLU())]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, 2)).to(DEVICE)
    workers = n(12 if fixed else 2, 1)
    batches = iter(torch.utils.data.DataLoader(
        Scans(), n(8, 2), num_workers=workers, persistent_workers=True, pin_memory=DEVICE == "cuda"
    ))  # fmt: skip

    def loss() -> Any:
        x, y = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return cross_entropy(model(x), y)

    return train(model, loss)


PAIRS = (
    Pair("fused_optimizer", averaged_weights_in_loop, found=True, libraries=()),
    Pair("batch_calls", private_gradients_in_loop, found=True, libraries=(), fixed_too=False),
    Pair("tf32", radiance_field_fp32, found=True, libraries=()),
    Pair("fused_rnn", forecaster_gates_by_hand, found=True, libraries=(), fixed_too=False),
    Pair("keep_on_device", contrast_queue_on_host, found=True, libraries=()),
    Pair("data_loader_workers", scans_two_workers, found=True, libraries=(), fixed_too=False),
)
