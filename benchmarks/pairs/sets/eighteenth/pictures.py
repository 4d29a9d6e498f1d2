"""Pictures: tumours, posters, drills, fungi, birds; good: rivers and rooms."""

import itertools
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, noise, on_device, whole

LAST = torch.channels_last


def _twice(before, after):
    """Two convolutions, each with its norm."""
    made = []
    for wide in (before, after):
        made += [nn.Conv2d(wide, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
        made += [nn.ReLU(inplace=True)]
    return nn.Sequential(*made)


class _UNet(Module):
    """A U-Net for pictures: each stage halves the sides, the way back doubles them."""

    def __init__(self, channels, widths, kinds):
        steps = list(itertools.pairwise(widths))
        self.first = _twice(channels, widths[0])
        self.down = nn.ModuleList(_twice(a, b) for a, b in steps)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in steps)
        self.join = nn.ModuleList(_twice(2 * a, a) for a, _ in steps)
        self.last = nn.Conv2d(widths[0], kinds, 1)

    def forward(self, x):
        seen = [self.first(x)]
        for stage in self.down:
            seen.append(stage(F.max_pool2d(seen[-1], 2)))
        x = seen.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            x = join(torch.cat((seen.pop(), up(x)), 1))
        return self.last(x)


class _DiceAndEntropy(Module):
    """The sum of the Dice loss and the cross-entropy."""

    def forward(self, told, true):
        told = told.float()
        likely = told.softmax(1)
        wanted = F.one_hot(true, told.shape[1]).movedim(-1, 1).to(likely.dtype)
        both = (likely * wanted).sum((2, 3))
        dice = (2 * both + 1) / (likely.sum((2, 3)) + wanted.sum((2, 3)) + 1)
        return F.cross_entropy(told, true) + 1 - dice.mean()


@pair("remove_syncs", found=True)
def tumours_anomaly_mode_left_on(fixed):
    """A U-Net (five stages) learns in bf16 autocast, with channels last, to outline tumours in 16 pictures of
    256 x 256, by cross-entropy and Dice loss. Somebody looked for a NaN once, and
    `torch.autograd.set_detect_anomaly(True)` was left on: it keeps a stack of Python for each operator, and
    reads from the GPU whether any gradient is NaN. The remedy turns anomaly detection off."""
    rows, side, kinds = n(16, 2), n(256, 32), n(4, 3)
    widths = n((32, 64, 128, 256, 512), (4, 8))
    model = on_device(lambda: _UNet(1, widths, kinds)).train().to(memory_format=LAST)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    scans, true = noise(rows, 1, side, side).to(memory_format=LAST), whole(kinds, rows, side, side)
    criterion = _DiceAndEntropy()

    def step():
        with torch.autograd.set_detect_anomaly(not fixed):
            with autocast():
                told = model(scans)
            criterion(told, true).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class _Encoder(Module):
    """The encoder of an autoencoder for pictures: blocks with GroupNorm, an eighth of the sides."""

    def __init__(self, widths, latent):
        groups = n(32, 2)
        made = [nn.Conv2d(3, widths[0], 3, padding=1)]
        for before, after in itertools.pairwise((widths[0], *widths)):
            for old, stride in ((before, 1), (after, 1), (after, 2)):
                made += [nn.GroupNorm(groups, old), nn.SiLU()]
                made.append(nn.Conv2d(old, after, 3, stride, 1))
        self.body = nn.Sequential(*made, nn.GroupNorm(groups, widths[-1]), nn.SiLU())
        self.last = nn.Conv2d(widths[-1], 2 * latent, 3, padding=1)

    def forward(self, x):
        mean, _ = self.last(self.body(x)).chunk(2, 1)
        return 0.18215 * mean


class _Painter(Module):
    """A diffusion transformer for latents, told by the time and by a text."""

    def __init__(self, latent, width, depth, told):
        self.first = nn.Conv2d(latent, width, 2, 2)
        self.of_time, self.of_text = nn.Linear(1, width), nn.Linear(told, width)
        self.body = layers(width, depth)
        self.last = nn.Linear(width, 4 * latent)

    def forward(self, x, time, text):
        side = x.shape[-1] // 2
        places = self.first(x).flatten(2).transpose(1, 2)
        told = self.of_time(time[:, None]) + self.of_text(text)
        places = self.last(self.body(places + told[:, None]))
        return F.pixel_shuffle(places.transpose(1, 2).unflatten(2, (side, side)), 2)


class _Posters:
    """A small collection of pictures with their texts, whose latents may be kept."""

    def __init__(self, count, rows, encode, *, cached):
        side, long, words = n(256, 16), n(77, 4), n(49_408, 30)
        self.pictures = torch.rand(count, 3, side, side, device=DEVICE).mul(255).byte()
        self.texts = whole(words, count, long)
        self.encode, self.rows = encode, rows
        parts = [self.encoded(some) for some in self.numbers()] if cached else []
        self.kept = [torch.cat(part) for part in zip(*parts, strict=True)]

    def numbers(self):
        return torch.arange(len(self.pictures), device=DEVICE).split(self.rows)

    def encoded(self, some):
        with torch.no_grad(), autocast():
            pictures = self.pictures[some].float() / 127.5 - 1
            return self.encode(pictures.contiguous(memory_format=LAST), self.texts[some])

    def __iter__(self):
        for some in itertools.cycle(self.numbers()):
            yield [one[some] for one in self.kept] if self.kept else self.encoded(some)


@pair("no_recompute", found=True)
def posters_encoded_in_every_epoch(fixed):
    """A diffusion transformer (12 layers, 512 wide) is fine-tuned in bf16 autocast on 96 posters of 256 x 256,
    16 a step. A frozen autoencoder and a frozen reader of texts (12 layers, 768 wide) make latents and
    vectors of the same posters in every epoch. The remedy caches latents and text embeddings: they are
    computed once, before training."""
    count, rows, latent, told = n(96, 4), n(16, 2), n(4, 2), n(768, 16)
    encoder = on_device(lambda: _Encoder(n((128, 256, 512), (4, 8)), latent)).eval()
    encoder = encoder.to(memory_format=LAST).requires_grad_(requires_grad=False)
    table = on_device(lambda: nn.Embedding(n(49_408, 30), told))
    reader = nn.Sequential(table, layers(told, n(12, 1))).requires_grad_(requires_grad=False)
    painter = on_device(lambda: _Painter(latent, n(512, 16), n(12, 1), told)).train()

    def encode(pictures, texts):
        return encoder(pictures), reader(texts).mean(1)

    batches = iter(_Posters(count, rows, encode, cached=fixed))
    times, start = torch.rand(rows, device=DEVICE), noise(rows, latent, n(32, 4), n(32, 4))

    def loss():
        latents, texts = next(batches)
        latents = latents.float()
        mixed = torch.lerp(start, latents, times[:, None, None, None])
        return F.mse_loss(painter(mixed, times, texts).float(), latents - start)

    return train(painter, loss, cast=True)


MEAN, DEVIATION = (0.432, 0.395, 0.376), (0.228, 0.221, 0.217)


class _Normalized:
    """Bytes of a clip as numbers around zero, as a transform of a data set does it."""

    def __init__(self, device):
        self.mean = torch.tensor(MEAN, device=device)[:, None, None, None]
        self.deviation = torch.tensor(DEVIATION, device=device)[:, None, None, None]

    def __call__(self, clips):
        return (clips.float() / 255 - self.mean) / self.deviation


class _Tubes(Module):
    """A transformer for clips: tubes of two frames, 16 x 16 pixels."""

    def __init__(self, width, depth, patch, kinds):
        self.first = nn.Conv3d(3, width, patch, patch)
        self.body = layers(width, depth)
        self.last = nn.Linear(width, kinds)

    def forward(self, x):
        return self.last(self.body(self.first(x).flatten(2).transpose(1, 2)).mean(1))


@pair("copy_less", found=True)
def drills_normalized_before_the_copy(fixed):
    """A transformer for clips (six layers, 384 wide) learns in bf16 autocast which of 60 fire drills is shown, by
    eight clips of 16 frames of 224 x 224 a step. The loop normalizes their bytes on the host, and copies
    fp32 to the GPU, four times as much. The remedy copies uint8, and normalizes on the GPU."""
    rows, frames, side, kinds = n(8, 2), n(16, 4), n(224, 16), n(60, 3)
    patch = n((2, 16, 16), (2, 8, 8))
    model = on_device(lambda: _Tubes(n(384, 16), n(6, 1), patch, kinds)).train()
    drawn = np.random.default_rng(5)
    shots = drawn.integers(0, 256, (4, rows, 3, frames, side, side), dtype=np.uint8)
    clips, shown = itertools.cycle(shots), whole(kinds, rows)
    normalized = _Normalized(DEVICE if fixed else "cpu")

    def loss():
        batch = torch.from_numpy(next(clips))
        batch = normalized(batch.to(DEVICE)) if fixed else normalized(batch).to(DEVICE)
        return F.cross_entropy(model(batch).float(), shown)

    return train(model, loss, cast=True)


class _Seer(Module):
    """A transformer for pictures, given in patches."""

    def __init__(self, patch, places, width, depth, kinds):
        self.first = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.zeros(1, places, width))
        self.blocks = layers(width, depth)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, kinds))

    def forward(self, x):
        told = self.first(x).flatten(2).transpose(1, 2) + self.places
        return self.last(self.blocks(told).mean(1))


def _seer(width, depth, kinds):
    """Such a network for pictures of 224 x 224, in patches of 16 x 16."""
    places = n(14, 2) ** 2
    return on_device(lambda: _Seer(n(16, 4), places, width, depth, kinds))


def _rates(model, rate, decay):
    """Groups of an optimizer by layer: the deeper a layer, the slower it learns; what has one dimension has
    no weight decay."""
    depth = len(model.blocks)
    for name, weight in model.named_parameters():
        if not name.startswith(("blocks", "last")):
            layer = 0
        else:
            layer = int(name.split(".")[1]) + 1 if name.startswith("blocks") else depth + 1
        how = {"lr": rate * decay ** (depth + 1 - layer)}
        yield weight, how | {"weight_decay": 0.05 if weight.dim() > 1 else 0.0}


def _merged(groups):
    """One group for all weights that learn alike."""
    alike = {}
    for weight, how in groups:
        alike.setdefault(tuple(how.items()), []).append(weight)
    return [{"params": weights, **dict(how)} for how, weights in alike.items()]


@pair("fused_optimizer", found=True)
def fungi_group_for_each_weight(fixed):
    """A transformer for pictures (24 layers, 384 wide) is fine-tuned in bf16 autocast to name 100 fungi, by 16
    pictures of 224 x 224 a step, with a smaller rate for deeper layers. A loop over `named_parameters`
    makes a parameter group for each of some 290 weights, so that AdamW goes through them one by one. The
    remedy merges groups that are alike, and uses the fused AdamW (`fused=True`)."""
    rows, kinds = n(16, 2), n(100, 4)
    model = _seer(n(384, 16), n(24, 2), kinds).train()
    groups = list(_rates(model, 1e-3, 0.75))
    if fixed:
        optimizer = torch.optim.AdamW(_merged(groups), fused=True)
    else:
        optimizer = torch.optim.AdamW([{"params": [weight], **how} for weight, how in groups])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / 500))
    side = n(14, 2) * n(16, 4)
    pictures, true = noise(rows, 3, side, side), whole(kinds, rows)

    def step():
        with autocast():
            told = model(pictures)
        F.cross_entropy(told.float(), true, label_smoothing=0.1).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return step


class _Distiller(Module):
    """What a student learns: to name pictures, and to be as sure as its teacher."""

    def __init__(self, student, teacher, *, guarded, warmth=4.0):
        self.student, self.teacher = student, teacher.eval()
        self.guarded, self.warmth = guarded, warmth

    def forward(self, pictures, true):
        told = self.student(pictures).float()
        with torch.set_grad_enabled(not self.guarded):
            known = self.teacher(pictures).float()
        softly = F.log_softmax(told / self.warmth, -1)
        wanted = F.softmax(known / self.warmth, -1)
        apart = F.kl_div(softly, wanted, reduction="batchmean") * self.warmth**2
        return 0.5 * apart + 0.5 * F.cross_entropy(told, true)


@pair("freeze_parameters", found=True)
def birds_taught_by_a_teacher_with_gradients(fixed):
    """A small transformer for pictures (eight layers, 384 wide) learns in bf16 autocast to name 200 birds as a
    larger one does (12 layers, 768 wide), by 96 pictures a step. The teacher is in `eval()`, which stops no
    gradients: the backward pass goes through all of it, too. The remedy calls it under
    `torch.no_grad()`."""
    rows, kinds = n(96, 2), n(200, 4)
    student, teacher = _seer(n(384, 16), n(8, 1), kinds), _seer(n(768, 16), n(12, 2), kinds)
    distiller = _Distiller(student, teacher, guarded=fixed).train()
    optimizer = torch.optim.AdamW(student.parameters(), 1e-4, fused=True)
    side = n(14, 2) * n(16, 4)
    pictures, true = noise(rows, 3, side, side), whole(kinds, rows)
    return train(optimizer, lambda: distiller(pictures, true), cast=True)


class _Meter:
    """How long a part of a step takes on average."""

    def __init__(self, *, waits):
        self.waits, self.seconds, self.times = waits, {}, 0

    def told(self, name, begin):
        if self.waits and DEVICE == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - begin
        return now


@good("remove_syncs", found=True)
def good_rivers(version):
    """A U-Net (five stages) learns in bf16 autocast, with channels last, where rivers are in eight pictures of
    512 x 512 with six bands. Its loop waits for the GPU after the forward pass, the backward pass, and the
    optimizer, to tell how long each took, and reads the loss. Kernels are long next to that; not to wait
    brings nothing."""
    rows, side, kinds = n(8, 2), n(512, 32), n(5, 3)
    widths = n((64, 128, 256, 512, 1024), (4, 8))
    model = on_device(lambda: _UNet(6, widths, kinds)).train().to(memory_format=LAST)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    bands, true = noise(rows, 6, side, side).to(memory_format=LAST), whole(kinds, rows, side, side)
    waits = version != "remove_syncs"
    meter = _Meter(waits=waits)

    def step():
        begin = time.perf_counter()
        with autocast():
            told = model(bands)
        loss = F.cross_entropy(told.float(), true)
        begin = meter.told("forward", begin)
        loss.backward()
        begin = meter.told("backward", begin)
        optimizer.step()
        optimizer.zero_grad()
        meter.told("optimizer", begin)
        return loss.item() if waits else loss.detach()

    return step


class _Cloud(Module):
    """PointNet: each point by itself, then the largest of all, told to each again."""

    def __init__(self, width, kinds):
        self.each = nn.Sequential(*_points(3, width, 2 * width, 16 * width))
        self.again = nn.Sequential(*_points(32 * width, 8 * width, 4 * width))
        self.last = nn.Conv1d(4 * width, kinds, 1)

    def forward(self, points):
        told = self.each(points)
        whole_cloud = told.amax(2, keepdim=True).expand_as(told)
        return self.last(self.again(torch.cat((told, whole_cloud), 1)))


def _points(*widths):
    """Convolutions of single points, with norms."""
    for before, after in itertools.pairwise(widths):
        yield nn.Sequential(nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU())


@good("cuda_graph", "larger_batch", found=True)
def good_rooms(version):
    """A PointNet learns in bf16 autocast what each of 4096 points of 64 rooms belongs to, with the fused AdamW.
    It is small, but points are many: kernels are long, so that neither a CUDA graph nor a larger batch
    brings anything."""
    rows = n(64, 3) * (2 if version == "larger_batch" else 1)
    points, kinds = n(4096, 16), n(13, 3)
    model = on_device(lambda: _Cloud(n(64, 4), kinds)).train()
    captured = version == "cuda_graph"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True, capturable=captured)
    rooms, true = noise(rows, 3, points), whole(kinds, rows, points)

    def loss():
        return F.cross_entropy(model(rooms).float(), true)

    step = train(optimizer, loss, cast=True)
    return graphed(step) if captured else step
