"""Words, tables, shops and films: announcements, wards, carts, gestures, hangars; good: shelves."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import Layer, layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"


class _Sounding(Module):
    """Two convolutions along time beside their input, which know how far the flow has come."""

    def __init__(self, width, told):
        self.one, self.two = (nn.Conv1d(width, width, 3, padding=1) for _ in "ab")
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in "ab")
        self.told = nn.Linear(told, width)

    def forward(self, x, told):
        y = F.mish(self.norms[0](self.one(x))) + self.told(F.mish(told))[:, :, None]
        return x + F.mish(self.norms[1](self.two(y)))


class _Speaker(Module):
    """What a flow from noise to a spectrogram does next, given what is to be said."""

    def __init__(self, bands, width, depth):
        self.first, self.last = nn.Conv1d(2 * bands, width, 1), nn.Conv1d(width, bands, 1)
        self.told = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.sounding = nn.ModuleList(_Sounding(width, width) for _ in range(depth))
        self.body = nn.ModuleList(Layer(width) for _ in range(depth))

    def forward(self, x, said, when):
        told, x = self.told(when), self.first(torch.cat((x, said), 1))
        for sounding, layer in zip(self.sounding, self.body, strict=True):
            x = layer(sounding(x, told).transpose(1, 2)).transpose(1, 2)
        return self.last(x)


@pair("cuda_graph")
def announcements_flow_kernel_by_kernel(fixed):
    """A service says two announcements in a station, as Matcha-TTS does: a flow is followed in ten steps from noise
    to a spectrogram of 400 frames, by a network of eight convolution blocks and eight layers (256 wide, bf16). That
    is some 2500 kernels of a few microseconds, and the GPU waits for their launches. Texts are padded to one length.
    The remedy captures the ten steps in a CUDA graph."""
    rows, bands, frames, turns = n(2, 1), n(80, 4), n(400, 8), n(10, 2)
    model = on_device(lambda: _Speaker(bands, n(256, 16), n(8, 1))).bfloat16().eval()
    said = noise(rows, bands, frames).bfloat16()
    begun = noise(rows, bands, frames).bfloat16()
    moments = [
        torch.full((rows, 1), turn / turns, device=DEVICE).bfloat16() for turn in range(turns)
    ]
    spoken = torch.empty_like(begun)

    @torch.no_grad()
    def flow():
        x = begun
        for when in moments:
            x = x + model(x, said, when) / turns
        spoken.copy_(x)

    flow = graphed(flow) if fixed else flow

    def step():
        flow()
        return spoken.float().cpu()

    return step


class _Wards(Dataset):
    """What was measured of patients, and how long they stayed, both on the device already."""

    def __init__(self, count, width):
        self.seen, self.stayed = noise(count, width), noise(count, 1)

    def __len__(self):
        return len(self.seen)

    def __getitem__(self, place):
        return self.seen[place], self.stayed[place]


@pair("data_loader_workers", found=True)
def wards_rows_picked_singly_on_the_gpu(fixed):
    """A network (six layers, 1024 wide) learns in bf16 autocast how long patients stay, from 1024 of 200 000 a step,
    256 numbers each. To be fast, somebody moved the whole table to the GPU, but a `DataLoader` still asks for each
    row by itself, 2048 times `tensor[i]` on the GPU, and stacks them. The remedy hands lists of rows to
    `__getitem__`: a `BatchSampler` as the sampler, and `batch_size=None`."""
    count, width, rows = n(200_000, 40), n(256, 8), n(1024, 4)
    wards = _Wards(count, width)
    if fixed:
        sampler = BatchSampler(RandomSampler(wards), rows, drop_last=True)
        loader = DataLoader(wards, sampler=sampler, batch_size=None)
    else:
        loader = DataLoader(wards, rows, shuffle=True, drop_last=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    inner = n(1024, 16)
    model = mlp(width, *(inner,) * n(6, 2), 1).train()

    def loss():
        seen, stayed = next(batches)
        return F.smooth_l1_loss(model(seen).float(), stayed)

    return train(model, loss, cast=True)


class _Carts(Module):
    """A DLRM: columns looked up in one table, products of all pairs of them, and layers above."""

    def __init__(self, columns, each, width, dense, upper, *, padded):
        self.table = nn.Embedding(columns * each, width)
        self.register_buffer("begin", torch.arange(columns) * each)
        self.lower = mlp(dense, 2 * width, width, between=nn.ReLU)
        pairs = torch.triu_indices(columns + 1, columns + 1, 1)
        self.register_buffer("place", pairs[0] * (columns + 1) + pairs[1])
        wide = width + pairs.shape[1] + 1
        self.first = nn.Linear(wide, upper)
        self.above = mlp(upper, upper, upper // 2, 1, between=nn.ReLU)
        self.more = -wide % 8 if padded else 0
        self.first.weight.data = F.pad(self.first.weight.data, (0, self.more))

    def forward(self, ids, numbers):
        lower = self.lower(numbers)
        rows = torch.cat((lower[:, None], self.table(ids + self.begin).to(lower.dtype)), 1)
        pairs = (rows @ rows.transpose(1, 2)).flatten(1).index_select(1, self.place)
        known = [lower, pairs, numbers[:, :1].to(lower.dtype)]
        if self.more:
            known.append(lower.new_zeros(len(lower), self.more))
        return self.above(F.relu(self.first(torch.cat(known, 1))))


@pair("pad_shapes", found=True)
def carts_pairs_and_hour_are_625_wide(fixed):
    """A DLRM learns in bf16 autocast which of 32 768 carts a step are paid for: 31 columns are looked up (128 wide),
    and the products of all pairs of them and of what 13 numbers make, 496, go with the latter and the hour into
    layers 2048 wide. That is 625 inputs, an odd number, so that rows are not aligned, and the first of these layers
    is slow, there and back. The remedy adds seven columns of zeros."""
    rows, columns, dense, width = n(32_768, 4), n(31, 3), n(13, 3), n(128, 8)
    each = n(8000, 9)
    model = on_device(
        lambda: _Carts(columns, each, width, dense, n(2048, 16), padded=fixed)
    ).train()
    ids, numbers = whole(each, rows, columns), noise(rows, dense)
    paid = torch.randint(0, 2, (rows, 1), device=DEVICE).float()

    def loss():
        told = model(ids, numbers).float()
        return F.binary_cross_entropy_with_logits(told, paid)

    return train(model, loss, cast=True)


@pair("copy_less", found=True)
def gestures_features_sent_as_fp32(fixed):
    """A transformer (four layers, 512 wide) learns in bf16 autocast which of 300 signs are shown, from 64 films a
    step of 384 frames. Another network has seen each frame: 1024 numbers, which were saved in fp32, so that 101 MB
    are copied from pinned memory in each step, and the first layer casts them to bf16 at once. The remedy has the
    loader make bf16 of them before, half as many bytes."""
    rows, frames, seen, width, kinds = n(64, 2), n(384, 6), n(1024, 8), n(512, 16), n(300, 3)
    first, last = mlp(seen, width), mlp(width, kinds)
    model = nn.ModuleList((first, layers(width, n(4, 1)), last)).train()
    films = torch.randn(n(4, 2), rows, frames, seen)
    films = films.bfloat16() if fixed else films
    batches = itertools.cycle(films.pin_memory() if PINNED else films)
    true = whole(kinds, rows)

    def loss():
        shown = next(batches).to(DEVICE, non_blocking=True)
        return F.cross_entropy(last(model[1](first(shown)).mean(1)).float(), true)

    return train(model, loss, cast=True)


@pair("preallocate")
def hangars_map_joined_picture_by_picture(fixed):
    """A robot makes a map of a hangar: 48 batches of 1024 places are seen a step, a small network (1024 wide, bf16)
    makes a vector of each, and the map is searched for 64 places at the end. The vectors are joined by
    `torch.cat((kept, new))` after each batch, which copies the whole map, at last 201 MB of fp32, 4.9 GB a step. The
    remedy allocates the map once, and writes each batch into its rows."""
    count, rows, width = n(48, 3), n(1024, 4), n(1024, 16)
    model = mlp(width, width, width, width).bfloat16().eval()
    seen = noise(n(8, 2), rows, width).bfloat16()
    sought = F.normalize(noise(n(64, 3), width), dim=-1)

    def joined():
        kept = torch.empty(0, width, device=DEVICE)
        for turn in range(count):
            new = F.normalize(model(seen[turn % len(seen)]).float(), dim=-1)
            kept = torch.cat((kept, new))
        return kept

    def written():
        kept = torch.empty(count * rows, width, device=DEVICE)
        for turn in range(count):
            new = F.normalize(model(seen[turn % len(seen)]).float(), dim=-1)
            kept[turn * rows : (turn + 1) * rows] = new
        return kept

    mapped = written if fixed else joined

    @torch.no_grad()
    def step():
        return (sought @ mapped().t()).max(1).values.tolist()

    return step


@good("pinned_memory", "larger_batch")
def good_shelves(version):
    """A library's search: an encoder (12 layers, 768 wide, bf16) makes vectors of 256 questions of 64 words a step,
    which come from pageable memory (0.1 MB), and finds the best ten of 200 000 shelves. Products fill the GPU.
    Neither pinned memory nor 512 questions a step bring much."""
    rows = n(256, 3) * (2 if version == "larger_batch" else 1)
    long, words, width, shelves = n(64, 5), n(32_000, 40), n(768, 16), n(200_000, 50)
    table = on_device(lambda: nn.Embedding(words, width))
    model = nn.ModuleList((table, layers(width, n(12, 1)))).bfloat16().eval()
    places = F.normalize(noise(shelves, width), dim=-1).bfloat16()
    asked = torch.randint(words, (n(8, 2), rows, long))
    pinned = version == "pinned_memory"
    batches = itertools.cycle(asked.pin_memory() if pinned and PINNED else asked)

    @torch.no_grad()
    def step():
        texts = next(batches).to(DEVICE, non_blocking=pinned)
        vectors = model[1](table(texts)).mean(1)
        return (vectors @ places.t()).topk(10).indices.tolist()

    return step
