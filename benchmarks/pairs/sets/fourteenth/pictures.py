"""Pictures and fields: weather, splats, scans, films, plankton; and posters."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.thirteenth.pictures import Steered
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"
VIDEOMAE = "transformers.models.videomae.modeling_videomae"
VIT = "transformers.models.vit.modeling_vit"


def _at_home(tensor):
    """The tensor on the host, in pinned memory."""
    kept = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=PINNED)
    return kept.copy_(tensor)


class Ahead:
    """Copies what comes next beside the training, into buffers that it takes in turn."""

    def __init__(self, samples, buffers):
        self.samples = itertools.cycle(samples)
        empty = [torch.empty_like(samples[0], device=DEVICE) for _ in range(buffers)]
        self.buffers = itertools.cycle(empty)
        self.beside = torch.cuda.Stream() if PINNED else None
        self.begin()

    def begin(self):
        """Copy the next sample, as soon as the work queued so far needs its buffer no more."""
        self.ready = next(self.buffers)
        if self.beside:
            self.beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.beside):
            self.ready.copy_(next(self.samples), non_blocking=True)

    def take(self):
        """The sample that was copied."""
        if self.beside:
            torch.cuda.current_stream().wait_stream(self.beside)
        return self.ready


@pair("copy_ahead", found=True)
def weather_copied_into_one_buffer(fixed):
    """A transformer learns in bf16 autocast to foretell 69 fields of weather on a grid of 720 x 1440, in
    patches of 8 x 8. A stream copies the next pair of fields ahead from pinned memory, but into the
    one buffer that is trained on, so that it has to wait for the step's end. The remedy has two
    buffers, and begins the copy before the step."""
    fields, high, wide, width = n(69, 3), n(720, 16), n(1440, 32), n(512, 16)
    cut = on_device(lambda: nn.Conv2d(fields, width, 8, 8))
    body, last = layers(width, n(4, 1)), mlp(width, 64 * fields)
    ahead = Ahead(
        [_at_home(noise(2, 1, fields, high, wide)) for _ in range(2)],
        buffers=2 if fixed else 1,
    )

    def loss():
        now, later = ahead.take()
        if fixed:
            ahead.begin()
        with autocast():
            told = last(body(cut(now).flatten(2).transpose(1, 2)))
        wanted = F.pixel_unshuffle(later, 8).flatten(2).transpose(1, 2)
        return F.mse_loss(told.float(), wanted)

    learn = train(nn.ModuleList((cut, body, last)), loss)

    def step():
        learn()
        if not fixed:
            ahead.begin()

    return step


def _harmonics(ways):
    """Spherical harmonics of unit vectors, up to the third degree: 16 factors."""
    x, y, z = ways.split(1, 1)
    xx, yy, zz = x * x, y * y, z * z
    return (
        torch.full_like(x, 0.28209479),
        -0.48860251 * y,
        0.48860251 * z,
        -0.48860251 * x,
        1.09254843 * x * y,
        -1.09254843 * y * z,
        0.31539157 * (2 * zz - xx - yy),
        -1.09254843 * x * z,
        0.54627422 * (xx - yy),
        -0.59004359 * y * (3 * xx - yy),
        2.89061144 * x * y * z,
        -0.45704580 * y * (4 * zz - xx - yy),
        0.37317633 * z * (2 * zz - 3 * xx - 3 * yy),
        -0.45704580 * x * (4 * zz - xx - yy),
        1.44530572 * z * (xx - yy),
        -0.59004359 * x * (xx - 3 * yy),
    )


def _seen(places, sizes, tints, eye):
    """Colour, distance and breadth of splats, as an eye sees them."""
    apart = places - eye
    distance = apart.square().sum(1, keepdim=True).sqrt()
    colour = 0.5
    for number, factor in enumerate(_harmonics(apart / distance)):
        colour = colour + factor * tints[:, number]
    return colour.clamp(0, 1), distance.squeeze(1), sizes.exp() / distance


@pair("compile", early=("fix",))
def splats_coloured_term_by_term(fixed):
    """Three million splats of a scene (3D Gaussians) are made ready to be painted for six views a step:
    their colours by 16 spherical harmonics, their distances and sizes, term by term; then they are
    sorted by distance. The remedy compiles the function that tells what is seen."""
    count = n(3_000_000, 50)
    seen = torch.compile(_seen) if fixed else _seen
    places, sizes, tints = noise(count, 3), noise(count, 3), 0.2 * noise(count, 16, 3)
    eyes = 5 * noise(n(6, 2), 3)

    @torch.no_grad()
    def step():
        nearest = 0
        for eye in eyes:
            colour, distance, breadth = seen(places, sizes, tints, eye)
            order = distance.argsort()
            nearest = nearest + colour[order[0]] * breadth[order[0]]
        return nearest

    return step


class Cleaner(Module):
    """Takes streaks out of a complex picture."""

    def __init__(self, width):
        self.body = nn.Sequential(
            nn.Conv2d(2, width, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2, 3, padding=1),
        )

    def forward(self, picture):
        parts = torch.view_as_real(picture).permute(0, 3, 1, 2)
        with autocast():
            cleaned = self.body(parts)
        cleaned = cleaned.float().permute(0, 2, 3, 1).contiguous()
        return picture + torch.view_as_complex(cleaned)


@pair("copy_less")
def knees_copied_with_their_zeros(fixed):
    """Eight slices of knees a step are reconstructed from what 15 coils of a scanner measured: an eighth
    of the lines. The data set fills the other lines with zeros, and the loop sends all of them from
    pinned memory. The remedy sends the measured lines, and fills up on the GPU."""
    rows, coils, high, wide = n(8, 2), n(15, 2), n(640, 16), n(368, 16)
    lines = torch.randperm(wide, device=DEVICE)[: wide // 8].sort().values
    measured = torch.zeros(wide, dtype=torch.bool, device=DEVICE).index_fill(0, lines, value=True)
    cleaners = on_device(lambda: [Cleaner(n(32, 4)).eval() for _ in range(n(6, 2))])
    maps = noise(coils, high, wide, dtype=torch.complex64) / coils**0.5
    zeros = torch.zeros(rows, coils, high, wide, dtype=torch.complex64, device=DEVICE)

    def scanned():
        told = noise(rows, coils, high, len(lines), dtype=torch.complex64)
        return _at_home(told if fixed else zeros.index_copy(3, lines, told))

    slices = itertools.cycle([scanned() for _ in range(2)])

    @torch.no_grad()
    def step():
        told = next(slices).to(DEVICE, non_blocking=True)
        told = zeros.index_copy(3, lines, told) if fixed else told
        guessed = told
        for clean in cleaners:
            picture = clean((torch.fft.ifft2(guessed) * maps.conj()).sum(1))
            guessed = torch.where(measured, told, torch.fft.fft2(picture[:, None] * maps))
        return picture.abs()

    return step


@pair("faster_kernels", found=True, libraries=(VIDEOMAE,))
def films_gradients_of_a_frozen_eye(fixed):
    """A linear layer learns in bf16 autocast what is done in eight films of 16 frames, on top of a
    VideoMAE of transformers that is to stay as it is. Only the layer is given to the optimizer, but
    the weights of the VideoMAE still ask for gradients, and the backward pass computes them for
    nobody. The remedy is `requires_grad_(False)`."""
    from transformers import VideoMAEConfig, VideoMAEModel

    rows, frames, side, kinds = n(8, 2), n(16, 2), n(224, 32), n(174, 3)
    small = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    size = {} if n(1, 0) else {**small, "num_hidden_layers": 1}
    config = VideoMAEConfig(image_size=side, num_frames=frames, use_mean_pooling=False, **size)
    eye = on_device(lambda: VideoMAEModel(config)).eval()
    if fixed:
        eye.requires_grad_(requires_grad=False)
    last = mlp(config.hidden_size, kinds)
    films, names = noise(rows, frames, 3, side, side), whole(kinds, rows)

    def loss():
        told = last(eye(pixel_values=films).last_hidden_state.mean(1))
        return F.cross_entropy(told.float(), names)

    return train(last, loss, cast=True)


def _climbed_in_turn(weights, radius):
    """Move each weight to where the loss is higher; where all were."""
    length = torch.stack([weight.grad.norm() for weight in weights]).norm()
    scale = radius / (length + 1e-12)
    before = [weight.detach().clone() for weight in weights]
    for weight in weights:
        weight.add_(weight.grad * scale)
    return before


def _climbed_at_once(weights, radius):
    """The same by operations that take all weights."""
    gradients = [weight.grad for weight in weights]
    length = torch.stack(torch._foreach_norm(gradients)).norm()
    before = [torch.empty_like(weight) for weight in weights]
    torch._foreach_copy_(before, weights)
    torch._foreach_add_(weights, torch._foreach_mul(gradients, radius / (length + 1e-12)))
    return before


def _returned_in_turn(weights, before):
    """Move each weight back."""
    for weight, old in zip(weights, before, strict=True):
        weight.copy_(old)


@pair("fused_optimizer", found=True, libraries=(VIT,))
def plankton_sharpness_tensor_by_tensor(fixed):
    """A ViT of transformers (12 layers, 192 wide) learns kinds of plankton from 64 pictures a step in
    bf16 autocast, by sharpness-aware minimisation: two passes a step, and between them all weights
    climb and return. A loop does that tensor by tensor, as widespread code has it. The remedy has
    `torch._foreach` functions."""
    from transformers import ViTConfig, ViTForImageClassification

    rows, side, kinds = n(64, 2), n(224, 32), n(103, 3)
    config = ViTConfig(
        image_size=side,
        hidden_size=n(192, 32),
        num_hidden_layers=n(12, 1),
        num_attention_heads=n(3, 2),
        intermediate_size=n(768, 64),
        num_labels=kinds,
    )
    model = on_device(lambda: ViTForImageClassification(config)).train()
    weights = [*model.parameters()]
    optimizer = torch.optim.SGD(weights, 0.01, momentum=0.9)
    pictures, names = noise(rows, 3, side, side), whole(kinds, rows)
    climb = _climbed_at_once if fixed else _climbed_in_turn
    go_back = torch._foreach_copy_ if fixed else _returned_in_turn

    def learn():
        with autocast():
            told = model(pixel_values=pictures).logits
        F.cross_entropy(told.float(), names).backward()

    def step():
        learn()
        with torch.no_grad():
            before = climb(weights, 0.05)
        optimizer.zero_grad()
        learn()
        with torch.no_grad():
            go_back(weights, before)
        optimizer.step()
        optimizer.zero_grad()

    return step


@good("remove_syncs", "larger_batch")
def good_posters(version):
    """A diffusion transformer in bf16 draws 16 posters of 1024 patches, with guidance in the same batch,
    four rounds a step. After each round a bar shows how noisy the posters still are, which is read
    from the GPU; a round is long, and its products are large."""
    rows = n(16, 2) * (2 if version == "larger_batch" else 1)
    patches, width, channels = n(1024, 4), n(1152, 16), 16
    first, last = mlp(channels, width), mlp(width, channels)
    body = on_device(lambda: nn.ModuleList(Steered(width) for _ in range(n(5, 1))))
    of_time = mlp(1, width, width)
    nn.ModuleList((first, last, body, of_time)).bfloat16().eval()
    start = noise(rows, patches, channels, dtype=torch.bfloat16)
    asked = noise(2 * rows, width, dtype=torch.bfloat16)
    times = torch.linspace(1, 0.25, n(4, 2), device=DEVICE, dtype=torch.bfloat16)[:, None]
    bar = []

    @torch.no_grad()
    def step():
        x = start
        for time in times:
            h = first(torch.cat((x, x)))
            told = asked + of_time(time)
            for layer in body:
                h = layer(h, told)
            guided, free = last(h).chunk(2)
            x = x - (free + 4 * (guided - free)) / len(times)
            if version != "remove_syncs":
                bar[:] = [x.std().item()]
        return x

    return step
