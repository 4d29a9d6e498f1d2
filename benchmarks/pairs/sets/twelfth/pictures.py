"""Pictures and volumes: of tissue, meals, streets, herbs, organs, films and murals."""

import contextlib
import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import Volumes, layers, noise, on_device, whole

PINNED = DEVICE == "cuda"


def _seen_from(tiles):
    """Each tile in its eight positions: turned, and turned as a mirror shows it."""
    for turns in range(4):
        turned = tiles.rot90(turns, (2, 3))
        yield turned
        yield turned.flip(3)


@pair("batch_calls", libraries=("timm",))
def slides_eight_views_in_turn(fixed):
    """A ConvNeXt-Tiny of timm in bf16 tells tumours in four tiles of a slide at a time, each seen in
    eight positions whose answers are averaged: a pass for each position. The remedy makes one pass
    of all."""
    import timm

    side = n(224, 32)
    model = on_device(lambda: timm.create_model("convnext_tiny", num_classes=n(4, 2))).eval()
    model = model.to(torch.bfloat16, memory_format=torch.channels_last)
    slide = noise(n(64, 4), 3, side, side, dtype=torch.bfloat16)
    tiles = itertools.cycle(slide.split(n(4, 2)))

    @torch.no_grad()
    def step():
        some = next(tiles)
        views = [view.contiguous(memory_format=torch.channels_last) for view in _seen_from(some)]
        if fixed:
            told = model(torch.cat(views)).float().softmax(-1)
            return told.unflatten(0, (len(views), -1)).mean(0)
        return torch.stack([model(view).float().softmax(-1) for view in views]).mean(0)

    return step


@pair("channels_last", found=True)
def livers_outlined_contiguously(fixed):
    """A U-Net learns to outline livers in two cut-outs of 96^3 voxels, in bf16 autocast and in the
    layout that volumes come in; the remedy is `channels_last_3d`."""
    layout = torch.channels_last_3d if fixed else torch.contiguous_format
    side = n(96, 8)
    model = on_device(lambda: Volumes(n(32, 4), n(4, 2), 3)).to(memory_format=layout)
    scans = noise(2, 1, side, side, side).contiguous(memory_format=layout)
    organs = whole(3, 2, side, side, side)
    return train(model, lambda: F.cross_entropy(model(scans).float(), organs), cast=True)


@pair("copy_less", libraries=("torchvision",))
def meals_sent_as_floats(fixed):
    """A MobileNet of torchvision in bf16 finds vectors for 768 photos of meals a step, for a search;
    photos lie in pinned memory as the floats that a transform made of them. The remedy sends the
    bytes, and makes floats of them on the device."""
    from torchvision.models import mobilenet_v3_small

    rows, side = n(768, 2), n(224, 32)
    model = on_device(mobilenet_v3_small).eval()
    model = model.to(torch.bfloat16, memory_format=torch.channels_last)
    photos = [torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8) for _ in range(2)]
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    spread = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    if not fixed:
        photos = [(photo / 255 - mean) / spread for photo in photos]
    photos = itertools.cycle([photo.pin_memory() if PINNED else photo for photo in photos])
    mean, spread = mean.to(DEVICE), spread.to(DEVICE)

    @torch.no_grad()
    def step():
        x = next(photos).to(DEVICE, non_blocking=True)
        x = (x / 255 - mean) / spread if fixed else x
        x = model.features(x.to(torch.bfloat16, memory_format=torch.channels_last))
        return F.normalize(x.mean((2, 3)).float(), dim=1)

    return step


class Scene(Module):
    """Tells what a photo of any size shows: five convolutions and a mean."""

    def __init__(self, width, kinds):
        widths = (3, width, 2 * width, 4 * width, 4 * width, 8 * width)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, 5 if a == 3 else 3, 2, 1) for a, b in itertools.pairwise(widths)
        )
        self.last = nn.Linear(8 * width, kinds)

    def forward(self, x):
        for conv in self.convs:
            x = F.relu(conv(x))
        return self.last(x.mean((2, 3)))


@pair("fixed_shapes", found=True)
def scenes_of_all_sizes_benchmarked(fixed):
    """A small network learns to name 16 photos of scenes a step, in bf16 autocast; each batch has a
    size of its own, and `cudnn.benchmark` tries all algorithms for each. The remedy pads batches
    to one size."""
    torch.backends.cudnn.benchmark = DEVICE == "cuda"
    kinds, rows, most = n(365, 3), n(16, 2), n(384, 48)
    model = on_device(lambda: Scene(n(64, 4), kinds)).to(memory_format=torch.channels_last)
    drawn = np.random.default_rng(12)
    photos, names = noise(rows, 3, most, most), whole(kinds, rows)

    def loss():
        high, wide = (int(side) for side in drawn.integers(most // 2, most, 2))
        x = photos[..., :high, :wide]
        x = F.pad(x, (0, most - wide, 0, most - high)) if fixed else x
        x = x.contiguous(memory_format=torch.channels_last)
        return F.cross_entropy(model(x).float(), names)

    return train(model, loss, cast=True)


@pair("no_recompute", found=True, libraries=("timm",))
def herbs_checkpointed_for_a_small_card(fixed):
    """A ViT-B/16 of timm learns to name 64 pressed herbs a step, in bf16 autocast, with the
    `set_grad_checkpointing` that a smaller GPU needed; the remedy leaves it out."""
    import timm

    side = n(224, 32)
    size = {} if n(1, 0) else {"depth": 2, "embed_dim": 32, "num_heads": 2}
    model = on_device(
        lambda: timm.create_model(
            "vit_base_patch16_224", num_classes=n(1000, 5), img_size=side, **size
        )
    )
    if not fixed:
        model.set_grad_checkpointing()
    herbs, names = noise(n(64, 2), 3, side, side), whole(n(1000, 5), n(64, 2))
    return train(model, lambda: F.cross_entropy(model(herbs).float(), names), cast=True)


class Street(Module):
    """Tells what is where in a street, at a quarter of the sides."""

    def __init__(self, width, depth, kinds):
        self.first = nn.Conv2d(3, width, 7, 4, 3)
        self.body = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(depth))
        )
        self.last = nn.Conv2d(width, kinds, 1)

    def forward(self, x):
        return self.last(self.body(self.first(x)))


@pair("move_host_work")
def streets_argmax_on_the_host(fixed):
    """A network in bf16 tells which of 19 kinds each pixel of a camera's frame is; the scores of all
    kinds, at full size, go to the host, and numpy finds the best. The remedy finds it on the
    device, and copies a byte for each pixel."""
    high, wide = n(512, 16), n(1024, 32)
    model = on_device(lambda: Street(n(128, 8), n(8, 2), 19)).eval()
    model = model.to(torch.bfloat16, memory_format=torch.channels_last)
    frames = noise(n(4, 1), 3, high, wide, dtype=torch.bfloat16)
    film = itertools.cycle(frames.contiguous(memory_format=torch.channels_last).split(1))

    @torch.no_grad()
    def step():
        scores = F.interpolate(model(next(film)).float(), size=(high, wide), mode="bilinear")
        if fixed:
            return scores.argmax(1).byte().cpu().numpy()
        return scores.cpu().numpy().argmax(1).astype(np.uint8)

    return step


class Painter(Module):
    """Paints a picture from a latent of an eighth of its sides."""

    def __init__(self, width, depth):
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.stages = nn.ModuleList()
        for _ in range(3):
            self.stages.append(nn.ModuleList(self.residual(width) for _ in range(depth)))
            self.stages.append(nn.Conv2d(width, width // 2, 3, padding=1))
            width //= 2
        self.last = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, 1, 1))

    @staticmethod
    def residual(width):
        """What a block adds."""
        return nn.Sequential(
            nn.GroupNorm(4, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(4, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x):
        x = self.first(x)
        for blocks, widen in zip(self.stages[::2], self.stages[1::2], strict=True):
            for block in blocks:
                x = x + block(x)
            x = widen(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(x)


@pair("low_precision")
def murals_painted_in_fp32(fixed):
    """The decoder of a latent diffusion model paints a mural of 1024 x 1024 a step, in fp32, as the
    recipe of an older model had it; the remedy is bf16."""
    kind = torch.bfloat16 if fixed else torch.float32
    painter = on_device(lambda: Painter(n(512, 32), n(2, 1))).eval().to(kind)
    latents = itertools.cycle(noise(n(8, 2), 4, n(128, 8), n(128, 8), dtype=kind).split(1))

    @torch.no_grad()
    def step():
        painted = painter(next(latents) / 0.18215)
        return ((painted.float().clamp(-1, 1) + 1) * 127.5).byte()

    return step


@pair("keep_on_device", found=True)
def films_activations_sent_home(fixed):
    """A video transformer learns from two clips of 784 tubes, in bf16 autocast; under
    `save_on_cpu`, as a card with less memory needed it, activations go to the host and come back.
    The remedy leaves them on the device."""
    width, tubes, kinds = n(768, 16), n(784, 6), n(400, 5)
    cut = on_device(lambda: nn.Linear(1536, width))
    body = layers(width, n(3, 1))
    head = on_device(lambda: nn.Linear(width, kinds))
    clips, names = noise(2, tubes, 1536), whole(kinds, 2)
    model = nn.ModuleList((cut, body, head))
    kept = contextlib.nullcontext if fixed else torch.autograd.graph.save_on_cpu

    def loss():
        with kept():
            told = head(body(cut(clips)).mean(1))
        return F.cross_entropy(told.float(), names)

    return train(model, loss, cast=True)


@good("copy_ahead", "pinned_memory", found=True)
def good_organs(version):
    """A U-Net in bf16 autocast and `channels_last_3d` learns organs from one cut-out of 128^3
    voxels, which comes from the host at each step: the copy is short next to the training."""
    side = n(128, 8)
    model = on_device(lambda: Volumes(n(32, 4), n(4, 2), 5))
    model = model.to(memory_format=torch.channels_last_3d)
    pin = version == "pinned_memory" and PINNED
    scans = [torch.randn(1, 1, side, side, side) for _ in range(4)]
    scans = itertools.cycle([scan.pin_memory() if pin else scan for scan in scans])
    organs = whole(5, 1, side, side, side)
    stream = torch.cuda.Stream() if version == "copy_ahead" and PINNED else None

    def copied():
        with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
            return next(scans).to(DEVICE, non_blocking=True)

    waiting = [copied()]

    def sent():
        if not stream:
            return copied()
        torch.cuda.current_stream().wait_stream(stream)
        scan = waiting.pop()
        scan.record_stream(torch.cuda.current_stream())
        waiting.append(copied())
        return scan

    return train(model, lambda: F.cross_entropy(model(sent()).float(), organs), cast=True)
