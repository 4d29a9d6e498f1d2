"""Decisions and nature: liquids, friends, welds, corpora; shoppers and enzymes."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.fourteenth.pictures import Ahead
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"


class _Liquid(Module):
    """Energy of atoms in a box that repeats: a small network is told how near the others are."""

    def __init__(self, atoms, size, ways, width):
        self.size, self.reach = size, size / 2
        self.net = mlp(ways, width, width, 1)
        self.register_buffer("steps", torch.linspace(0.5, self.reach, ways))
        self.register_buffer("own", torch.eye(atoms))

    def forward(self, places):
        apart = places[:, None] - places
        apart = apart - self.size * (apart / self.size).round()
        far = (apart.square().sum(-1) + self.own).sqrt()
        near = 0.5 * (torch.pi * far / self.reach).cos() + 0.5
        near = near * (far < self.reach) * (1 - self.own)
        bells = torch.exp(-4 * (far[..., None] - self.steps) ** 2)
        return self.net((bells * near[..., None]).sum(1)).sum()


@pair("cuda_graph")
def liquids_moved_kernel_by_kernel(fixed):
    """Molecular dynamics with a learnt potential: 384 atoms of a liquid are moved by 20 ticks a step. For
    each tick a small network tells the energy from how near the atoms are, and autograd tells the
    forces from that, kernel by kernel. The remedy captures the ticks in a CUDA graph."""
    torch.set_float32_matmul_precision("high")
    atoms, size, ticks, tick = n(384, 6), 8.0, n(20, 2), 0.002
    liquid = on_device(lambda: _Liquid(atoms, size, n(16, 4), n(64, 8)))
    liquid.requires_grad_(requires_grad=False)
    places, speeds = size * torch.rand(atoms, 3, device=DEVICE), 0.1 * noise(atoms, 3)

    def step():
        now, speed = places.clone(), speeds.clone()
        for _ in range(ticks):
            now.requires_grad_()
            (slope,) = torch.autograd.grad(liquid(now), now)
            speed = speed - tick * slope
            now = (now.detach() + tick * speed).remainder(size)
        places.copy_(now)
        speeds.copy_(speed)
        return places

    return graphed(step) if fixed else step


@pair("sparse_gradients", found=True)
def friends_tables_moved_as_a_whole(fixed):
    """DeepWalk learns vectors of 1.9 million people by plain SGD, from 81 920 pairs of a step who met on
    a walk, and ten strangers each. The gradients of its two tables are dense: both are filled with
    zeros, and SGD goes through all rows, although most were not looked up. The remedy is
    `sparse=True`, by which SGD learns the same."""
    people, width, rows, strangers = n(1_900_000, 50), n(128, 8), n(81_920, 6), n(10, 2)

    def table():
        return nn.Embedding(people, width, sparse=fixed)

    who, whom = on_device(table), on_device(table)
    met = whole(people, n(8, 2), rows, strangers + 2)
    pairs = itertools.cycle(met)
    tables = nn.ModuleList((who, whom))

    def loss():
        some = next(pairs)
        one, others = who(some[:, 0]), whom(some[:, 1:])
        near = torch.bmm(others, one[:, :, None]).squeeze(-1)
        return -(F.logsigmoid(near[:, 0]) + F.logsigmoid(-near[:, 1:]).sum(1)).mean()

    return train(torch.optim.SGD(tables.parameters(), 0.05), loss)


def _bases(x, knots):
    """What each of the bases of cubic splines is at x, by the recursion of Cox and de Boor."""
    x = x[..., None]
    told = ((x >= knots[:-1]) & (x < knots[1:])).to(x.dtype)
    for k in range(1, 4):
        rising = (x - knots[: -(k + 1)]) / (knots[k:-1] - knots[: -(k + 1)])
        falling = (knots[k + 1 :] - x) / (knots[k + 1 :] - knots[1:-k])
        told = rising * told[..., :-1] + falling * told[..., 1:]
    return told


class _Splines(Module):
    """A layer of a Kolmogorov-Arnold network: a spline for each pair of an input and an output."""

    def __init__(self, before, after, pieces, bases):
        self.bases = bases
        knots = torch.arange(-3, pieces + 4) * (2 / pieces) - 1
        self.register_buffer("knots", knots)
        self.base = nn.Linear(before, after, bias=False)
        self.spline = nn.Linear(before * (pieces + 3), after, bias=False)

    def forward(self, x):
        return self.base(F.silu(x)) + self.spline(self.bases(x, self.knots).flatten(1))


@pair("compile", found=True, early=("fix",))
def welds_splines_in_eager(fixed):
    """A Kolmogorov-Arnold network (four layers, 256 wide) learns how strong 4096 welds are from what was
    measured as they were made, TF32 allowed. The bases of its cubic splines are computed by a recursion
    of operations on a tensor of all of them. The remedy compiles the recursion."""
    torch.set_float32_matmul_precision("high")
    rows, width, pieces = n(4096, 4), n(256, 6), n(8, 3)
    bases = torch.compile(_bases) if fixed else _bases
    sizes = *[(width, width)] * n(3, 1), (width, 1)
    model = on_device(lambda: nn.Sequential(*(_Splines(*size, pieces, bases) for size in sizes)))
    welds, strong = torch.rand(rows, width, device=DEVICE) * 2 - 1, noise(rows, 1)
    return train(model, lambda: F.mse_loss(model(welds), strong))


@pair("copy_ahead")
def corpora_searched_shard_by_shard(fixed):
    """The best ten passages for 2048 questions are looked for in a corpus that lies in pinned memory, for
    it is larger than the GPU's: four shards of 65 536 vectors in bf16 a step. Each shard is copied, and
    then searched, in one stream. The remedy copies the next shard into a second buffer beside the
    search."""
    rows, passages, width, best = n(2048, 3), n(65_536, 20), n(768, 8), n(10, 2)
    of_step = n(4, 2)
    corpus = noise(2 * of_step, passages, width, dtype=torch.bfloat16).cpu()
    corpus = corpus.pin_memory() if PINNED else corpus
    asked = noise(rows, width, dtype=torch.bfloat16)
    ahead = Ahead([*corpus], buffers=2) if fixed else None
    shards = itertools.cycle(corpus)

    def searched():
        """The next shard, on the GPU."""
        if ahead is None:
            return next(shards).to(DEVICE, non_blocking=True)
        shard = ahead.take()
        ahead.begin()
        return shard

    @torch.no_grad()
    def step():
        likes, names = [], []
        for number in range(of_step):
            like, name = (asked @ searched().t()).topk(best)
            likes.append(like)
            names.append(name + number * passages)
        chosen = torch.cat(likes, 1).topk(best).indices
        return torch.cat(names, 1).gather(1, chosen)

    return step


@good("sparse_gradients", "remove_syncs", found=True)
def good_shoppers(version):
    """A recommender learns in bf16 autocast who buys, from 32 768 shoppers a step with 26 ids each. Its
    tables are small (26 000 rows in all), so that their dense gradients and Adagrad cost little next to
    the wide layers above; the loss is read at the end of a step."""
    rows, fields, kinds, each = n(32_768, 4), n(26, 3), n(1000, 10), n(64, 4)
    wide = n(4096, 16)
    sparse = version == "sparse_gradients"
    table = on_device(lambda: nn.Embedding(fields * kinds, each, sparse=sparse))
    top = mlp(fields * each, wide, wide, wide, wide, 1, between=nn.ReLU)
    optimizers = (
        torch.optim.Adagrad(table.parameters(), 0.01),
        torch.optim.AdamW(top.parameters(), 1e-5, fused=True),
    )
    shown = whole(kinds, rows, fields) + kinds * torch.arange(fields, device=DEVICE)
    bought = (torch.rand(rows, device=DEVICE) < 0.03).float()

    def step():
        with autocast():
            told = top(table(shown).flatten(1)).squeeze(-1)
        loss = F.binary_cross_entropy_with_logits(told.float(), bought)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach() if version == "remove_syncs" else loss.item()

    return step


@good("copy_less", "fused_optimizer", found=True)
def good_enzymes(version):
    """A transformer (eight layers, 512 wide) learns in bf16 autocast which residues are hidden in 48
    enzymes of 512. Residues are sent as whole numbers of 64 bits, and AdamW is the default one: both
    are little next to large products."""
    rows, long, width, words = n(48, 2), n(512, 6), n(512, 16), n(32, 5)
    kind = torch.uint8 if version == "copy_less" else torch.long
    sent = torch.randint(words, (4, 2, rows, long)).to(kind)
    batches = itertools.cycle(sent.pin_memory() if PINNED else sent)
    table, last = on_device(lambda: nn.Embedding(words, width)), mlp(width, words)
    body = layers(width, n(8, 1))
    model = nn.ModuleList((table, body, last))
    fused = version == "fused_optimizer" or None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=fused)

    def loss():
        seen, hidden = next(batches).to(DEVICE, non_blocking=True).long()
        return F.cross_entropy(last(body(table(seen))).flatten(0, 1).float(), hidden.flatten())

    return train(optimizer, loss, cast=True)
