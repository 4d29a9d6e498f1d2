"""Pictures and films: streets, ships, paintings, sports, birds, insects, leaves."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import noise, on_device, whole

PINNED = DEVICE == "cuda"


@pair("channels_last", found=True, libraries=("torchvision",))
def streets_segmented_plane_by_plane(fixed):
    """A DeepLabV3 of torchvision (ResNet-50) learns to name each pixel of four streets (512 x 512) a step
    in bf16 autocast. Its pictures and weights lie plane by plane, as they do by default. The remedy
    puts the channels last."""
    from torchvision.models.segmentation import deeplabv3_resnet50

    rows, side, kinds = n(4, 2), n(512, 32), 19
    layout = torch.channels_last if fixed else torch.contiguous_format
    model = on_device(
        lambda: deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=kinds)
    )
    model = model.train().to(memory_format=layout)
    streets = noise(rows, 3, side, side).to(memory_format=layout)
    names = whole(kinds, rows, side, side)
    return train(model, lambda: F.cross_entropy(model(streets)["out"], names), cast=True)


class _WrittenMish(Module):
    """Mish as repositories of detectors write it."""

    def forward(self, x):
        return x * torch.tanh(F.softplus(x))


def _convolved(inner, outer, bend, *, size=3, stride=1):
    """A convolution, normalised and bent."""
    pad = size // 2
    conv = nn.Conv2d(inner, outer, size, stride, pad, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer), bend())


class _Again(Module):
    """A residual block of a Darknet."""

    def __init__(self, width, bend):
        half = _convolved(width, width // 2, bend, size=1)
        self.body = nn.Sequential(half, _convolved(width // 2, width, bend))

    def forward(self, x):
        return x + self.body(x)


class _Darknet(Module):
    """A detector that tells boxes on three grids."""

    def __init__(self, width, told, bend):
        self.first = _convolved(3, width, bend)
        self.stages, self.heads = nn.ModuleList(), nn.ModuleList()
        for times in n((1, 2, 4, 4, 2), (1, 1, 1)):
            down = _convolved(width, 2 * width, bend, stride=2)
            width = 2 * width
            self.stages.append(nn.Sequential(down, *(_Again(width, bend) for _ in range(times))))
            self.heads.append(nn.Conv2d(width, told, 1))

    def forward(self, x):
        x, told = self.first(x), []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            told.append(head(x))
        return told[-3:]


@pair("fuse_elementwise", found=True)
def ships_found_with_a_written_mish(fixed):
    """A Darknet like YOLOv4's learns to find ships in 16 pictures of 416 x 416 a step, in bf16 autocast,
    channels last. Its Mish is written as `x * torch.tanh(F.softplus(x))`: three kernels a layer, and
    tensors of float32. The remedy is `nn.Mish`."""
    rows, side, kinds = n(16, 2), n(416, 32), n(15, 2)
    told = 3 * (5 + kinds)
    bend = nn.Mish if fixed else _WrittenMish
    model = on_device(lambda: _Darknet(n(32, 8), told, bend)).train()
    model = model.to(memory_format=torch.channels_last)
    pictures = noise(rows, 3, side, side).to(memory_format=torch.channels_last)
    with torch.no_grad():
        grids = [grid.shape[2] for grid in model(pictures)]
    wanted = [torch.rand(rows, 3, 5 + kinds, grid, grid, device=DEVICE) for grid in grids]

    def lost(grid, want):
        grid = grid.unflatten(1, want.shape[1:3])
        boxes = F.smooth_l1_loss(grid[:, :, :4], want[:, :, :4])
        named = F.binary_cross_entropy_with_logits(grid[:, :, 4:].float(), want[:, :, 4:].round())
        return boxes + named

    return train(model, lambda: sum(map(lost, model(pictures), wanted)), cast=True)


class _Mixed(Module):
    """A block of a U-Net that looks at a text: convolutions that are told the time, attention."""

    def __init__(self, inner, width, text):
        groups = n(32, 4)
        self.before, self.after = nn.GroupNorm(groups, inner), nn.GroupNorm(groups, width)
        self.first = nn.Conv2d(inner, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.skip = nn.Conv2d(inner, width, 1)
        self.time = nn.Linear(n(512, 16), width)
        self.calm = nn.LayerNorm(width)
        self.asked, self.joined = nn.Linear(width, width), nn.Linear(width, width)
        self.known = nn.Linear(text, 2 * width)
        self.heads = width // n(64, 8)

    def forward(self, x, time, text):
        h = self.first(F.silu(self.before(x))) + self.time(time)[:, :, None, None]
        x = self.skip(x) + self.second(F.silu(self.after(h)))
        flat = x.flatten(2).transpose(1, 2)
        parts = self.asked(self.calm(flat)), *self.known(text).chunk(2, -1)
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]
        seen = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        return x + self.joined(seen).transpose(1, 2).unflatten(2, x.shape[2:])


class _Painter(Module):
    """A U-Net that tells the noise of a painting of a text."""

    def __init__(self, width, text):
        sizes = [width, 2 * width, 4 * width][: n(3, 2)]
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList(
            nn.ModuleList((_Mixed(inner, outer, text), _Mixed(outer, outer, text)))
            for inner, outer in zip([width, *sizes], sizes, strict=False)
        )
        self.up = nn.ModuleList(
            nn.ModuleList((_Mixed(2 * outer, outer, text), _Mixed(outer, inner, text)))
            for inner, outer in reversed([*zip([width, *sizes], sizes, strict=False)])
        )
        self.last = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, time, text):
        x, kept = self.first(x), []
        for one, two in self.down:
            x = two(one(x, time, text), time, text)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        for one, two in self.up:
            x = F.interpolate(x, scale_factor=2)
            x = two(one(torch.cat((x, kept.pop()), 1), time, text), time, text)
        return self.last(x)


@pair("batch_calls")
def paintings_guided_in_two_calls(fixed):
    """A U-Net with attention to a text paints one picture (latents of 64 x 64) in bf16, four rounds of
    DDIM a step. Guidance needs the noise with and without the text, and the loop calls the U-Net
    once for each. The remedy calls it once, for a batch of both."""
    side, text, rounds = n(64, 8), n(768, 16), n(4, 2)
    model = on_device(lambda: _Painter(n(256, 16), text)).bfloat16().eval()
    model = model.to(memory_format=torch.channels_last)
    start = noise(1, 4, side, side, dtype=torch.bfloat16)
    asked, empty = noise(2, 1, n(77, 3), text, dtype=torch.bfloat16)
    times = noise(rounds, 1, n(512, 16), dtype=torch.bfloat16)
    kept = torch.linspace(0.1, 0.999, rounds + 1).tolist()

    def told(x, time):
        if fixed:
            both = model(torch.cat((x, x)), time.expand(2, -1), torch.cat((asked, empty)))
            return both.chunk(2)
        return model(x, time, asked), model(x, time, empty)

    @torch.no_grad()
    def step():
        x = start
        for number, time in enumerate(times):
            guided, free = told(x, time)
            guess = free + 7.5 * (guided - free)
            now, later = kept[number], kept[number + 1]
            clean = (x - (1 - now) ** 0.5 * guess) / now**0.5
            x = later**0.5 * clean + (1 - later) ** 0.5 * guess
        return x

    return step


@pair("pinned_memory", libraries=("torchvision",))
def sports_named_from_pageable_frames(fixed):
    """A service names the sport of 16 clips a step (16 frames of 256 x 340, as a decoder left them) by an
    R3D-18 of torchvision in bf16, scaled and cut on the GPU. The frames lie in ordinary memory, from
    which the copy is slow and waits. The remedy decodes into pinned memory."""
    from torchvision.models.video import r3d_18

    rows, frames, high, wide = n(16, 1), n(16, 4), n(256, 32), n(340, 40)
    side = n(112, 16)
    model = on_device(lambda: r3d_18(weights=None)).eval().bfloat16()
    model = model.to(memory_format=torch.channels_last_3d)
    shape = rows, frames, high, wide, 3
    decoded = [torch.randint(0, 256, shape, dtype=torch.uint8) for _ in range(n(4, 1))]
    decoded = [clips.pin_memory() for clips in decoded] if fixed and PINNED else decoded
    clips = itertools.cycle(decoded)

    @torch.no_grad()
    def step():
        seen = next(clips).to(DEVICE, non_blocking=fixed)
        seen = seen.flatten(0, 1).permute(0, 3, 1, 2).to(torch.bfloat16) / 255
        seen = F.interpolate(seen, (side + 16, side + 59), mode="bilinear")
        seen = (seen[:, :, 8 : side + 8, 29 : side + 29] - 0.43) / 0.22
        seen = seen.unflatten(0, (rows, frames)).transpose(1, 2)
        return model(seen.contiguous(memory_format=torch.channels_last_3d)).argmax(-1)

    return step


@pair("keep_on_device", found=True, libraries=("torchvision",))
def birds_memory_kept_on_the_host(fixed):
    """A ResNet-18 of torchvision learns in bf16 autocast to tell 65536 pictures of birds apart, 128 a
    step, from a memory of all their vectors (256 numbers each). The memory is a plain tensor, which
    `.to(device)` did not move: each step sends all of it to the GPU, and fetches the new vectors to
    the host. The remedy keeps it on the GPU."""
    from torchvision.models import resnet18

    rows, side, pictures, width = n(128, 4), n(128, 32), n(65536, 32), n(256, 8)
    model = on_device(lambda: resnet18(weights=None, num_classes=width)).train()
    model = model.to(memory_format=torch.channels_last)
    home = DEVICE if fixed else "cpu"
    memory = F.normalize(noise(pictures, width), dim=1).to(home)
    seen = noise(rows, 3, side, side).to(memory_format=torch.channels_last)
    order = itertools.cycle(whole(pictures, n(16, 2), rows))
    latest = []

    def loss():
        which = next(order)
        with autocast():
            vectors = model(seen)
        vectors = F.normalize(vectors.float(), dim=1)
        scores = vectors @ memory.to(DEVICE).T / 0.07
        latest[:] = which.to(home), vectors.detach().to(home)
        return F.cross_entropy(scores, which)

    learn = train(model, loss)

    def step():
        learn()
        memory.index_copy_(0, *latest)

    return step


class _Insects(Dataset):
    """Pictures that are cut, scaled, mirrored, tinted and partly erased when they are asked for."""

    def __init__(self, side):
        self.side = side
        self.held = torch.randint(0, 256, (n(256, 8), 3, n(256, 40), n(256, 40)), dtype=torch.uint8)

    def __len__(self):
        return n(200_000, 64)

    def __getitem__(self, number):
        luck = np.random.default_rng(number)
        picture = self.held[number % len(self.held)]
        size = int(luck.uniform(0.6, 1) * picture.shape[1])
        top, left = luck.integers(0, picture.shape[1] - size + 1, 2)
        cut = picture[:, top : top + size, left : left + size].float()[None] / 255
        cut = F.interpolate(cut, (self.side, self.side), mode="bilinear", antialias=True)[0]
        cut = cut.flip(2) if luck.random() < 0.5 else cut
        cut = (cut * luck.uniform(0.7, 1.3) + luck.uniform(-0.1, 0.1)).clamp(0, 1)
        grey = cut.mean(0, keepdim=True)
        cut = (grey + (cut - grey) * luck.uniform(0.7, 1.3) - 0.45) / 0.23
        hole = self.side // 4
        top, left = luck.integers(0, self.side - hole, 2)
        cut[:, top : top + hole, left : left + hole] = 0
        return cut, number % 100


@pair("data_loader_workers", found=True, libraries=("torchvision",))
def insects_augmented_in_the_loop(fixed):
    """A MobileNetV3 of torchvision learns from a ResNet-50 to name 32 insects a step, both in bf16
    autocast, channels last. The loader has the default of no workers, so that the training loop
    itself cuts, scales and tints each picture. The remedy has eight workers."""
    from torchvision.models import mobilenet_v3_large, resnet50

    rows, side = n(32, 4), n(224, 32)
    teacher = on_device(lambda: resnet50(weights=None, num_classes=100)).eval()
    student = on_device(lambda: mobilenet_v3_large(weights=None, num_classes=100)).train()
    for model in (teacher, student):
        model.to(memory_format=torch.channels_last)
    workers = {"num_workers": n(8, 2), "persistent_workers": True} if fixed else {}
    loader = DataLoader(_Insects(side), rows, drop_last=True, pin_memory=PINNED, **workers)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))

    def loss():
        pictures, names = (part.to(DEVICE, non_blocking=True) for part in next(batches))
        pictures = pictures.to(memory_format=torch.channels_last)
        with autocast():
            with torch.no_grad():
                wanted = teacher(pictures).float()
            told = student(pictures).float()
        like = F.kl_div((told / 4).log_softmax(-1), (wanted / 4).softmax(-1), reduction="batchmean")
        return 0.1 * F.cross_entropy(told, names) + 14.4 * like

    return train(student, loss)


class _Leaves(Dataset):
    """Pictures that are only cut on the host."""

    def __init__(self, side):
        self.side = side
        self.held = torch.randint(0, 256, (n(256, 8), 3, n(256, 40), n(256, 40)), dtype=torch.uint8)

    def __len__(self):
        return n(400_000, 64)

    def __getitem__(self, number):
        picture = self.held[number % len(self.held)]
        top = number * 7 % (picture.shape[1] - self.side)
        return picture[:, top : top + self.side, : self.side], number % 100


@good("data_loader_workers", "copy_ahead", libraries=("torchvision",))
def good_leaves(version):
    """A ResNet-50 of torchvision learns to name 128 leaves a step in bf16 autocast, channels last. Six
    workers cut the pictures, which are sent as bytes from pinned memory and scaled on the GPU."""
    from torchvision.models import resnet50

    rows, side = n(128, 4), n(224, 32)
    model = on_device(lambda: resnet50(weights=None, num_classes=100)).train()
    model = model.to(memory_format=torch.channels_last)
    workers = n(6, 1) * (2 if version == "data_loader_workers" else 1)
    how = {"num_workers": workers, "persistent_workers": True, "prefetch_factor": 4}
    loader = DataLoader(_Leaves(side), rows, drop_last=True, pin_memory=PINNED, **how)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    ahead = version == "copy_ahead"
    beside = torch.cuda.Stream() if PINNED and ahead else None

    def sent():
        with torch.cuda.stream(beside):
            return [part.to(DEVICE, non_blocking=True) for part in next(batches)]

    ready = [sent()] if ahead else []

    def loss():
        pictures, names = ready.pop() if ahead else sent()
        if beside:
            torch.cuda.current_stream().wait_stream(beside)
            pictures.record_stream(torch.cuda.current_stream())
        if ahead:
            ready.append(sent())
        pictures = pictures.contiguous(memory_format=torch.channels_last) / 255
        with autocast():
            return F.cross_entropy(model(pictures), names)

    return train(model, loss)
