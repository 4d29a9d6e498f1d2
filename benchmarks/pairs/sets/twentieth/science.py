"""Science: lizards, plants of power, diseases, quakes, cells; good: listeners."""

import itertools
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"


class _Automaton(Module):
    """A neural cellular automaton: each cell sees its neighbours, and half of the cells change in a tick."""

    def __init__(self, states, width):
        slope = torch.outer(torch.tensor([1.0, 2.0, 1.0]), torch.tensor([-1.0, 0.0, 1.0])) / 8
        same = torch.zeros(3, 3)
        same[1, 1] = 1.0
        seen = torch.stack((same, slope, slope.t())).repeat(states, 1, 1)
        self.register_buffer("seen", seen[:, None])
        self.first, self.last = (
            nn.Conv2d(3 * states, width, 1),
            nn.Conv2d(width, states, 1, bias=False),
        )
        self.states = states

    @staticmethod
    def alive(x):
        """Which cells have a ripe neighbour."""
        return F.max_pool2d(x[:, 3:4], 3, 1, 1) > 0.1

    def forward(self, x):
        before = self.alive(x)
        seen = F.conv2d(x, self.seen, padding=1, groups=self.states)
        more = self.last(F.relu(self.first(seen)))
        x = x + more * (torch.rand_like(x[:, :1]) < 0.5)
        return x * (before & self.alive(x))


@pair("cuda_graph", found=True)
def lizards_grown_kernel_by_kernel(fixed):
    """A neural cellular automaton (16 states, 128 wide) learns to grow lizards out of a cell: four pictures of 48 x 48
    cells grow for 64 ticks a step, and the backward pass goes through all of them, TF32 allowed. That is some
    3000 kernels of a few microseconds, and the GPU waits for their launches. Shapes never change. The remedy
    captures the step in a CUDA graph."""
    torch.set_float32_matmul_precision("high")
    rows, side, states, ticks = n(4, 2), n(48, 8), n(16, 5), n(64, 3)
    model = on_device(lambda: _Automaton(states, n(128, 8))).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True, capturable=True)
    egg = torch.zeros(rows, states, side, side, device=DEVICE)
    egg[:, 3:, side // 2, side // 2] = 1.0
    lizard = torch.rand(4, side, side, device=DEVICE).expand(rows, -1, -1, -1)

    def loss():
        x = egg
        for _ in range(ticks):
            x = model(x)
        return F.mse_loss(x[:, :4], lizard)

    step = train(optimizer, loss)
    return graphed(step) if fixed else step


class _EachItsOwn(Module):
    """A linear layer for each plant, called in turn."""

    def __init__(self, plants, before, after):
        self.each = nn.ModuleList(nn.Linear(before, after) for _ in range(plants))
        self.after = after

    def forward(self, x):
        told = x.new_zeros(*x.shape[:2], self.after)
        for plant, layer in enumerate(self.each):
            told[:, plant] = layer(x[:, plant])
        return told


class _Stacked(Module):
    """The same, the weights of all plants in one tensor."""

    def __init__(self, plants, before, after):
        self.weight = nn.Parameter(torch.randn(plants, before, after) / math.sqrt(before))
        self.bias = nn.Parameter(torch.zeros(plants, 1, after))

    def forward(self, x):
        return torch.baddbmm(self.bias, x.transpose(0, 1), self.weight).transpose(0, 1)


@pair("batched_matmul", found=True)
def sunshine_foretold_plant_by_plant(fixed):
    """A DLinear with `individual=True` foretells the next 96 hours of 137 plants for solar power from 336, in 32
    windows a step, TF32 allowed: series are split into trend and rest, and each plant has a linear layer for
    either. The 274 layers are called in a loop, 32 rows each. The remedy stacks their weights and has two
    batched products (`baddbmm`)."""
    torch.set_float32_matmul_precision("high")
    rows, plants, before, after = n(32, 2), n(137, 3), n(336, 30), n(96, 5)
    kind = _Stacked if fixed else _EachItsOwn
    with torch.device(DEVICE):
        model = nn.ModuleList(kind(plants, before, after) for _ in range(2)).train()
    seen, true = noise(rows, plants, before), noise(rows, plants, after)

    def loss():
        trend = F.avg_pool1d(F.pad(seen, (12, 12), mode="replicate"), 25, 1)
        return F.mse_loss(model[0](trend) + model[1](seen - trend), true)

    return train(model, loss)


class _Facts(Module):
    """ComplEx: vectors of complex numbers for diseases, genes and drugs, and for how they are related."""

    def __init__(self, things, kinds, width):
        self.things, self.kinds = nn.Embedding(things, width), nn.Embedding(kinds, width)

    def loss(self, first, kind, others, wrong):
        """`others`: what is related and what is not, [rows, 1 + drawn]; `wrong`: where that was drawn amiss."""
        (a, b), (c, d) = self.things(first).chunk(2, -1), self.kinds(kind).chunk(2, -1)
        asked = torch.cat((a * c - b * d, a * d + b * c), -1)
        told = (self.things(others) @ asked[:, :, None]).squeeze(-1)
        told = told.masked_fill(wrong, -math.inf)
        return F.cross_entropy(told, torch.zeros_like(first))


@pair("move_host_work", found=True)
def diseases_negatives_checked_in_numpy(fixed):
    """A ComplEx (200 000 diseases, genes and drugs, 256 wide) learns 2 million facts, 2048 a step, TF32 allowed. For
    each, 64 things are drawn that it is not about; those that make a known fact must not count. NumPy draws the
    131 072 and looks each up among the sorted facts, on the host, while the GPU waits. The remedy draws them on
    the GPU and looks them up there (`torch.searchsorted`)."""
    torch.set_float32_matmul_precision("high")
    things, kinds, count = n(200_000, 50), n(30, 3), n(2_000_000, 200)
    rows, drawn = n(2048, 4), n(64, 3)
    model = on_device(lambda: _Facts(things, kinds, n(256, 8))).train()
    random = np.random.default_rng(0)
    facts = np.sort(random.integers(things * kinds * things, size=count))
    on_gpu = torch.from_numpy(facts).to(DEVICE)

    def some():
        """Facts of a step: what is known of what, and what is related."""
        known = facts[random.integers(count, size=rows)]
        return known // things, known % things

    def by_numpy():
        asked, true = some()
        others = random.integers(things, size=(rows, drawn))
        keys = asked[:, None] * things + others
        wrong = facts[np.searchsorted(facts, keys).clip(max=count - 1)] == keys
        return [torch.from_numpy(one).to(DEVICE) for one in (asked, true, others, wrong)]

    def by_torch():
        asked, true = (torch.from_numpy(one).to(DEVICE) for one in some())
        others = whole(things, rows, drawn)
        keys = asked[:, None] * things + others
        wrong = on_gpu[torch.searchsorted(on_gpu, keys).clamp(max=count - 1)] == keys
        return asked, true, others, wrong

    draw = by_torch if fixed else by_numpy

    def loss():
        asked, true, others, wrong = draw()
        others = torch.cat((true[:, None], others), 1)
        return model.loss(asked // kinds, asked % kinds, others, F.pad(wrong, (1, 0)))

    return train(model, loss)


class _Quakes(Dataset):
    """Minutes of three-way records: cut, filtered and made louder at random, and when waves arrive."""

    def __init__(self, count, records, long):
        random = np.random.default_rng(0)
        self.records = random.standard_normal((records, 3, long + long // 2), dtype=np.float32)
        self.count, self.long = count, long

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        random = np.random.default_rng(place)
        begin = random.integers(self.long // 2)
        wave = self.records[place % len(self.records)][:, begin : begin + self.long]
        wave = wave + 0.1 * random.standard_normal(wave.shape, dtype=np.float32)
        heard = np.fft.rfftfreq(self.long)
        low, high = random.uniform(0.0, 0.02), random.uniform(0.2, 0.5)
        wave = np.fft.irfft(np.fft.rfft(wave) * ((heard > low) & (heard < high)), self.long)
        wave = (wave - wave.mean(1, keepdims=True)) / (wave.std(1, keepdims=True) + 1e-6)
        arrive = random.uniform(0, self.long, (2, 1))
        near = np.exp(-0.5 * ((np.arange(self.long) - arrive) / 20) ** 2)
        true = np.concatenate((near, (1 - near.sum(0, keepdims=True)).clip(0)))
        return wave.astype(np.float32), true.astype(np.float32)


class _Picker(Module):
    """A PhaseNet: a U-Net along time."""

    def __init__(self, width, stages):
        widths = [width * 2**stage for stage in range(stages)]
        self.first = self.twice(3, width)
        self.down = nn.ModuleList(
            nn.Sequential(nn.MaxPool1d(4), self.twice(a, b)) for a, b in itertools.pairwise(widths)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose1d(b, a, 4, 4) for a, b in itertools.pairwise(widths)
        )
        self.join = nn.ModuleList(self.twice(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv1d(width, 3, 1)

    @staticmethod
    def twice(before, after):
        """Two convolutions."""
        made = []
        for one in (before, after):
            made += [
                nn.Conv1d(one, after, 7, padding=3, bias=False),
                nn.BatchNorm1d(after),
                nn.ReLU(),
            ]
        return nn.Sequential(*made)

    def forward(self, x):
        seen = [self.first(x)]
        for stage in self.down:
            seen.append(stage(seen[-1]))
        x = seen.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            x = join(torch.cat((seen.pop(), up(x)), 1))
        return self.last(x).float()


@pair("data_loader_workers", found=True)
def quakes_filtered_in_the_training_loop(fixed):
    """A PhaseNet (a U-Net along time, four stages, 32 wide) learns in bf16 autocast when waves of earthquakes arrive,
    from 64 records a step, three ways of 6144 moments. The data set cuts each at random, adds noise, filters it by
    Fourier transforms and draws when waves arrive, in NumPy, which takes about a millisecond; the `DataLoader`
    has no workers, so that the loop that trains does it. The remedy is `num_workers=12`."""
    workers = n(12, 2) if fixed else 0
    rows = n(64, 2)
    loader = DataLoader(
        _Quakes(n(8192, 8), n(256, 4), n(6144, 256)),
        rows,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=PINNED,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    model = on_device(lambda: _Picker(n(32, 4), n(4, 2))).train()

    def loss():
        heard, true = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return -(model(heard).log_softmax(1) * true).sum(1).mean()

    return train(model, loss, cast=True)


class _Among(Module):
    """A block of a Set Transformer: each cell of a sample looks at all of them."""

    def __init__(self, width, heads, *, fused):
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in "qkvo")
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.fused = heads, fused

    def by_hand(self, q, k, v):
        """Attention as the paper's repository has it, heads behind each other in the batch."""
        each = q.shape[-1] // self.heads
        one, other, told = (torch.cat(x.split(each, 2), 0) for x in (q, k, v))
        seen = torch.softmax(one.bmm(other.transpose(1, 2)) / math.sqrt(q.shape[-1]), 2)
        return torch.cat(seen.bmm(told).split(len(q), 0), 2)

    def at_once(self, q, k, v):
        """The same, by PyTorch's function."""
        split = [x.unflatten(2, (self.heads, -1)).transpose(1, 2) for x in (q, k, v)]
        seen = F.scaled_dot_product_attention(*split, scale=1 / math.sqrt(q.shape[-1]))
        return seen.transpose(1, 2).flatten(2)

    def forward(self, x):
        attend = self.at_once if self.fused else self.by_hand
        q = self.q(x)
        x = self.one(q + attend(q, self.k(x), self.v(x)))
        return self.two(x + F.relu(self.out(x)))


@pair("fused_attention", found=True)
def leukaemia_cells_attend_as_in_the_paper(fixed):
    """A Set Transformer (four blocks, 256 wide, four heads) learns in bf16 autocast which of eight kinds of leukaemia
    16 samples of blood have, 2048 cells each, of 40 markers that a cytometer measured. Its attention is the
    paper's repository's, written out: scores of all pairs of cells (268 million) are multiplied, scaled, put
    through a softmax and multiplied again. The remedy is `scaled_dot_product_attention`."""
    rows, cells, markers, kinds = n(16, 2), n(2048, 9), n(40, 4), n(8, 3)
    width = n(256, 16)

    def made():
        blocks = (_Among(width, 4, fused=fixed) for _ in range(n(4, 1)))
        return nn.Sequential(nn.Linear(markers, width), *blocks)

    body, last = on_device(made), mlp(width, width, kinds)
    model = nn.ModuleList((body, last)).train()
    blood, true = noise(rows, cells, markers), whole(kinds, rows)
    return train(model, lambda: F.cross_entropy(last(body(blood).mean(1)).float(), true), cast=True)


@good("tf32", "pinned_memory", found=True)
def good_listeners(version):
    """A LightGCN (three layers, 64 wide) learns who listens to which song, on a graph of 200 000 listeners and songs
    with 3 million edges, from 8192 triples a step that come from ordinary memory (0.2 MB). Its layers gather and add
    and have no products. Neither TF32 nor pinned memory brings anything."""
    torch.set_float32_matmul_precision("high" if version == "tf32" else "highest")
    count, ends, rows = n(200_000, 30), n(3_000_000, 80), n(8192, 4)
    table = on_device(lambda: nn.Embedding(count, n(64, 8)))
    begins, stops = whole(count, 2, ends)
    often = torch.bincount(stops, minlength=count).clamp(min=1).float().rsqrt()
    weight = (often[begins] * often[stops])[:, None]
    triples = torch.randint(count, (n(16, 2), 3, rows))
    batches = itertools.cycle(
        triples.pin_memory() if version == "pinned_memory" and PINNED else triples
    )

    def told():
        x = total = table.weight
        for _ in range(3):
            x = torch.zeros_like(x).index_add(0, stops, x.index_select(0, begins) * weight)
            total = total + x
        return total / 4

    def loss():
        picked = next(batches).to(DEVICE, non_blocking=True)
        who, liked, other = told().index_select(0, picked.flatten()).chunk(3)
        return -F.logsigmoid((who * (liked - other)).sum(-1)).mean()

    return train(table, loss)
