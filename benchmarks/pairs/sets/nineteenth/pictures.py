"""Pictures: shoppers, lungs, screws, forests, oceans; good: gardens and harbours."""

import itertools
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"
LAST = torch.channels_last


def _hardest_row_by_row(apart, alike):
    """How far the farthest picture of the same person is, and the nearest of another."""
    far, near = [], []
    for row in range(len(apart)):
        far.append(apart[row][alike[row]].max().unsqueeze(0))
        near.append(apart[row][~alike[row]].min().unsqueeze(0))
    return torch.cat(far), torch.cat(near)


def _hardest(apart, alike):
    """The same for all rows at once."""
    far = apart.masked_fill(~alike, -math.inf).amax(1)
    return far, apart.masked_fill(alike, math.inf).amin(1)


class _Known(Module):
    """A ResNet-50 of torchvision that makes vectors of people, and tells who they are."""

    def __init__(self, people):
        from torchvision.models import resnet50

        self.body = resnet50()
        self.last = nn.Linear(self.body.fc.in_features, people)
        self.body.fc = nn.Identity()

    def forward(self, x):
        vectors = self.body(x)
        return vectors.float(), self.last(vectors).float()


@pair("remove_syncs", found=True, libraries=("torchvision",))
def shoppers_triplets_mined_row_by_row(fixed):
    """A ResNet-50 of torchvision learns in bf16 autocast, with channels last, to know shoppers again, by 128
    pictures of 256 x 128 a step, four of each person. The triplet loss is a well-known repository's: for
    each row of the distances it picks by boolean masks who is the same person and who is not, and
    each mask waits for the GPU. The remedy fills masked distances with infinity, for all rows at once."""
    people, each, high, wide = n(32, 2), 4, n(256, 32), n(128, 32)
    model = on_device(lambda: _Known(n(751, 5))).train().to(memory_format=LAST)
    who = torch.arange(people, device=DEVICE).repeat_interleave(each)
    pictures = noise(people * each, 3, high, wide).to(memory_format=LAST)
    alike = who[:, None] == who
    hardest = _hardest if fixed else _hardest_row_by_row

    def loss():
        with autocast():
            vectors, told = model(pictures)
        far, near = hardest(torch.cdist(vectors, vectors).clamp(min=1e-6), alike)
        return F.cross_entropy(told, who) + F.margin_ranking_loss(
            near, far, torch.ones_like(near), margin=0.3
        )

    return train(model, loss)


@pair("fused_attention", found=True, libraries=("timm",))
def lungs_seen_without_fused_attention(fixed):
    """A ViT of timm (small, 12 layers) learns in bf16 autocast what is found in 32 X-rays of lungs, 448 x 448
    each, that is 785 tokens. To draw maps of attention, somebody called `timm.layers.set_fused_attn(False)`
    once, and so scores of all pairs of tokens are written in each layer. The remedy turns fused attention
    on, which is timm's default."""
    import timm

    timm.layers.set_fused_attn(enable=fixed)
    side, kinds, rows = n(448, 32), n(14, 3), n(32, 2)
    how = n({}, {"depth": 1, "embed_dim": 48})
    model = timm.create_model("vit_small_patch16_224", img_size=side, num_classes=kinds, **how)
    model = model.to(DEVICE).train()
    lungs, found = noise(rows, 3, side, side), whole(2, rows, kinds).float()
    return train(
        model, lambda: F.binary_cross_entropy_with_logits(model(lungs).float(), found), cast=True
    )


class _Surfaces(Module):
    """What a wide ResNet of torchvision sees of each part of a picture, in its second and third stage."""

    def __init__(self):
        from torchvision.models import wide_resnet50_2

        net = wide_resnet50_2()
        self.first = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1)
        self.second, self.third = net.layer2, net.layer3

    def forward(self, x):
        near = self.second(self.first(x))
        far = F.interpolate(self.third(near), size=near.shape[-2:], mode="bilinear")
        return torch.cat((near, far), 1).movedim(1, -1).flatten(0, 2)


@pair("channels_last", libraries=("torchvision",))
def screws_features_taken_contiguously(fixed):
    """PatchCore looks for faults of screws in 64 pictures of 224 x 224 a step: a wide ResNet-50 of torchvision
    in bf16 makes vectors of parts, which are compared with 1024 of good screws. Model and pictures are
    contiguous, and cuDNN turns them for each convolution. The remedy is `channels_last`."""
    rows, side = n(64, 2), n(224, 64)
    how = LAST if fixed else torch.contiguous_format
    model = on_device(_Surfaces).eval().requires_grad_(requires_grad=False)
    model = model.bfloat16().to(memory_format=how)
    pictures = noise(rows, 3, side, side).bfloat16().to(memory_format=how)
    known = noise(n(1024, 5), n(1536, 1536)).bfloat16()

    def step():
        seen = model(pictures)
        near = known.square().sum(1) - 2 * (seen @ known.t())
        strange = near.amin(1) + seen.square().sum(1)
        return strange.view(rows, -1).amax(1).tolist()

    return step


class _Tiles(Dataset):
    """Tiles of a satellite's pictures with 13 bands, lit, turned and made noisy as a recipe has it."""

    def __init__(self, count, side, kinds):
        drawn = np.random.default_rng(2)
        self.tiles = drawn.integers(0, 10_000, (64, 13, side, side), dtype=np.uint16)
        self.kinds = drawn.integers(0, kinds, count)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, number):
        drawn = np.random.default_rng(number)
        tile = self.tiles[number % len(self.tiles)].astype(np.float32) / 10_000
        tile = tile ** np.float32(drawn.uniform(0.8, 1.25))
        tile = np.rot90(tile, drawn.integers(4), (1, 2))
        tile = tile + 0.01 * drawn.standard_normal(tile.shape, dtype=np.float32)
        return np.ascontiguousarray(tile), self.kinds[number]


@pair("data_loader_workers", found=True, libraries=("torchvision",))
def forests_bands_scaled_in_line(fixed):
    """A ResNet-50 of torchvision learns in bf16 autocast, with channels last, what grows on 16 tiles a step of a
    satellite's pictures, 13 bands of 128 x 128 each. numpy lights, turns and makes them noisy in
    `__getitem__`, and the `DataLoader` has its default, no workers: the GPU waits meanwhile. The
    remedy is `num_workers=8`."""
    from torchvision.models import resnet50

    rows, kinds, workers = n(16, 2), n(12, 3), n(8, 1) if fixed else 0
    loader = DataLoader(
        _Tiles(n(8192, 6), n(128, 32), kinds),
        rows,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=PINNED,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))

    def made():
        model = resnet50(num_classes=kinds)
        model.conv1 = nn.Conv2d(13, 64, 7, 2, 3, bias=False)
        return model

    model = on_device(made).train().to(memory_format=LAST)

    def loss():
        tiles, true = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return F.cross_entropy(model(tiles.contiguous(memory_format=LAST)).float(), true)

    return train(model, loss, cast=True)


class _Ocean(Module):
    """A transformer for maps that tells how the sea changes; each map is joined with what never changes:
    depths, coasts, places."""

    def __init__(self, fixed_maps, fields, width, depth, patch, *, buffer):
        if buffer:
            self.register_buffer("always", fixed_maps)
        else:
            self.always = fixed_maps
        self.first = nn.Conv2d(fields + len(fixed_maps), width, patch, patch)
        self.body = layers(width, depth)
        self.last = nn.ConvTranspose2d(width, fields, patch, patch)

    def forward(self, x):
        always = self.always.to(x.device).expand(len(x), -1, -1, -1)
        told = self.first(torch.cat((x, always), 1))
        seen = self.body(told.flatten(2).transpose(1, 2))
        return self.last(seen.transpose(1, 2).unflatten(2, told.shape[-2:]))


@pair("keep_on_device", found=True)
def oceans_depths_no_buffer(fixed):
    """A transformer for maps (eight layers, 512 wide) learns in bf16 autocast how 16 fields of the sea change on
    a grid of 512 x 1024, from two moments a step. It joins them with 40 maps that never change, which are
    a plain attribute of the module, so that `model.to(device)` leaves them on the host, and `forward`
    copies 84 MB of them in each step. The remedy is `register_buffer`."""
    rows, fields, high, wide = n(2, 2), n(16, 2), n(512, 16), n(1024, 32)
    always = torch.randn(n(40, 3), high, wide)
    model = _Ocean(always, fields, n(512, 16), n(8, 1), n(16, 8), buffer=fixed).to(DEVICE).train()
    now, later = noise(2, rows, fields, high, wide)
    return train(model, lambda: F.mse_loss(model(now).float(), later - now), cast=True)


class _Gardener(Module):
    """A transformer for pictures, which takes them in patches."""

    def __init__(self, width, depth, patch, kinds):
        self.first = on_device(lambda: nn.Conv2d(3, width, patch, patch))
        self.body, self.last = layers(width, depth), mlp(width, kinds)

    def forward(self, x):
        return self.last(self.body(self.first(x).flatten(2).transpose(1, 2)).mean(1))


@good("cuda_graph", "channels_last", found=True)
def good_gardens(version):
    """A transformer for pictures (12 layers, 768 wide) learns in bf16 autocast what grows in 128 gardens, pictures
    of 224 x 224, with the fused AdamW. Its products fill the GPU, so that a CUDA graph brings nothing; its
    one convolution takes patches, and to put channels last changes nothing."""
    rows, side, kinds = n(128, 2), n(224, 16), n(100, 3)
    how = LAST if version == "channels_last" else torch.contiguous_format
    model = _Gardener(n(768, 16), n(12, 1), n(16, 8), kinds).train().to(memory_format=how)
    captured = version == "cuda_graph"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True, capturable=captured)
    pictures = noise(rows, 3, side, side).to(memory_format=how)
    grows = whole(kinds, rows)
    step = train(optimizer, lambda: F.cross_entropy(model(pictures).float(), grows), cast=True)
    return graphed(step) if captured else step


class _Block(Module):
    """Two convolutions next to which what came goes by."""

    def __init__(self, width):
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return F.relu(x + self.body(x))


def _harbour_net(width, depth, kinds):
    """A network that names each pixel, on a quarter of the sides."""
    first = nn.Sequential(nn.Conv2d(3, width, 8, 4, 2), nn.ReLU())
    return nn.Sequential(first, *(_Block(width) for _ in range(depth)), nn.Conv2d(width, kinds, 1))


def _ahead(batches):
    """Batches on the GPU, each copied by a stream of its own while the one before is looked at."""
    stream = torch.cuda.Stream() if DEVICE == "cuda" else None
    following = None
    while True:
        with torch.cuda.stream(stream):
            coming = next(batches).to(DEVICE, non_blocking=True)
        if following is not None:
            yield following
        if stream is not None:
            torch.cuda.current_stream().wait_stream(stream)
            coming.record_stream(torch.cuda.current_stream())
        following = coming


@good("cuda_graph", "copy_ahead")
def good_harbours(version):
    """A service outlines ships in 16 pictures of a harbour, 512 x 512 each, by a deep network in bf16 with
    channels last. Pictures are bytes in pinned memory: their copy is short, and convolutions are long. Neither
    a CUDA graph nor a copy of the next batch on a stream of its own brings anything."""
    rows, side, kinds = n(16, 2), n(512, 16), n(5, 3)
    model = on_device(lambda: _harbour_net(n(256, 8), n(8, 2), kinds)).bfloat16().eval()
    model = model.requires_grad_(requires_grad=False).to(memory_format=LAST)
    shots = torch.randint(0, 256, (n(4, 2), rows, 3, side, side), dtype=torch.uint8)
    batches = itertools.cycle(shots.pin_memory() if PINNED else shots)
    batches = _ahead(batches) if version == "copy_ahead" else batches
    shown = torch.zeros(rows, 3, side, side, dtype=torch.uint8, device=DEVICE)
    counted = torch.zeros(rows, dtype=torch.long, device=DEVICE)

    def look():
        seen = (shown.bfloat16() / 127.5 - 1).contiguous(memory_format=LAST)
        counted.copy_((model(seen).argmax(1) == 1).sum((1, 2)))

    look = graphed(look) if version == "cuda_graph" else look

    def step():
        shown.copy_(next(batches), non_blocking=True)
        look()
        return counted.tolist()

    return step
