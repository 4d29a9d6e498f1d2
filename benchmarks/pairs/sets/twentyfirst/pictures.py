"""Pictures: scans, rooms, glaciers, tiles, sprites, parcels; good: rallies."""

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.program import DEVICE, Module, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import Volumes, layers, noise, on_device, whole

PINNED = DEVICE == "cuda"
LAST = torch.channels_last


class _Registration(Module):
    """A VoxelMorph: tells how far each voxel of a scan moves, and moves it."""

    def __init__(self, width, stages, side, *, kept):
        self.moves = Volumes(width, stages, 3)
        self.moves.first = Volumes.twice(2, width)
        self.side, self.kept = side, kept
        if kept:
            self.register_buffer("places", self.grid().to(DEVICE), persistent=False)

    def grid(self):
        """Where each voxel is, [1, 3, side, side, side]."""
        along = [torch.arange(0, self.side, device="cpu") for _ in range(3)]
        return torch.stack(torch.meshgrid(along, indexing="ij"))[None].float()

    def forward(self, before, after):
        moved = self.moves(torch.cat((before, after), 1)).float()
        places = self.places if self.kept else self.grid().to(DEVICE)
        there = 2 * ((places + moved) / (self.side - 1) - 0.5)
        there = there.permute(0, 2, 3, 4, 1).flip(-1)
        return F.grid_sample(before, there, align_corners=True), moved


@pair("keep_on_device", found=True)
def scans_grid_made_in_forward(fixed):
    """A VoxelMorph (a U-Net of four stages) learns in bf16 autocast how a brain moved between two scans, of two pairs
    of 128 x 128 x 128 voxels a step. The part that moves a scan makes the places of all voxels on the host in each
    `forward` (`torch.meshgrid`, 25 MB) and copies them to the GPU, which waits. The remedy makes them once, as a
    buffer on the GPU."""
    rows, side = n(2, 1), n(128, 16)
    model = on_device(lambda: _Registration(n(16, 4), n(4, 2), side, kept=fixed)).train()
    before, after = torch.rand(2, rows, 1, side, side, side, device=DEVICE)

    def loss():
        seen, moved = model(before, after)
        rough = sum(moved.diff(dim=dim).square().mean() for dim in (2, 3, 4))
        return F.mse_loss(seen, after) + 0.01 * rough

    return train(model, loss, cast=True)


def _balanced(odds, rows, columns, wanted):
    """A round of Sinkhorn: rows, then columns, get as much as they should."""
    rows = wanted - torch.logsumexp(odds + columns[:, None, :], 2)
    columns = wanted - torch.logsumexp(odds + rows[:, :, None], 1)
    return rows, columns


@pair("compile", early=("fix",))
def rooms_points_matched_in_eager(fixed):
    """A service finds which points of two pictures of a room are the same, as SuperGlue does, for 16 pairs of pictures
    with 1023 points each: six layers (256 wide, bf16), then 60 rounds of Sinkhorn on scores of 16 x 1024 x 1024
    numbers in fp32. Each round is two sums and two `logsumexp`, some 14 kernels that pass over 67 MB. The remedy
    is `torch.compile` of a round."""
    rows, points, width, rounds = n(16, 2), n(1023, 7), n(256, 16), n(60, 3)
    model = layers(width, n(6, 1)).bfloat16().eval()
    found = noise(2 * rows, points, width).bfloat16()
    nobody = torch.ones((), device=DEVICE)
    wanted = torch.zeros(1, points + 1, device=DEVICE)
    wanted[:, -1] = math.log(points)
    balanced = torch.compile(_balanced, dynamic=False) if fixed else _balanced

    @torch.no_grad()
    def step():
        one, other = model(found).chunk(2)
        odds = (one @ other.transpose(1, 2)).float() / math.sqrt(width)
        odds = F.pad(odds, (0, 1, 0, 1))
        odds[:, -1], odds[:, :, -1] = nobody, nobody
        u, v = torch.zeros(2, rows, points + 1, device=DEVICE)
        for _ in range(rounds):
            u, v = balanced(odds, u, v, wanted)
        best, place = (odds + u[:, :, None] + v[:, None, :])[:, :-1].max(2)
        return torch.where(best > math.log(0.2), place, points).tolist()

    return step


class _Satellite(Module):
    """A transformer for pictures of a satellite, cut into squares by a convolution."""

    def __init__(self, bands, width, depth, side, kinds, *, in_rows):
        self.first = nn.Conv2d(bands, width, 16, 16)
        self.places = nn.Parameter(torch.zeros(1, (side // 16) ** 2, width))
        self.body = layers(width, depth)
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, kinds)
        self.in_rows = in_rows

    def forward(self, x):
        x = self.first(x).flatten(2).transpose(1, 2)
        x = x.contiguous() if self.in_rows else x
        return self.last(self.norm(self.body(x + self.places)).mean(1)).float()


@pair("channels_last", found=True)
def glaciers_tokens_left_in_columns(fixed):
    """A vision transformer (12 layers, 768 wide) learns in bf16 autocast how a glacier changes, from 48 pictures of a
    satellite a step, ten bands of 256 x 256. A convolution cuts them into squares, and `flatten(2).transpose(1,
    2)` turns what it makes without moving it: each sum beside a layer keeps that order, and each norm copies
    it. The remedy is `.contiguous()` once, before the first layer."""
    rows, bands, side, kinds = n(48, 2), n(10, 3), n(256, 32), n(12, 3)
    made = on_device(
        lambda: _Satellite(bands, n(768, 16), n(12, 2), side, kinds, in_rows=fixed)
    ).train()
    seen, true = noise(rows, bands, side, side), whole(kinds, rows)
    return train(made, lambda: F.cross_entropy(made(seen), true), cast=True)


class _Fetched:
    """Results that are fetched into pinned memory, and handed out a step later."""

    def __init__(self, shape):
        self.room = [torch.empty(shape, pin_memory=PINNED) for _ in range(2)]
        self.done = [torch.cuda.Event() if PINNED else None for _ in range(2)]
        self.steps = 0

    def swap(self, x):
        """Fetch x; what was fetched the step before."""
        now = self.steps % 2
        self.room[now].copy_(x, non_blocking=True)
        if PINNED:
            self.done[now].record()
        self.steps += 1
        before = now if self.steps == 1 else 1 - now
        if PINNED:
            self.done[before].synchronize()
        return self.room[before].numpy()


@pair("pinned_memory")
def tiles_vectors_fetched_into_pages(fixed):
    """Pathologists index slides: a vision transformer (12 layers, 768 wide, bf16) makes a vector of each of 256 places
    of 96 tiles a step (256 x 256), and all vectors, 75 MB of fp32, are fetched by `.cpu()`, for an index on the
    host. That memory is new in each step, and pageable, and the loop waits for the copy. The remedy is two
    pinned buffers, into which results are copied with `non_blocking=True`, and read a step later."""
    rows, side, width = n(96, 2), n(256, 32), n(768, 16)
    eye = on_device(lambda: nn.Conv2d(3, width, 16, 16))
    model = nn.Sequential(eye, nn.Flatten(2)).bfloat16().eval()
    body = layers(width, n(12, 1)).bfloat16().eval()
    tiles = noise(rows, 3, side, side).bfloat16()
    fetched = _Fetched((rows, (side // 16) ** 2, width)) if fixed else None

    @torch.no_grad()
    def step():
        vectors = F.normalize(body(model(tiles).transpose(1, 2).contiguous()).float(), dim=-1)
        vectors = fetched.swap(vectors) if fetched else vectors.cpu().numpy()
        return vectors[:, 0].sum()

    return step


class _Block(Module):
    """Two convolutions beside their input, which know how noisy it is."""

    def __init__(self, before, after, told):
        self.one, self.two = (nn.Conv2d(x, after, 3, padding=1) for x in (before, after))
        self.norms = nn.ModuleList(nn.GroupNorm(4, x) for x in (before, after))
        self.noise = nn.Linear(told, after)
        self.same = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, told):
        y = self.one(F.silu(self.norms[0](x))) + self.noise(F.silu(told))[:, :, None, None]
        return self.same(x) + self.two(F.silu(self.norms[1](y)))


class _Cleaner(Module):
    """A U-Net that tells the noise in a picture."""

    def __init__(self, width, stages, told):
        widths = [width * 2**stage for stage in range(stages)]
        self.told = nn.Sequential(nn.Linear(1, told), nn.SiLU(), nn.Linear(told, told))
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down = nn.ModuleList(_Block(a, b, told) for a, b in itertools.pairwise(widths))
        self.middle = _Block(widths[-1], widths[-1], told)
        self.up = nn.ModuleList(_Block(a + b, a, told) for a, b in itertools.pairwise(widths))

    def forward(self, x, when):
        told = self.told(when[:, None].to(x.dtype) / 1000)
        x, seen = self.first(x), []
        for block in self.down:
            seen.append(x)
            x = F.avg_pool2d(block(x, told), 2)
        x = self.middle(x, told)
        for block in reversed(self.up):
            x = torch.cat((seen.pop(), F.interpolate(x, scale_factor=2.0)), 1)
            x = block(x, told)
        return self.last(x)


def _extract(values, when):
    """The value of each moment, as a widely copied tutorial has it: values lie on the host."""
    return values.gather(-1, when.cpu()).reshape(-1, 1, 1, 1).to(when.device)


def _extract_there(values, when):
    """The same of values on the device."""
    return values.gather(-1, when).reshape(-1, 1, 1, 1)


@pair("keep_on_device")
def sprites_schedule_left_on_the_host(fixed):
    """A diffusion model (a U-Net of three stages, 64 wide, bf16) draws 32 sprites of 32 x 32, 24 rounds a step. The
    schedule of noise is four tensors on the host, as in a tutorial: in each round `extract` fetches the moments
    with `t.cpu()`, picks four times, and copies what it picked to the GPU. The U-Net is so small that launches set the
    pace, and each of the 96 round trips waits for all of them. The remedy puts the schedule on the GPU."""
    rows, side, rounds = n(32, 2), n(32, 8), n(24, 3)
    model = on_device(lambda: _Cleaner(n(64, 8), n(3, 2), n(128, 8))).bfloat16().eval()
    betas = torch.linspace(1e-4, 0.02, 1000)
    kept = (1 - betas).cumprod(0)
    before = F.pad(kept[:-1], (1, 0), value=1.0)
    schedule = [betas, (1 - kept).sqrt(), (1 - betas).rsqrt(), betas * (1 - before) / (1 - kept)]
    schedule = [one.to(DEVICE) for one in schedule] if fixed else schedule
    extract = _extract_there if fixed else _extract
    begun, drawn = noise(rows, 3, side, side), noise(rounds, rows, 3, side, side)

    @torch.no_grad()
    def step():
        x = begun
        for turn in range(rounds):
            when = torch.full((rows,), 999 - turn * (999 // rounds), device=DEVICE)
            beta, spread, back, variance = (extract(values, when) for values in schedule)
            told = model(x.bfloat16(), when).float()
            x = back * (x - beta * told / spread) + variance.sqrt() * drawn[turn]
        return x.clamp(-1, 1).add(1).mul(127.5).byte().cpu()

    return step


@pair("freeze_parameters", libraries=("torchvision",))
def parcels_evaluated_with_gradients(fixed):
    """An EfficientNet-V2-S of torchvision in bf16, with channels last, is evaluated on 16 pictures of parcels a step
    (224 x 224): which of 40 are damaged in which way. It is in `eval()`, but nobody said `torch.no_grad()`, so that
    autograd makes a node of each of some 700 operators and keeps what they read. Launches set the pace. The
    remedy is `torch.no_grad()`, which takes a part of each launch away."""
    from torchvision.models import efficientnet_v2_s

    rows, side, kinds = n(16, 2), n(224, 64), 40
    model = on_device(lambda: efficientnet_v2_s(num_classes=kinds)).bfloat16().eval()
    model = model.to(memory_format=LAST)
    seen = noise(rows, 3, side, side).bfloat16().contiguous(memory_format=LAST)
    true = whole(kinds, rows)
    right = torch.zeros((), device=DEVICE)

    def step():
        told = model(seen)
        right.add_((told.argmax(-1) == true).sum())
        return told.argmax(-1).tolist()

    return torch.no_grad()(step) if fixed else step


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


@good("copy_ahead", "no_recompute", found=True)
def good_rallies(version):
    """A transformer for clips (12 layers, 768 wide) learns in bf16 autocast how a rally ends, from eight clips of 16
    frames of 224 x 224, which come as bytes from pinned memory: 19 MB, half a millisecond. The part that cuts them
    into tubes is checkpointed, which costs little beside the layers. Neither to copy a batch ahead nor to compute the
    tubes once brings much."""
    rows, frames, side, kinds, width = n(8, 2), n(16, 4), n(224, 32), n(8, 3), n(768, 16)
    cut = on_device(lambda: nn.Conv3d(3, width, (2, 16, 16), (2, 16, 16)))
    last = on_device(lambda: nn.Linear(width, kinds))
    model = nn.ModuleList((cut, layers(width, n(12, 1)), last)).train()
    clips = torch.randint(256, (n(4, 2), rows, 3, frames, side, side), dtype=torch.uint8)
    batches = itertools.cycle(clips.pin_memory() if PINNED else clips)
    ahead = _Ahead(batches) if version == "copy_ahead" else None
    true = whole(kinds, rows)

    def tubes(seen):
        return cut(seen).flatten(2).transpose(1, 2).contiguous()

    def loss():
        seen = next(ahead) if ahead else next(batches).to(DEVICE, non_blocking=True)
        seen = seen.float().div_(127.5).sub_(1)
        again = version != "no_recompute"
        x = checkpoint(tubes, seen, use_reentrant=False) if again else tubes(seen)
        return F.cross_entropy(last(model[1](x).mean(1)).float(), true)

    return train(model, loss, cast=True)
