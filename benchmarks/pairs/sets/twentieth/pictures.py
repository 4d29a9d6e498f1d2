"""Pictures: stamps, moles, roads, valleys, galaxies, minerals; good: orchards, coasts."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"
LAST = torch.channels_last


class _Residual(Module):
    """Two convolutions beside their input, without a norm."""

    def __init__(self, width):
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1) for _ in "ab")

    def forward(self, x):
        return x + 0.1 * self.two(F.relu(self.one(x)))


def _enlarger(width, depth):
    """An EDSR: makes pictures twice as wide and high."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        *(_Residual(width) for _ in range(depth)),
        nn.Conv2d(width, 4 * width, 3, padding=1),
        nn.PixelShuffle(2),
        nn.Conv2d(width, 3, 3, padding=1),
    )


@pair("channels_last", found=True)
def stamps_enlarged_contiguously(fixed):
    """An EDSR (16 residual blocks, 64 wide) learns in bf16 autocast to enlarge 32 pieces of stamps a step, from 96 x
    96 to twice that. Weights and pictures are contiguous, as PyTorch makes them, so that convolutions on the
    tensor cores turn them around, there and back. The remedy is `channels_last` for both."""
    rows, side = n(32, 2), n(96, 8)
    model = on_device(lambda: _enlarger(n(64, 8), n(16, 2))).train()
    small, large = noise(rows, 3, side, side), noise(rows, 3, 2 * side, 2 * side)
    if fixed:
        model, small = model.to(memory_format=LAST), small.contiguous(memory_format=LAST)
    return train(model, lambda: F.l1_loss(model(small).float(), large), cast=True)


@pair("no_recompute", found=True, libraries=("torchvision",))
def moles_seen_by_a_memory_efficient_densenet(fixed):
    """A DenseNet-121 of torchvision learns in bf16 autocast, with channels last, to name nine kinds of moles, from 64
    pictures of 224 x 224 a step. It was made with `memory_efficient=True`, so that each layer's joined input,
    norm and first convolution are computed again in the backward pass; nine tenths of the memory are
    free. The remedy is `memory_efficient=False`."""
    from torchvision.models import densenet121

    rows, side, kinds = n(64, 2), n(224, 32), 9
    model = on_device(lambda: densenet121(num_classes=kinds, memory_efficient=not fixed)).train()
    model = model.to(memory_format=LAST)
    seen = noise(rows, 3, side, side).contiguous(memory_format=LAST)
    true = whole(kinds, rows)
    return train(model, lambda: F.cross_entropy(model(seen).float(), true), cast=True)


class _Road(Module):
    """A map of the road around a car, seen from above, of what six cameras see: a ResNet-50 of torchvision looks
    through each, and each square of the map takes what the camera that sees it has there."""

    def __init__(self, cameras, places, squares, width, kinds, *, at_once):
        from torchvision.models import resnet50

        self.eyes = nn.Sequential(*list(resnet50().children())[:-2], nn.Conv2d(2048, width, 1))
        self.register_buffer("where", torch.randint(cameras * places, (squares**2,)))
        more = [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.map = nn.Sequential(*more, nn.Conv2d(width, kinds, 1))
        self.squares, self.at_once = squares, at_once

    def forward(self, pictures):
        calls = [pictures] if self.at_once else pictures.split(1)
        seen = torch.cat([self.eyes(some) for some in calls])
        seen = seen.flatten(2).transpose(1, 2).flatten(0, 1)[self.where]
        return self.map(seen.t().unflatten(1, (self.squares, self.squares))[None])


@pair("batch_calls", libraries=("torchvision",))
def roads_seen_camera_by_camera(fixed):
    """A car draws a map of 200 x 200 squares of the road, in bf16 with channels last, of what its six cameras see
    (256 x 704 each). A ResNet-50 of torchvision is called for each camera in a loop: six times all its short
    kernels, launched one by one. The remedy is one call for the six pictures."""
    cameras, high, wide = n(6, 2), n(256, 32), n(704, 64)
    places = (high // 32) * (wide // 32)
    width, squares = n(128, 8), n(200, 6)

    def made():
        return _Road(cameras, places, squares, width, n(12, 3), at_once=fixed)

    model = on_device(made).bfloat16().eval().to(memory_format=LAST)
    seen = noise(cameras, 3, high, wide).bfloat16().contiguous(memory_format=LAST)

    @torch.no_grad()
    def step():
        return model(seen).argmax(1).byte().cpu()

    return step


class _Depths(Module):
    """A small network that tells how far apart two eyes see each pixel, in four sizes."""

    def __init__(self, width, stages=4):
        widths = [3, *(width * 2**stage for stage in range(stages))]
        self.down = nn.ModuleList(
            nn.Conv2d(a, b, 5, stride=2, padding=2) for a, b in itertools.pairwise(widths)
        )
        backwards = widths[:0:-1]
        self.up = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1)
            for a, b in itertools.pairwise((*backwards, backwards[-1]))
        )
        self.told = nn.ModuleList(
            nn.Conv2d(one, 1, 3, padding=1) for one in (*backwards[1:], backwards[-1])
        )

    def forward(self, x):
        for layer in self.down:
            x = F.elu(layer(x))
        apart = []
        for layer, tell in zip(self.up, self.told, strict=True):
            x = F.elu(layer(F.interpolate(x, scale_factor=2)))
            apart.append(0.3 * tell(x).sigmoid())
        return apart


def _unlike(seen, true):
    """How unlike two pictures are: structural similarity in windows of 3 x 3, and differences."""
    mean_seen, mean_true = F.avg_pool2d(seen, 3, 1), F.avg_pool2d(true, 3, 1)
    spread_seen = F.avg_pool2d(seen * seen, 3, 1) - mean_seen * mean_seen
    spread_true = F.avg_pool2d(true * true, 3, 1) - mean_true * mean_true
    both = F.avg_pool2d(seen * true, 3, 1) - mean_seen * mean_true
    above = (2 * mean_seen * mean_true + 1e-4) * (2 * both + 9e-4)
    below = mean_seen * mean_seen + mean_true * mean_true + 1e-4
    alike = above / (below * (spread_seen + spread_true + 9e-4))
    unlike = ((1 - alike) / 2).clamp(0, 1).mean()
    return 0.85 * unlike + 0.15 * (seen - true).abs().mean()


def _turned(picture, apart, places):
    """What one eye sees, as the other would see it."""
    moved = torch.cat((places[..., :1] - apart.permute(0, 2, 3, 1), places[..., 1:]), -1)
    return F.grid_sample(picture, moved, padding_mode="border", align_corners=False)


@pair("compile", found=True, early=("fix",))
def valleys_eyes_compared_in_eager(fixed):
    """A network (four stages) learns how deep valleys are from what two eyes see of 16 of them (384 x 1280), in bf16
    autocast and channels last, as Monodepth does: in four sizes one eye's picture is turned into the other's and
    compared with it. The comparison (structural similarity) is some 30 operators on tensors of 94 MB, each
    with a kernel of its own, there and back. The remedy is `torch.compile` of the comparison."""
    rows, high, wide = n(16, 2), n(384, 32), n(1280, 48)
    model = on_device(lambda: _Depths(n(32, 4))).train().to(memory_format=LAST)
    left, right = torch.rand(2, rows, 3, high, wide, device=DEVICE)
    seen = left.contiguous(memory_format=LAST)
    same = torch.eye(2, 3, device=DEVICE).expand(rows, -1, -1)
    places = F.affine_grid(same, [rows, 3, high, wide], align_corners=False)
    unlike = torch.compile(_unlike, dynamic=False) if fixed else _unlike

    def loss():
        with torch.autocast(DEVICE, torch.bfloat16):
            told = model(seen)
        total = 0.0
        for apart in told:
            whole_size = F.interpolate(apart.float(), size=(high, wide), mode="bilinear")
            total = total + unlike(_turned(right, whole_size, places), left)
        return total

    return train(model, loss)


class _Lars(torch.optim.Optimizer):
    """LARS: a matrix goes as far as its length and that of its gradient say."""

    def __init__(self, weights, rate, *, together, decay=1e-6, trust=1e-3, momentum=0.9):
        super().__init__(weights, {"lr": rate})
        self.together, self.decay, self.trust, self.momentum = together, decay, trust, momentum

    def momentum_of(self, weight):
        """How the weight moved before."""
        if not self.state[weight]:
            self.state[weight]["momentum"] = torch.zeros_like(weight)
        return self.state[weight]["momentum"]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if self.together:
                self.step_together(weights, group["lr"])
                continue
            for weight in weights:
                self.step_of(weight, group["lr"])

    def share(self, length, of_gradient):
        """How much of a gradient is taken; all of it where a length is zero."""
        share = self.trust * length / of_gradient
        known = (length > 0) & (of_gradient > 0)
        return torch.where(known, share, torch.ones_like(share))

    def step_of(self, weight, rate):
        move = weight.grad
        if weight.ndim > 1:
            move = move.add(weight, alpha=self.decay)
            move = move.mul(self.share(torch.norm(weight), torch.norm(move)))
        before = self.momentum_of(weight)
        before.mul_(self.momentum).add_(move)
        weight.add_(before, alpha=-rate)

    def step_together(self, weights, rate):
        matrices = [weight for weight in weights if weight.ndim > 1]
        moves = [weight.grad for weight in matrices]
        torch._foreach_add_(moves, matrices, alpha=self.decay)
        lengths = [torch.stack(torch._foreach_norm(some)) for some in (matrices, moves)]
        torch._foreach_mul_(moves, list(self.share(*lengths).unbind()))
        before = [self.momentum_of(weight) for weight in weights]
        torch._foreach_mul_(before, self.momentum)
        torch._foreach_add_(before, [weight.grad for weight in weights])
        torch._foreach_add_(weights, before, alpha=-rate)


@pair("fused_optimizer", found=True, libraries=("torchvision",))
def galaxies_lars_tensor_by_tensor(fixed):
    """A ResNet-101 of torchvision teaches itself galaxies by Barlow Twins, in bf16 autocast with channels last, from
    two views of 48 pictures of 128 x 128 a step. LARS, copied from the paper's repository, goes from tensor to
    tensor: a dozen small kernels for each of 106 matrices, three for each other weight. The remedy does the
    same for all at once, by `torch._foreach` functions."""
    from torchvision.models import resnet101

    rows, side, width = n(48, 4), n(128, 32), n(2048, 8)
    eye = on_device(lambda: resnet101(num_classes=width))
    model = nn.Sequential(eye, mlp(width, width, between=nn.ReLU)).train().to(memory_format=LAST)
    optimizer = _Lars(model.parameters(), 0.1, together=fixed)
    views = noise(2 * rows, 3, side, side).contiguous(memory_format=LAST)

    def loss():
        one, other = (
            (told - told.mean(0)) / (told.std(0) + 1e-4) for told in model(views).float().chunk(2)
        )
        alike = one.t() @ other / rows
        same = (alike.diagonal() - 1).square().sum()
        return same + 5e-3 * (alike.square().sum() - alike.diagonal().square().sum())

    return train(optimizer, loss, cast=True)


def _minerals(bands, width, kinds, depth):
    """Convolutions that name the mineral of each pixel of its spectrum and its neighbours'."""
    made = [nn.Conv2d(bands, width, 1)]
    for _ in range(depth):
        made += [
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
    return nn.Sequential(*made, nn.Conv2d(width, kinds, 1))


@pair("pinned_memory", found=True)
def minerals_spectra_from_pageable_memory(fixed):
    """A network (four convolutions, 256 wide) learns in bf16 autocast, with channels last, which of 24 minerals each
    pixel of 256 pieces (32 x 32) of an aeroplane's pictures is. A pixel has 200 bands, so that a step's pieces
    are 210 MB. They lie in ordinary memory, as they were read, and are copied with `.to("cuda")`, which waits.
    The remedy pins them and copies with `non_blocking=True`."""
    rows, side, bands, kinds = n(256, 2), n(32, 6), n(200, 5), n(24, 3)
    model = on_device(lambda: _minerals(bands, n(256, 8), kinds, n(4, 1))).train()
    model = model.to(memory_format=LAST)
    spectra = torch.rand(n(4, 2), rows, side, side, bands)
    batches = itertools.cycle(spectra.pin_memory() if fixed and PINNED else spectra)
    true = whole(kinds, rows, side, side)

    def loss():
        seen = next(batches).to(DEVICE, non_blocking=fixed)
        return F.cross_entropy(model(seen.permute(0, 3, 1, 2)).float(), true)

    return train(model, loss, cast=True)


class _Eye(Module):
    """A vision transformer: patches of 16 x 16, their mean at the end."""

    def __init__(self, width, depth, side, kinds):
        self.first = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.zeros((side // 16) ** 2, width))
        self.body = layers(width, depth)
        self.last = nn.Linear(width, kinds)

    def forward(self, x):
        patches = self.first(x).flatten(2).transpose(1, 2)
        return self.last(self.body(patches + self.places).mean(1)).float()


class _Ahead:
    """Batches, each copied on a stream of its own while the one before is used."""

    def __init__(self, batches):
        self.batches = batches
        self.stream = torch.cuda.Stream() if PINNED else None
        self.copy()

    def copy(self):
        with torch.cuda.stream(self.stream):
            self.next = next(self.batches).to(DEVICE, non_blocking=True)

    def __next__(self):
        now = self.next
        if PINNED:
            torch.cuda.current_stream().wait_stream(self.stream)
            now.record_stream(torch.cuda.current_stream())
        self.copy()
        return now


@good("channels_last", "copy_ahead", found=True)
def good_orchards(version):
    """A vision transformer (12 layers, 1024 wide) learns to name 80 fruit trees in bf16 autocast, from 96 pictures of
    224 x 224 a step, which come as bytes from pinned memory: 14 MB, a quarter of a millisecond. Its one
    convolution cuts patches. Neither channels last nor to copy a batch ahead brings anything."""
    rows, side, kinds = n(96, 2), n(224, 32), n(80, 3)
    model = on_device(lambda: _Eye(n(1024, 16), n(12, 1), side, kinds)).train()
    turned = version == "channels_last"
    model = model.to(memory_format=LAST) if turned else model
    bytes_ = torch.randint(256, (n(6, 2), rows, 3, side, side), dtype=torch.uint8)
    batches = itertools.cycle(bytes_.pin_memory() if PINNED else bytes_)
    ahead = _Ahead(batches) if version == "copy_ahead" else None
    true = whole(kinds, rows)

    def loss():
        seen = next(ahead) if ahead else next(batches).to(DEVICE, non_blocking=True)
        seen = seen.float().div(255).sub(0.5)
        seen = seen.contiguous(memory_format=LAST) if turned else seen
        return F.cross_entropy(model(seen), true)

    return train(model, loss, cast=True)


@good("batch_calls", "larger_batch", found=True)
def good_coasts(version):
    """A vision transformer (12 layers, 768 wide) learns in bf16 autocast how far a coast moved between two pictures
    (256 x 256), from 96 coasts a step. It is called for the pictures before, and for those after. Each call
    fills the GPU: neither one call for both nor twice as many coasts a step brings anything."""
    rows, side = n(96, 2) * (2 if version == "larger_batch" else 1), n(256, 32)
    model = on_device(lambda: _Eye(n(768, 16), n(12, 1), side, n(128, 4))).train()
    before, after = noise(2, rows, 3, side, side)
    moved = torch.rand(rows, device=DEVICE)

    def loss():
        if version == "batch_calls":
            one, other = model(torch.cat((before, after))).chunk(2)
        else:
            one, other = model(before), model(after)
        return F.mse_loss((one - other).square().mean(-1), moved)

    return train(model, loss, cast=True)
