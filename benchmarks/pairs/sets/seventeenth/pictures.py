"""Pictures and sound: lines, walkers, voices, sounds, hills, statues; good: streets and traffic."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device

PINNED = DEVICE == "cuda"
LAST = torch.channels_last


def _convolved(before, after, stride=1, *, size=3):
    """A convolution, its norm, and ReLU."""
    inner = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
    return nn.Sequential(inner, nn.BatchNorm2d(after), nn.ReLU(inplace=True))


class _Doubled(Module):
    """A residual block of two convolutions."""

    def __init__(self, before, after, stride):
        self.first = _convolved(before, after, stride)
        self.second = nn.Sequential(
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)
        )
        self.around = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.around(x))


def _residual(before, widths):
    """Two residual blocks for each width; each but the first halves the sides."""
    made = [_convolved(before, widths[0], 2, size=7)]
    for number, (old, new) in enumerate(itertools.pairwise((widths[0], *widths))):
        made += [_Doubled(old, new, 1 + (number > 0)), _Doubled(new, new, 1)]
    return nn.Sequential(*made)


class _Lines(Dataset):
    """Lines of handwriting, bent, slanted and soiled anew each time."""

    def __init__(self, high, wide, letters, said):
        drawn = np.random.default_rng(4)
        self.lines = drawn.integers(0, 256, (64, high, wide), dtype=np.uint8)
        self.texts = drawn.integers(1, letters, (64, said))
        self.high, self.wide = np.mgrid[:high, :wide].astype(np.float32)

    def __len__(self):
        return 50_000

    def __getitem__(self, number):
        drawn = np.random.default_rng(number)
        line = self.lines[number % 64].astype(np.float32) / 255
        bent = drawn.uniform(-2, 2) * np.sin(self.wide / drawn.uniform(20, 60))
        slanted = drawn.uniform(-0.3, 0.3) * (self.high - line.shape[0] / 2)
        up = (self.high + bent).clip(0, line.shape[0] - 1.001)
        right = (self.wide + slanted).clip(0, line.shape[1] - 1.001)
        down, along = up % 1, right % 1
        row, column = up.astype(np.int64), right.astype(np.int64)
        above = line[row, column] * (1 - along) + line[row, column + 1] * along
        below = line[row + 1, column] * (1 - along) + line[row + 1, column + 1] * along
        line = above * (1 - down) + below * down
        line += drawn.normal(0, 0.05, line.shape).astype(np.float32)
        return torch.from_numpy(line)[None], torch.from_numpy(self.texts[number % 64])


class _Reader(Module):
    """A CRNN: convolutions see a line, an LSTM reads along it, in both directions."""

    def __init__(self, high, width, letters):
        parts, before = [], 1
        for after, pool in ((width // 4, 2), (width // 2, 2), (width, (2, 1)), (width, (2, 1))):
            parts += [_convolved(before, after), nn.MaxPool2d(pool)]
            before = after
        self.eyes = nn.Sequential(*parts)
        told = width * (high // 16)
        self.along = nn.LSTM(told, width, 2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(2 * width, letters)

    def forward(self, x):
        seen = self.eyes(x).flatten(1, 2).transpose(1, 2)
        return self.last(self.along(seen)[0])


@pair("data_loader_workers", found=True)
def lines_bent_in_the_training_loop(fixed):
    """A CRNN learns in bf16 autocast to read 32 lines of handwriting a step, with the CTC loss. The data set
    bends and slants each line with numpy, and the loader has no workers, so that the training loop waits
    for that. The remedy has eight workers."""
    rows, high, wide, letters, said = n(32, 2), n(40, 16), n(384, 48), n(80, 7), n(32, 3)
    loader = DataLoader(
        _Lines(high, wide, letters, said),
        batch_size=rows,
        shuffle=True,
        num_workers=n(8, 1) if fixed else 0,
        persistent_workers=fixed,
        pin_memory=PINNED,
        drop_last=True,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    model = on_device(lambda: _Reader(high, n(256, 16), letters)).train()
    seen, spelt = (wide // 4,) * rows, (said,) * rows

    def loss():
        lines, texts = (part.to(DEVICE, non_blocking=True) for part in next(batches))
        told = model(lines).float().log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(told, texts, seen, spelt, zero_infinity=True)

    return train(model, loss, cast=True)


@pair("batch_calls")
def walkers_recognised_one_by_one(fixed):
    """A camera's tracker recognises 20 people in each frame (1080 x 1920): each is cut out and made 256 x 128,
    and a residual network in bf16 makes a vector of them, in a call for each. Then all are compared with
    512 who are known. The remedy calls the network once with all."""
    people, high, wide = n(20, 3), n(1080, 60), n(1920, 80)
    size = n(256, 32), n(128, 16)
    widths = (n(64, 8), n(128, 8), n(256, 16), n(512, 16))
    eye = on_device(lambda: _residual(3, widths)).bfloat16().eval().to(memory_format=LAST)
    known = F.normalize(noise(n(512, 5), widths[-1], dtype=torch.bfloat16), dim=-1)
    frames = itertools.cycle(torch.rand(2, 3, high, wide, device=DEVICE).bfloat16())
    drawn = np.random.default_rng(5)
    tops, lefts = drawn.integers(0, high // 2, people), drawn.integers(0, wide // 2, people)
    boxes = [(top, left, high // 3, wide // 9) for top, left in zip(tops, lefts, strict=True)]

    def cut(frame, top, left, tall, broad):
        one = frame[None, :, top : top + tall, left : left + broad]
        one = F.interpolate(one, size, mode="bilinear", align_corners=False)
        return ((one - 0.45) / 0.22).contiguous(memory_format=LAST)

    def vectors(pictures):
        return F.normalize(eye(pictures).mean((2, 3)), dim=-1)

    def in_turn(pictures):
        return torch.cat([vectors(picture) for picture in pictures])

    @torch.no_grad()
    def step():
        frame = next(frames)
        pictures = [cut(frame, *box) for box in boxes]
        seen = vectors(torch.cat(pictures)) if fixed else in_turn(pictures)
        return (seen @ known.t()).max(1)

    return step


class _Codebook(Module):
    """Vectors that a codec may say, each the average of what was said by it; idle ones are replaced."""

    def __init__(self, codes, width, *, asks):
        self.asks = asks
        self.register_buffer("begun", torch.ones(1, dtype=torch.bool))
        self.register_buffer("codes", torch.randn(codes, width) * 0.3)
        self.register_buffer("sums", self.codes.clone())
        self.register_buffer("used", torch.full((codes,), 8.0))
        self.register_buffer("ones", torch.ones(1))

    @torch.no_grad()
    def learn(self, told, chosen):
        """Move the averages, and replace what is idle by what was told just now."""
        now = torch.zeros_like(self.used).index_add(0, chosen, self.ones.expand(len(chosen)))
        self.used.lerp_(now, 0.01)
        self.sums.lerp_(torch.zeros_like(self.sums).index_add(0, chosen, told), 0.01)
        self.codes.copy_(self.sums / (self.used[:, None] + 1e-5))
        idle = self.used < 0.5
        if self.asks and not torch.any(idle):
            return
        some = told.repeat(len(self.codes) // len(told) + 1, 1)[: len(self.codes)]
        self.codes.copy_(torch.where(idle[:, None], some, self.codes))
        self.sums.copy_(torch.where(idle[:, None], some, self.sums))
        self.used.masked_fill_(idle, 1.0)

    def forward(self, told):
        if self.asks and not self.begun:
            self.codes.copy_(told[: len(self.codes)])
        with torch.no_grad():
            far = self.codes.square().sum(1) - 2 * told @ self.codes.t()
            chosen = far.argmin(1)
        said = F.embedding(chosen, self.codes)
        self.learn(told, chosen)
        return said


class _Codec(Module):
    """A codec of speech: convolutions, codebooks that each say what the ones before left, convolutions."""

    def __init__(self, width, strides, codebooks, codes, *, asks):
        ahead, back, wide = [nn.Conv1d(1, width, 7, padding=3)], [], width
        for stride in strides:
            ahead += [nn.ELU(), nn.Conv1d(wide, wide, 3, padding=1), nn.ELU()]
            ahead.append(nn.Conv1d(wide, 2 * wide, 2 * stride, stride, (stride + 1) // 2))
            more = nn.ConvTranspose1d(2 * wide, wide, 2 * stride, stride, (stride + 1) // 2)
            back = [nn.ELU(), more, nn.ELU(), nn.Conv1d(wide, wide, 3, padding=1), *back]
            wide *= 2
        self.ahead = nn.Sequential(*ahead)
        self.back = nn.Sequential(*back, nn.ELU(), nn.Conv1d(width, 1, 7, padding=3))
        self.books = nn.ModuleList(_Codebook(codes, wide, asks=asks) for _ in range(codebooks))

    def forward(self, x):
        told = self.ahead(x).transpose(1, 2)
        left, said = told.float().flatten(0, 1), 0.0
        for book in self.books:
            part = book(left.detach())
            said, left = said + part, left - part
        passed = told + (said.view_as(told) - told).detach()
        return self.back(passed.transpose(1, 2)), left.square().mean()


@pair("remove_syncs", found=True)
def voices_idle_codes_asked_for(fixed):
    """A codec of speech learns from 24 voices of a second, in bf16 autocast: convolutions, and 16 codebooks of
    1024 vectors. As in published code, each codebook asks the GPU in every step whether it has begun, and
    whether any of its vectors is idle, to replace those. The remedy does not ask: it has begun, and
    `torch.where` replaces what is idle, if anything."""
    torch.set_float32_matmul_precision("high")
    rows, long, width = n(24, 2), n(24_000, 128), n(32, 4)
    strides = n((2, 4, 5, 8), (2, 4))
    model = on_device(lambda: _Codec(width, strides, n(16, 2), n(1024, 8), asks=not fixed)).train()
    voices = noise(rows, 1, long)

    def loss():
        heard, left = model(voices)
        shorter = min(long, heard.shape[-1])
        return F.l1_loss(heard[..., :shorter].float(), voices[..., :shorter]) + 0.25 * left

    return train(model, loss, cast=True)


@pair("channels_last", found=True)
def sounds_named_contiguously(fixed):
    """A network of convolutions (PANNs' CNN10, and a stage more) learns in bf16 autocast which of 527 sounds
    are heard in 32 spectrograms of 640 frames. Its tensors are contiguous, as they are by default; the
    remedy is `channels_last`."""
    rows, frames, bins, kinds = n(32, 2), n(640, 32), n(64, 32), n(527, 4)
    parts, before = [], 1
    for after in n((64, 128, 256, 512, 1024), (4, 8)):
        parts += [_convolved(before, after), _convolved(after, after), nn.AvgPool2d(2)]
        before = after
    eyes = nn.Sequential(*parts).to(DEVICE).train()
    last = mlp(before, before, kinds, between=nn.ReLU)
    heard, named = noise(rows, 1, frames, bins), (torch.rand(rows, kinds, device=DEVICE) < 0.01)
    if fixed:
        eyes, heard = eyes.to(memory_format=LAST), heard.to(memory_format=LAST)

    def loss():
        told = last(eyes(heard).mean((2, 3)))
        return F.binary_cross_entropy_with_logits(told.float(), named.float())

    return train(nn.ModuleList((eyes, last)), loss, cast=True)


class _Hills(Module):
    """A diffusion transformer for heights, told by the time and by a coarse map."""

    def __init__(self, width, depth, patch):
        self.patch = patch
        self.first = nn.Conv2d(2, width, patch, patch)
        self.of_time = nn.Linear(1, width)
        self.body = layers(width, depth)
        self.last = nn.Linear(width, patch**2)

    def forward(self, x, coarse, time):
        side = x.shape[-1] // self.patch
        told = self.first(torch.cat((x, coarse), 1)).flatten(2).transpose(1, 2)
        told = self.last(self.body(told + self.of_time(time[:, None])[:, None]))
        return F.pixel_shuffle(told.transpose(1, 2).unflatten(2, (side, side)), self.patch)


@pair("low_precision", found=True)
def hills_diffused_in_fp32(fixed):
    """A diffusion transformer (12 layers, 768 wide) learns to draw the hills that a coarse map leaves out, from
    six maps of 256 x 256 a step in patches of 8 x 8. It learns in fp32 with TF32 allowed; the remedy is
    autocast to bf16."""
    torch.set_float32_matmul_precision("high")
    rows, side = n(6, 2), n(256, 16)
    model = on_device(lambda: _Hills(n(768, 16), n(12, 1), n(8, 4))).train()
    hills, start = noise(rows, 1, side, side), noise(rows, 1, side, side)
    coarse = F.interpolate(F.avg_pool2d(hills, 8), (side, side), mode="bilinear")
    times = torch.rand(rows, device=DEVICE)

    def loss():
        mixed = torch.lerp(start, hills, times[:, None, None, None])
        return F.mse_loss(model(mixed, coarse, times).float(), hills - start)

    return train(model, loss, cast=fixed)


PRIMES = (1, 2_654_435_761, 805_459_861)


def _looked_up(where, table, sizes):
    """What tables of all levels know of points: that of the eight corners around each, mixed."""
    levels, slots, _ = table.shape
    at = where[:, None] * sizes[:, None]
    low = at.floor()
    part, low = at - low, low.long()
    told = 0.0
    begins = torch.arange(levels, device=where.device) * slots
    for corner in itertools.product((0, 1), repeat=3):
        slot, share = 0, 1.0
        for axis, upper in enumerate(corner):
            slot = slot ^ ((low[..., axis] + upper) * PRIMES[axis])
            share = share * (part[..., axis] if upper else 1 - part[..., axis])
        known = F.embedding(slot % slots + begins, table.flatten(0, 1))
        told = told + share[..., None] * known
    return told.flatten(1)


@pair("compile", found=True, early=("fix",))
def statues_hash_grid_in_eager(fixed):
    """A network learns how far 65 536 points are from a statue, as Instant-NGP does: tables of 12 levels tell
    what is known at the eight corners around a point, by a hash, and a small network takes it from there, TF32
    allowed. The grid is written in plain PyTorch, operator by operator; the remedy compiles its
    function."""
    torch.set_float32_matmul_precision("high")
    rows, levels, slots = n(65_536, 8), n(12, 2), n(2**18, 2**6)
    looked_up = torch.compile(_looked_up) if fixed else _looked_up
    table = nn.Parameter(0.01 * noise(levels, slots, 2))
    sizes = 16 * 1.5 ** torch.arange(levels, device=DEVICE)
    net = mlp(2 * levels, n(64, 8), n(64, 8), 1, between=nn.ReLU)
    where, far = torch.rand(rows, 3, device=DEVICE), noise(rows, 1)
    optimizer = torch.optim.Adam([table, *net.parameters()], 1e-3, fused=True)
    return train(optimizer, lambda: F.mse_loss(net(looked_up(where, table, sizes)), far))


class _Pillars(Module):
    """PointPillars: points are told to the cells of a map from above, which convolutions see."""

    def __init__(self, side, width):
        self.side, self.width = side, width
        self.each = nn.Sequential(nn.Linear(4, width), nn.ReLU())
        self.eyes = _residual(width, (width, 2 * width, 4 * width))
        self.last = nn.Conv2d(4 * width, 9, 1)

    def forward(self, points):
        rows = len(points)
        cells = (points[..., :2].clamp(0, 0.999) * self.side).long()
        of = torch.arange(rows, device=DEVICE)[:, None] * self.side
        cells = ((of + cells[..., 0]) * self.side + cells[..., 1]).flatten()
        told = self.each(points).flatten(0, 1)
        seen = told.new_zeros(rows * self.side**2, self.width).index_add(0, cells, told)
        seen = seen.view(rows, self.side, self.side, self.width).permute(0, 3, 1, 2)
        return self.last(self.eyes(seen))


@good("pinned_memory", "larger_batch", found=True)
def good_traffic(version):
    """PointPillars learn in bf16 autocast, with channels last, to find cars in six clouds of 20 000 points
    from a laser. Clouds come from pageable memory in halves, a megabyte a step; the convolutions above them
    are long, and fill the GPU."""
    rows = n(6, 2) * (2 if version == "larger_batch" else 1)
    side = n(512, 16)
    model = on_device(lambda: _Pillars(side, n(64, 8))).train().to(memory_format=LAST)
    clouds = torch.rand(4, rows, n(20_000, 30), 4).half()
    if version == "pinned_memory" and PINNED:
        clouds = clouds.pin_memory()
    batches = itertools.cycle(clouds)
    wanted = noise(rows, 9, side // 8, side // 8)

    def loss():
        points = next(batches).to(DEVICE, non_blocking=True).float()
        return F.smooth_l1_loss(model(points).float(), wanted)

    return train(model, loss, cast=True)


class _Centres(Module):
    """CenterNet: a map of where things are, and how large."""

    def __init__(self, widths, kinds):
        self.eyes = _residual(3, widths)
        ups = []
        for before, after in itertools.pairwise(reversed(widths)):
            ups += [nn.ConvTranspose2d(before, after, 2, 2, bias=False)]
            ups += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.up = nn.Sequential(*ups)
        self.last = nn.Conv2d(widths[0], kinds + 2, 3, padding=1)

    def forward(self, x):
        return self.last(self.up(self.eyes(x)))


@good("cuda_graph", "remove_syncs", found=True)
def good_streets(version):
    """A CenterNet learns in bf16 autocast, with channels last and the fused AdamW, to find ten kinds of things
    in eight pictures of 512 x 512. The loss is read at the end of a step; kernels are large, so that neither
    this nor launching them one by one costs much."""
    rows, side, kinds = n(8, 2), n(512, 32), n(10, 2)
    widths = n((64, 128, 256, 512), (8, 8))
    model = on_device(lambda: _Centres(widths, kinds)).train().to(memory_format=LAST)
    captured = version == "cuda_graph"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=captured)
    streets = noise(rows, 3, side, side).to(memory_format=LAST)
    centres = torch.rand(rows, kinds, side // 2, side // 2, device=DEVICE) ** 8
    sizes = noise(rows, 2, side // 2, side // 2)
    lost = torch.zeros((), device=DEVICE)

    def update():
        with autocast():
            told = model(streets).float()
        where = F.binary_cross_entropy_with_logits(told[:, :kinds], centres)
        loss = where + 0.1 * F.l1_loss(told[:, kinds:], sizes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        lost.copy_(loss.detach())

    update = graphed(update) if captured else update

    def step():
        update()
        return lost if version == "remove_syncs" else lost.item()

    return step
