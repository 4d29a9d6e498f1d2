"""Pictures and films: learnt, drawn, enlarged and told apart."""

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.eleventh.parts import Block, ids_below, normal


@pair("channels_last", found=True, libraries=("torchvision",))
def birds_against_a_queue(fixed):
    """A ResNet-50 of torchvision learns by contrast with a queue of 65 536 keys of its slow copy
    (MoCo), in bf16 autocast and contiguous; the remedy is `channels_last`."""
    from torchvision.models import resnet50

    layout = torch.channels_last if fixed else torch.contiguous_format
    batch, side = n(64, 2), n(224, 32)
    with torch.device(DEVICE):
        encoder = resnet50(num_classes=128).to(memory_format=layout)
    slow = copy.deepcopy(encoder).requires_grad_(False)
    of_slow, of_encoder = [*slow.parameters()], [*encoder.parameters()]
    queue = F.normalize(normal(n(65_536, 16), 128), dim=1)
    views = [normal(batch, 3, side, side).contiguous(memory_format=layout) for _ in range(2)]
    first = torch.zeros(batch, dtype=torch.long, device=DEVICE)
    optimizer = torch.optim.SGD(encoder.parameters(), 0.03, momentum=0.9, fused=True)
    at = 0

    def step():
        nonlocal at
        with autocast():
            with torch.no_grad():
                torch._foreach_lerp_(of_slow, of_encoder, 0.001)
                keys = F.normalize(slow(views[1]).float(), dim=1)
            asked = F.normalize(encoder(views[0]).float(), dim=1)
            told = torch.cat(((asked * keys).sum(1, keepdim=True), asked @ queue.t()), 1)
        F.cross_entropy(told.float() / 0.2, first).backward()
        optimizer.step()
        optimizer.zero_grad()
        queue[at : at + batch] = keys
        at = (at + batch) % len(queue)

    return step


def _rounded(x, scale):
    """To 8 bits and back; gradients pass where nothing was clipped."""
    steps = torch.clamp(x / scale, -128, 127)
    steps = steps + (steps.round() - steps).detach()
    return steps * scale


class Quantised(Module):
    """A convolution of values that 8 bits can tell."""

    def __init__(self, width, *, builtin):
        self.builtin = builtin
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.register_buffer("scale", torch.tensor([4 / 127]))
        self.register_buffer("zero", torch.zeros(1, dtype=torch.int32))

    def to_bits(self, x, scale):
        if self.builtin:
            return torch.fake_quantize_per_tensor_affine(x, scale, self.zero, -128, 127)
        return _rounded(x, scale)

    def forward(self, x):
        weight = self.conv.weight
        weight = self.to_bits(weight, weight.detach().abs().amax().view(1) / 127)
        told = F.conv2d(self.to_bits(x, self.scale), weight, padding=1)
        return F.relu(x + self.norm(told))


@pair("fuse_elementwise", found=True)
def cameras_quantised_by_hand(fixed):
    """A network for cameras learns to live with 8 bits, TF32 allowed: rounding is written out in
    small operations. The remedy is PyTorch's `fake_quantize_per_tensor_affine`."""
    torch.backends.cudnn.allow_tf32 = True
    width, side = n(128, 8), n(56, 8)
    with torch.device(DEVICE):
        body = nn.Sequential(*(Quantised(width, builtin=fixed) for _ in range(n(8, 2))))
        head = nn.Linear(width, n(100, 5))
    model = nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    model = model.to(memory_format=torch.channels_last)
    x = normal(n(64, 2), width, side, side).contiguous(memory_format=torch.channels_last)
    kind = ids_below(n(100, 5), len(x))
    return train(model, lambda: F.cross_entropy(model(x), kind))


class Modulated(Module):
    """A block of a transformer that a condition shifts and scales."""

    def __init__(self, width):
        self.block = Block(width)
        self.block.before = nn.LayerNorm(width, elementwise_affine=False)
        self.block.between = nn.LayerNorm(width, elementwise_affine=False)
        self.condition = nn.Linear(width, 6 * width)

    def forward(self, x, told):
        block = self.block
        parts = self.condition(F.silu(told))[:, None].chunk(6, -1)
        shift, scale, gate, shift_up, scale_up, gate_up = parts
        q, k, v = block.qkv(block.before(x) * (1 + scale) + shift).chunk(3, -1)
        q, k, v = (one.unflatten(-1, (-1, n(64, 8))).transpose(1, 2) for one in (q, k, v))
        x = x + gate * block.out(block.attend(q, k, v).transpose(1, 2).flatten(2))
        h = block.between(x) * (1 + scale_up) + shift_up
        return x + gate_up * block.down(F.gelu(block.up(h)))


class Denoiser(Module):
    """A diffusion transformer for latents of pictures."""

    def __init__(self, width, depth, classes):
        self.cut = nn.Linear(16, width)
        self.classes = nn.Embedding(classes + 1, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Modulated(width) for _ in range(depth))
        self.last = nn.Linear(width, 16)
        self.register_buffer("waves", torch.logspace(0, -4, 128))

    def forward(self, x, when, kind):
        angles = when[:, None] * self.waves
        told = self.time(torch.cat((angles.cos(), angles.sin()), 1)) + self.classes(kind)
        h = self.cut(x)
        for block in self.blocks:
            h = block(h, told)
        return self.last(h)


@pair("batch_calls")
def posters_guided_in_two_passes(fixed):
    """A poster is drawn by a diffusion transformer in bf16 with guidance: a pass with the class and
    one without it in every step. The remedy makes both in one batch of two."""
    width, classes = n(1152, 16), n(1000, 5)
    with torch.device(DEVICE):
        model = Denoiser(width, n(20, 2), classes).bfloat16().eval()
    kind = ids_below(classes, 1)
    nothing = torch.full_like(kind, classes)
    both = torch.cat((kind, nothing))
    whole = normal(1, n(256, 4), 16, dtype=torch.bfloat16)
    times = torch.linspace(1000, 20, 50, device=DEVICE, dtype=torch.bfloat16)
    left = 0

    def guided(x, when):
        if fixed:
            with_class, without = model(x.expand(2, -1, -1), when.expand(2), both).chunk(2)
        else:
            with_class, without = model(x, when, kind), model(x, when, nothing)
        return without + 4.0 * (with_class - without)

    x = whole

    @torch.no_grad()
    def step():
        nonlocal x, left
        x = whole if left == 0 else x
        x = x - guided(x, times[left : left + 1]) / len(times)
        left = (left + 1) % len(times)

    return step


class Enlarger(Module):
    """A network that doubles the sides of frames."""

    def __init__(self, width, depth):
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.last = nn.Conv2d(width, 12, 3, padding=1)

    def forward(self, frames):
        """Bytes to bytes."""
        layout = torch.channels_last
        x = self.first((frames.bfloat16() / 255).contiguous(memory_format=layout))
        for conv in self.body:
            x = x + F.relu(conv(x))
        return (F.pixel_shuffle(self.last(x), 2).clamp(0, 1) * 255).byte()


def _enlarger(width, depth):
    with torch.device(DEVICE):
        model = Enlarger(width, depth).eval()
    return model.to(torch.bfloat16, memory_format=torch.channels_last)


class Mark:
    """A place in the GPU's queue, for the host to wait until it is reached."""

    def __init__(self):
        self.event = torch.cuda.Event() if DEVICE == "cuda" else None

    def record(self):
        if self.event:
            self.event.record()

    def synchronize(self):
        if self.event:
            self.event.synchronize()


@pair("pinned_memory")
def films_enlarged_from_pages(fixed):
    """Eight frames of a film a step are enlarged and go back to the host, through pageable memory;
    the remedy pins the frames and two buffers for the results, which are taken a step later."""
    high, wide = n(540, 16), n(960, 16)
    model = _enlarger(n(64, 8), n(6, 2))
    film = [torch.randint(0, 256, (n(8, 2), 3, high, wide), dtype=torch.uint8) for _ in range(4)]
    film = [frames.pin_memory() for frames in film] if fixed and DEVICE == "cuda" else film
    number = 0

    @torch.no_grad()
    def plainly():
        nonlocal number
        frames = film[number % len(film)].to(DEVICE)
        number += 1
        return model(frames).cpu()

    large = (len(film[0]), 3, 2 * high, 2 * wide)
    pin = DEVICE == "cuda"
    results = [torch.empty(large, dtype=torch.uint8, pin_memory=pin) for _ in range(2)]
    arrived = [Mark() for _ in range(2)]

    @torch.no_grad()
    def pinned():
        nonlocal number
        frames = film[number % len(film)].to(DEVICE, non_blocking=True)
        now = number % 2
        results[now].copy_(model(frames), non_blocking=True)
        arrived[now].record()
        number += 1
        arrived[1 - now].synchronize()
        return results[1 - now]

    return pinned if fixed else plainly


class WrittenOut(Block):
    """A block whose attention is written out."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        return scores.softmax(-1, dtype=torch.float32).to(v.dtype) @ v


@pair("fused_attention")
def clips_attention_in_pieces(fixed):
    """A video transformer in bf16 tells what is done in eight clips of 1568 tubes each, its
    attention written out; the remedy is `scaled_dot_product_attention`."""
    width = n(768, 16)
    frames, side, tube = n(16, 4), n(224, 32), (2, 16, 16)
    with torch.device(DEVICE):
        cut = nn.Conv3d(3, width, tube, tube)
        made = Block if fixed else WrittenOut
        body = nn.Sequential(*(made(width) for _ in range(n(6, 1))))
        head = nn.Linear(width, n(400, 5))
    nn.ModuleList((cut, body, head)).bfloat16().eval()
    clips = normal(n(8, 2), 3, frames, side, side, dtype=torch.bfloat16)
    place = normal((frames // 2) * (side // 16) ** 2, width, dtype=torch.bfloat16)
    done = ids_below(n(400, 5), len(clips))
    right = torch.zeros((), dtype=torch.long, device=DEVICE)

    @torch.no_grad()
    def step():
        h = body(cut(clips).flatten(2).transpose(1, 2) + place)
        right.add_((head(h.mean(1)).argmax(1) == done).sum())

    return step


@good("copy_ahead", "cuda_graph")
def good_frames(version):
    """A deep network in bf16 and `channels_last` enlarges pinned frames of bytes: the
    copies are short next to it, and the host is far ahead."""
    high, wide = n(540, 16), n(960, 16)
    model = _enlarger(n(64, 8), n(24, 2))
    film = [torch.randint(0, 256, (n(4, 2), 3, high, wide), dtype=torch.uint8) for _ in range(4)]
    film = [frames.pin_memory() for frames in film] if DEVICE == "cuda" else film
    static = film[0].to(DEVICE)
    ahead = version == "copy_ahead" and DEVICE == "cuda"
    side = torch.cuda.Stream() if ahead else None
    number = 0

    def after():
        nonlocal number
        number += 1
        return film[number % len(film)]

    def copied():
        with torch.cuda.stream(side):
            return after().to(DEVICE, non_blocking=True)

    waiting = copied() if ahead else None

    @torch.no_grad()
    def prefetched():
        nonlocal waiting
        torch.cuda.current_stream().wait_stream(side)
        frames = waiting
        frames.record_stream(torch.cuda.current_stream())
        waiting = copied()
        return model(frames)

    enlarge = torch.no_grad()(lambda: model(static))
    enlarge = graphed(enlarge) if version == "cuda_graph" else enlarge

    def step():
        static.copy_(after(), non_blocking=True)
        return enlarge()

    return prefetched if ahead else step
