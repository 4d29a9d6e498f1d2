"""Pictures: photos, detectors, castings, glazes, coins; and fabrics."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"
LAST = torch.channels_last


class _Sharper(Module):
    """SRResNet: a picture of twice the sides."""

    def __init__(self, width, depth):
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(depth)
        )
        self.last = nn.Conv2d(width, 12, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        for block in self.body:
            x = x + block(x)
        return F.pixel_shuffle(self.last(x), 2)


def _judge(width):
    """The layers of VGG-16 up to the last of the fourth stage."""
    made, before = [], 3
    for stage, times in enumerate(n((2, 2, 3, 3), (1, 1))):
        made += [nn.MaxPool2d(2)] if stage else []
        for _ in range(times):
            made += [nn.Conv2d(before, width << stage, 3, padding=1), nn.ReLU()]
            before = width << stage
    return nn.Sequential(*made)


@pair("freeze_parameters", found=True)
def photos_sharpened_for_an_unfrozen_judge(fixed):
    """A small network learns in bf16 autocast, channels last, to double the sides of 32 photos: a VGG-16
    is to see the same in them as in the true photos. The VGG-16 is not given to the optimizer, but its
    weights still ask for gradients, which the backward pass computes and adds up for nobody. The
    remedy is `requires_grad_(False)`."""
    rows, side = n(32, 2), n(96, 8)
    sharper = on_device(lambda: _Sharper(n(64, 8), n(6, 1))).to(memory_format=LAST)
    judge = on_device(lambda: _judge(n(64, 8))).eval().to(memory_format=LAST)
    if fixed:
        judge.requires_grad_(requires_grad=False)
    small = noise(rows, 3, side, side).to(memory_format=LAST)
    large = noise(rows, 3, 2 * side, 2 * side).to(memory_format=LAST)

    def loss():
        told = sharper(small)
        with torch.no_grad():
            wanted = judge(large)
        return F.mse_loss(judge(told).float(), wanted.float()) + F.l1_loss(told.float(), large)

    return train(sharper, loss, cast=True)


@pair("pinned_memory")
def detectors_frames_from_a_numpy_ring(fixed):
    """A network in bf16 finds peaks in 16 frames a step (1536 x 1536) of an X-ray detector, to say at once
    which ones to keep. The camera's driver writes into a ring of numpy arrays, and the copy to the GPU
    out of such memory is slow and waits. The remedy has a ring in pinned memory."""
    rows, side, width, fold = n(16, 2), n(1536, 16), n(64, 8), 4
    ring = whole(4096, n(4, 2), rows, side, side).short().cpu()
    ring = ring.pin_memory() if fixed and PINNED else torch.from_numpy(ring.numpy().copy())
    slots = itertools.cycle(ring)
    sizes = (fold**2, width), *[(width, width)] * n(3, 1), (width, fold**2)
    body = [part for size in sizes for part in (nn.Conv2d(*size, 3, padding=1), nn.ReLU())]
    finder = nn.Sequential(*body[:-1]).to(DEVICE, torch.bfloat16, memory_format=LAST).eval()

    @torch.no_grad()
    def step():
        frames = next(slots).to(DEVICE, non_blocking=True)
        told = frames.bfloat16()[:, None] / 4096
        told = finder(F.pixel_unshuffle(told, fold).contiguous(memory_format=LAST))
        return (told > 0.1).sum((1, 2, 3)), told.amax((1, 2, 3))

    return step


class _Inspector(Module):
    """A vision transformer that tells which fault a casting has."""

    def __init__(self, side, width, depth, kinds):
        self.patches = nn.Conv2d(1, width, n(16, 8), n(16, 8))
        self.places = nn.Parameter(torch.zeros((side // n(16, 8)) ** 2, width))
        self.body = layers(width, depth)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, kinds))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.last(self.body(x).mean(1))


@pair("no_recompute", found=True)
def castings_inspected_again_for_the_log(fixed):
    """A vision transformer (eight layers, 768 wide) learns in bf16 autocast which of 12 faults each of 64
    castings has. To log how many are right, each step calls a function that has the model look at the
    same castings once more, without gradients. The remedy counts with the scores of the loss."""
    rows, side, kinds = n(64, 2), n(224, 16), n(12, 3)
    model = on_device(lambda: _Inspector(side, n(768, 16), n(8, 1), kinds)).train()
    castings, names = noise(rows, 1, side, side), whole(kinds, rows)
    right = torch.zeros((), device=DEVICE)

    @torch.no_grad()
    def accuracy(told):
        return (told.argmax(1) == names).float().mean()

    def loss():
        told = model(castings)
        if fixed:
            seen = told
        else:
            with torch.no_grad():
                seen = model(castings)
        right.lerp_(accuracy(seen), 0.1)
        return F.cross_entropy(told.float(), names)

    return train(model, loss, cast=True)


class _Glazer(Module):
    """A diffusion transformer that learns how a latent moves, told by the time."""

    def __init__(self, channels, width, depth):
        self.first, self.last = nn.Linear(channels, width), nn.Linear(width, channels)
        self.of_time = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.body = layers(width, depth)

    def forward(self, x, time):
        angle = time[:, None] * 1000 * 10_000 ** (-torch.arange(32, device=DEVICE) / 32)
        told = self.of_time(torch.cat((angle.sin(), angle.cos()), 1))
        return self.last(self.body(self.first(x) + told[:, None]))


@pair("keep_on_device", found=True)
def glazes_optimizer_kept_on_the_host(fixed):
    """A diffusion transformer (eight layers, 512 wide) learns in bf16 autocast by flow matching to draw
    glazes from 64 latents of 256 patches. A recipe for small GPUs keeps AdamW and what it knows on the
    host: gradients go there, weights come back. The remedy has all of it on the GPU."""
    rows, patches, channels = n(64, 2), n(256, 4), 16
    model = on_device(lambda: _Glazer(channels, n(512, 16), n(8, 1))).train()
    glazes, start = noise(rows, patches, channels), noise(rows, patches, channels)
    times = torch.rand(rows, device=DEVICE)

    def loss():
        mixed = torch.lerp(start, glazes, times[:, None, None])
        return F.mse_loss(model(mixed, times).float(), glazes - start)

    if fixed:
        return train(model, loss, cast=True)

    weights = [*model.parameters()]
    at_home = []
    for weight in weights:
        kept, grad = (torch.empty(weight.shape, device="cpu", pin_memory=PINNED) for _ in range(2))
        kept = nn.Parameter(kept.copy_(weight.detach()))
        kept.grad = grad
        at_home.append(kept)
    optimizer = torch.optim.AdamW(at_home, 1e-5, fused=True)

    def step():
        with autocast():
            lost = loss()
        lost.backward()
        for weight, kept in zip(weights, at_home, strict=True):
            kept.grad.copy_(weight.grad, non_blocking=True)
        if PINNED:
            torch.cuda.current_stream().synchronize()
        optimizer.step()
        with torch.no_grad():
            for weight, kept in zip(weights, at_home, strict=True):
                weight.copy_(kept, non_blocking=True)
                weight.grad = None

    return step


class _Lamb(torch.optim.Optimizer):
    """LAMB: Adam whose steps are as long as each tensor is."""

    def __init__(self, params, rate, *, together):
        super().__init__(params, {"rate": rate})
        self.move = self._at_once if together else self._in_turn

    @torch.no_grad()
    def step(self, closure=None):
        """Move all weights."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                if not self.state[weight]:
                    zeros = torch.zeros_like(weight), torch.zeros_like(weight)
                    self.state[weight].update(zip(("mean", "square"), zeros, strict=True))
            states = [self.state[weight] for weight in weights]
            means, squares = ([state[key] for state in states] for key in ("mean", "square"))
            self.move(weights, [weight.grad for weight in weights], means, squares, group["rate"])
        return closure and closure()

    @staticmethod
    def _in_turn(weights, grads, means, squares, rate):
        for weight, grad, mean, square in zip(weights, grads, means, squares, strict=True):
            mean.mul_(0.9).add_(grad, alpha=0.1)
            square.mul_(0.999).addcmul_(grad, grad, value=0.001)
            way = mean / square.sqrt().add_(1e-6)
            way.add_(weight, alpha=0.01)
            length, wanted = way.norm(), weight.norm().clamp(0, 10)
            ratio = torch.where((length > 0) & (wanted > 0), wanted / length, 1.0)
            weight.sub_(way * (ratio * rate))

    @staticmethod
    def _at_once(weights, grads, means, squares, rate):
        torch._foreach_lerp_(means, grads, 0.1)
        torch._foreach_mul_(squares, 0.999)
        torch._foreach_addcmul_(squares, grads, grads, value=0.001)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, 1e-6)
        ways = torch._foreach_div(means, roots)
        torch._foreach_add_(ways, weights, alpha=0.01)
        length = torch.stack(torch._foreach_norm(ways))
        wanted = torch.stack(torch._foreach_norm(weights)).clamp(0, 10)
        ratio = torch.where((length > 0) & (wanted > 0), wanted / length, 1.0) * rate
        for way, by in zip(ways, ratio.unbind(), strict=True):
            way.mul_(by)
        torch._foreach_sub_(weights, ways)


@pair("fused_optimizer", found=True)
def coins_lamb_tensor_by_tensor(fixed):
    """A transformer (12 layers, 384 wide) learns in bf16 autocast to fill in what is hidden of 64 pressed
    coins, from 64 patches each. Its optimizer is LAMB as a repository has it, a loop with some fifteen
    operations for each tensor. The remedy is the same by `torch._foreach` functions."""
    rows, patches, told, width = n(64, 2), n(64, 4), n(768, 12), n(384, 16)
    first, body, last = mlp(told, width), layers(width, n(12, 1)), mlp(width, told)
    model = nn.ModuleList((first, body, last))
    optimizer = _Lamb(model.parameters(), 1e-4, together=fixed)
    coins = noise(rows, patches, told)
    hidden = torch.rand(rows, patches, 1, device=DEVICE) < 0.5

    def loss():
        guessed = last(body(first(coins.masked_fill(hidden, 0))))
        return (F.mse_loss(guessed.float(), coins, reduction="none") * hidden).mean()

    return train(optimizer, loss, cast=True)


class _Weaver(Module):
    """A diffusion transformer that begins with patches of pictures."""

    def __init__(self, width, depth, patch):
        self.patch = patch
        self.first = nn.Conv2d(4, width, patch, patch)
        self.of_time = nn.Linear(1, width)
        self.body = layers(width, depth)
        self.last = nn.Linear(width, 4 * patch**2)

    def forward(self, x, time):
        side = x.shape[-1] // self.patch
        told = self.first(x).flatten(2).transpose(1, 2) + self.of_time(time[:, None])[:, None]
        told = self.last(self.body(told)).transpose(1, 2).unflatten(2, (side, side))
        return F.pixel_shuffle(told, self.patch)


@good("channels_last", "larger_batch", found=True)
def good_fabrics(version):
    """A diffusion transformer (six layers, 768 wide) learns in bf16 autocast from 16 latents of fabrics
    (4 x 64 x 64, in patches of 2 x 2 pixels), with the fused AdamW. Only the patches are a convolution,
    and 16 latents are 16 384 patches, which fill the GPU."""
    rows = n(16, 2) * (2 if version == "larger_batch" else 1)
    side = n(64, 8)
    layout = LAST if version == "channels_last" else torch.contiguous_format
    model = on_device(lambda: _Weaver(n(768, 16), n(6, 1), 2)).train()
    model = model.to(memory_format=layout)
    fabrics = noise(rows, 4, side, side).to(memory_format=layout)
    start = noise(rows, 4, side, side).to(memory_format=layout)
    times = torch.rand(rows, device=DEVICE)

    def loss():
        mixed = torch.lerp(start, fabrics, times[:, None, None, None])
        return F.mse_loss(model(mixed, times).float(), fabrics - start)

    return train(model, loss, cast=True)
