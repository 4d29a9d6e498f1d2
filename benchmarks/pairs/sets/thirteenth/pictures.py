"""Pictures and films: recoloured, averaged, clipped, drawn by diffusion, counted."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"
GREY = (0.299, 0.587, 0.114)
"""How bright red, green and blue are to the eye."""


def _turned(photos, turn):
    """Photos whose hue is turned: to hue, saturation and value, and back."""
    red, green, blue = photos.unbind(1)
    value, least = photos.amax(1), photos.amin(1)
    spread = value - least
    divisor = torch.where(spread == 0, 1.0, spread)
    hue = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    hue = (hue / 6 + turn) % 1
    parts = []
    for offset in (5, 3, 1):
        place = (offset + hue * 6) % 6
        parts.append(value - spread * torch.minimum(place, 4 - place).clamp(0, 1))
    return torch.stack(parts, 1)


def _recoloured(photos, strengths, turn):
    """Photos with another brightness, contrast, saturation and hue each, normalised."""
    brightness, contrast, saturation = strengths[:, :, None, None, None].unbind(1)
    red, green, blue = GREY
    photos = (photos * brightness).clamp(0, 1)
    grey = red * photos[:, 0] + green * photos[:, 1] + blue * photos[:, 2]
    mean = grey.mean((1, 2))[:, None, None, None]
    photos = (contrast * photos + (1 - contrast) * mean).clamp(0, 1)
    grey = red * photos[:, :1] + green * photos[:, 1:2] + blue * photos[:, 2:]
    photos = (saturation * photos + (1 - saturation) * grey).clamp(0, 1)
    return (_turned(photos, turn) - 0.45) / 0.225


class Patches(Module):
    """A vision transformer on patches of 16 pixels."""

    def __init__(self, width, depth, kinds):
        self.cut = nn.Conv2d(3, width, 16, 16)
        self.body = layers(width, depth)
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, kinds)

    def forward(self, x):
        x = self.body(self.cut(x).flatten(2).transpose(1, 2))
        return self.last(self.norm(x.mean(1)))


@pair("compile", found=True, early=("fix",))
def photos_recoloured_eagerly(fixed):
    """A small vision transformer learns in bf16 autocast from 256 photos a step. Brightness, contrast,
    saturation and hue of each photo are changed at random on the GPU, operator by operator. The
    remedy compiles the function that changes them."""
    rows, side, kinds = n(256, 2), n(224, 32), n(1000, 5)
    recoloured = torch.compile(_recoloured) if fixed else _recoloured
    model = on_device(lambda: Patches(n(384, 16), n(4, 1), kinds))
    photos = torch.rand(rows, 3, side, side, device=DEVICE)
    names = whole(kinds, rows)

    def loss():
        with torch.no_grad():
            strengths = torch.rand(rows, 3, device=DEVICE) * 0.8 + 0.6
            turn = torch.rand(rows, 1, 1, device=DEVICE) * 0.2 - 0.1
            some = recoloured(photos, strengths, turn)
        with autocast():
            told = model(some)
        return F.cross_entropy(told.float(), names)

    return train(model, loss)


@pair("channels_last", found=True, libraries=("torchvision",))
def skeletons_found_contiguously(fixed):
    """A ResNet-50 of torchvision with three transposed convolutions learns to find 17 joints of 64
    people, as maps of where each is, in bf16 autocast. Tensors are contiguous; the remedy is
    `channels_last`."""
    from torchvision.models import resnet50

    layout = torch.channels_last if fixed else torch.contiguous_format
    rows, high, wide, joints, width = n(64, 2), n(256, 64), n(192, 64), 17, n(256, 8)

    def up(before):
        convolution = nn.ConvTranspose2d(before, width, 4, 2, 1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True))

    def make():
        trunk = [*resnet50().children()][:-2]
        return nn.Sequential(*trunk, up(2048), up(width), up(width), nn.Conv2d(width, joints, 1))

    model = on_device(make).to(memory_format=layout)
    people = noise(rows, 3, high, wide).contiguous(memory_format=layout)
    maps = torch.rand(rows, joints, high // 4, wide // 4, device=DEVICE)
    return train(model, lambda: F.mse_loss(model(people).float(), maps), cast=True)


@pair("batch_calls", found=True, libraries=("torchvision",))
def gestures_encoded_frame_by_frame(fixed):
    """A network learns the words of a sign language from 8 films of 12 frames, in bf16 autocast. A
    ResNet-18 of torchvision is called for each frame, then a transformer reads the film. The remedy
    gives the ResNet all frames in one call."""
    from torchvision.models import resnet18

    rows, frames, side, kinds, width = n(8, 2), n(12, 3), n(112, 32), n(200, 5), 512
    eye = on_device(lambda: resnet18(num_classes=width)).to(memory_format=torch.channels_last)
    body = layers(width, n(2, 1))
    last = mlp(width, kinds)
    films, words = noise(rows, frames, 3, side, side), whole(kinds, rows)

    def seen_of(films):
        if fixed:
            every = films.flatten(0, 1).contiguous(memory_format=torch.channels_last)
            return eye(every).unflatten(0, (rows, frames))
        every = (frame.contiguous(memory_format=torch.channels_last) for frame in films.unbind(1))
        return torch.stack([eye(frame) for frame in every], 1)

    def loss():
        told = last(body(seen_of(films)).mean(1))
        return F.cross_entropy(told.float(), words)

    return train(nn.ModuleList((eye, body, last)), loss, cast=True)


@pair("keep_on_device", found=True, libraries=("timm",))
def mushrooms_average_kept_on_the_host(fixed):
    """A ConvNeXt-Tiny of timm learns kinds of mushrooms from 96 photos a step, in bf16 autocast. timm's
    `ModelEmaV3` keeps the moving average of the weights on the CPU, as a smaller GPU needed it; all
    weights are copied there after each step. The remedy keeps the average on the GPU."""
    import timm
    from timm.utils import ModelEmaV3

    name = "convnext_tiny" if n(1, 0) else "convnext_atto"
    rows, side, kinds = n(96, 2), n(224, 32), n(1400, 5)
    model = on_device(lambda: timm.create_model(name, num_classes=kinds))
    model = model.to(memory_format=torch.channels_last)
    average = ModelEmaV3(model, decay=0.999, device=None if fixed else torch.device("cpu"))
    photos = noise(rows, 3, side, side).contiguous(memory_format=torch.channels_last)
    names = whole(kinds, rows)
    learn = train(model, lambda: F.cross_entropy(model(photos).float(), names), cast=True)

    def step():
        learn()
        average.update(model)

    return step


class Fields(Module):
    """Tells what grows where: convolutions that keep the size."""

    def __init__(self, bands, width, depth, kinds):
        self.first = nn.Conv2d(bands, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(depth))
        self.last = nn.Conv2d(width, kinds, 1)

    def forward(self, x):
        x = self.first(x)
        for convolution, norm in zip(self.body, self.norms, strict=True):
            x = x + F.relu(norm(convolution(x)))
        return self.last(x)


def _one_hot(crops, kinds):
    """A mask for each kind of crop."""
    rows, high, wide = crops.shape
    return torch.zeros(rows, kinds, high, wide).scatter_(1, crops[:, None], 1.0)


def _dice(odds, wanted):
    """How badly the odds of each kind of crop cover where it grows."""
    both = (odds * wanted).sum((2, 3))
    either = odds.sum((2, 3)) + wanted.sum((2, 3))
    return 1 - ((2 * both + 1) / (either + 1)).mean()


@pair("copy_less", found=True)
def fields_one_hot_from_the_host(fixed):
    """A network learns in bf16 autocast which of 40 crops grows on each pixel of 16 satellite pictures.
    The data set makes one-hot masks in fp32 for the Dice loss, and the loop sends them from pinned
    memory. The remedy sends a byte for each pixel, and makes the masks on the GPU."""
    rows, bands, side, kinds = n(16, 2), 6, n(256, 16), n(40, 3)
    model = on_device(lambda: Fields(bands, n(64, 8), n(4, 1), kinds))
    model = model.to(memory_format=torch.channels_last)
    pictures = noise(rows, bands, side, side).contiguous(memory_format=torch.channels_last)
    crops = [torch.randint(0, kinds, (rows, side, side)) for _ in range(2)]
    told = [crop.byte() if fixed else _one_hot(crop, kinds) for crop in crops]
    told = itertools.cycle([one.pin_memory() if PINNED else one for one in told])
    kind = torch.arange(kinds, device=DEVICE)[:, None, None]

    def loss():
        wanted = next(told).to(DEVICE, non_blocking=True)
        wanted = (wanted[:, None] == kind).float() if fixed else wanted
        with autocast():
            scores = model(pictures)
        return _dice(scores.float().softmax(1), wanted)

    return train(model, loss)


class Steered(Module):
    """A layer of a diffusion transformer: what is asked for scales and shifts what it reads."""

    def __init__(self, width):
        self.told = nn.Linear(width, 6 * width)
        self.before = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width, elementwise_affine=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, asked):
        parts = self.told(F.silu(asked))[:, None].chunk(6, -1)
        first_scale, first_shift, first_gate, scale, shift, gate = parts
        h = self.before(x) * (1 + first_scale) + first_shift
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + first_gate * self.out(h)
        h = self.between(x) * (1 + scale) + shift
        return x + gate * self.down(F.gelu(self.up(h), approximate="tanh"))


@pair("no_recompute", found=True)
def textiles_checkpointed_in_diffusion(fixed):
    """A diffusion transformer (10 layers, 768 wide) learns to draw textiles from 64 latents of 256
    patches, in bf16 autocast. Each layer is checkpointed, although most of the memory is free. The
    remedy keeps the activations."""
    rows, places, width, channels, kinds = n(64, 2), n(256, 4), n(768, 16), 16, n(100, 4)
    first, last = mlp(channels, width), mlp(width, channels)
    body = on_device(lambda: nn.ModuleList(Steered(width) for _ in range(n(10, 2))))
    of_time = mlp(1, width, width)
    of_kind = on_device(lambda: nn.Embedding(kinds, width))
    latents, names = noise(rows, places, channels), whole(kinds, rows)

    def loss():
        noised = torch.randn_like(latents)
        time = torch.rand(rows, 1, device=DEVICE)
        asked = of_time(time) + of_kind(names)
        x = first(torch.lerp(latents, noised, time[:, None]))
        for layer in body:
            x = layer(x, asked) if fixed else checkpoint(layer, x, asked, use_reentrant=False)
        return F.mse_loss(last(x).float(), noised - latents)

    return train(nn.ModuleList((first, last, body, of_time, of_kind)), loss, cast=True)


@pair("remove_syncs", found=True, libraries=("timm", "lightning.fabric"))
def pollen_clipped_by_fabric(fixed):
    """An EfficientNet-B0 of timm learns kinds of pollen from 128 photos a step with Lightning Fabric, in
    bf16. `clip_gradients` raises an error where the norm is not finite, which is its default and
    waits for the GPU in every step. The remedy is `error_if_nonfinite=False`."""
    import timm
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator=DEVICE, devices=1, precision="bf16-mixed")
    rows, side, kinds = n(128, 2), n(224, 32), n(46, 5)
    name = "efficientnet_b0" if n(1, 0) else "test_efficientnet"
    model = timm.create_model(name, num_classes=kinds)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.to(DEVICE).parameters(), 1e-4, fused=True)
    model, optimizer = fabric.setup(model, optimizer)
    photos = noise(rows, 3, side, side).contiguous(memory_format=torch.channels_last)
    names = whole(kinds, rows)
    how = {"error_if_nonfinite": False} if fixed else {}

    def step():
        fabric.backward(F.cross_entropy(model(photos), names))
        fabric.clip_gradients(model, optimizer, max_norm=1.0, **how)
        optimizer.step()
        optimizer.zero_grad()

    return step


@good("larger_batch", "copy_ahead", libraries=("torchvision",))
def good_exams(version):
    """A ResNet-50 of torchvision in bf16 and `channels_last` is evaluated on 256 photos a step. They
    come as bytes from pinned memory; how many names are right, and the loss, are added up on the
    GPU and read by nobody before the end."""
    from torchvision.models import resnet50

    rows = n(256, 2) * (2 if version == "larger_batch" else 1)
    side, kinds = n(224, 32), 1000
    model = on_device(resnet50).eval().to(torch.bfloat16, memory_format=torch.channels_last)
    photos = [torch.randint(0, 256, (rows, side, side, 3), dtype=torch.uint8) for _ in range(3)]
    photos = itertools.cycle([some.pin_memory() if PINNED else some for some in photos])
    names, right, lost = whole(kinds, rows), noise(1).zero_(), noise(1).zero_()
    beside = torch.cuda.Stream() if version == "copy_ahead" and PINNED else None

    def sent():
        with torch.cuda.stream(beside):
            return next(photos).to(DEVICE, non_blocking=True)

    waiting = [sent()]

    def ready():
        if not beside:
            return sent()
        torch.cuda.current_stream().wait_stream(beside)
        some = waiting.pop()
        some.record_stream(torch.cuda.current_stream())
        waiting.append(sent())
        return some

    @torch.no_grad()
    def step():
        some = ready().permute(0, 3, 1, 2).to(torch.bfloat16) / 127.5 - 1
        told = model(some).float()
        right.add_((told.argmax(1) == names).sum())
        lost.add_(F.cross_entropy(told, names))

    return step
