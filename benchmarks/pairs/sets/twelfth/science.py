"""Rivers, storms, molecules, proteins, stars, robots and people: simulated, foretold, decided."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, mlp, noise, on_device, whole

WAYS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
"""Where water goes from a cell of a lattice in a tick, and ..."""
SHARES = (4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)
"""... how much of it, at rest."""


def _tick(water, stones):
    """Water a tick later: it goes on, meets, and bounces off stones."""
    water = [one.roll(way, (0, 1)) for one, way in zip(water, WAYS, strict=True)]
    dense = sum(water)
    right = sum(one * way[0] for one, way in zip(water, WAYS, strict=True)) / dense
    down = sum(one * way[1] for one, way in zip(water, WAYS, strict=True)) / dense
    speed = 1.5 * (right * right + down * down)
    later = []
    for one, way, share in zip(water, WAYS, SHARES, strict=True):
        along = 3 * (way[0] * right + way[1] * down)
        rest = share * dense * (1 + along + 0.5 * along * along - speed)
        back = WAYS.index((-way[0], -way[1]))
        later.append(torch.where(stones, water[back], one + (rest - one) / 0.6))
    return later


@pair("compile", early=("fix",))
def rivers_flow_operation_by_operation(fixed):
    """A river flows around stones on a lattice of 2048 x 4096 cells (lattice Boltzmann, nine ways),
    four ticks a step, operation by operation. The remedy compiles a tick."""
    high, wide = n(2048, 16), n(4096, 32)
    tick = torch.compile(_tick) if fixed else _tick
    stones = torch.rand(high, wide, device=DEVICE) < 0.02
    water = [torch.full((high, wide), share, device=DEVICE) for share in SHARES]
    water[1] = water[1] * 1.1

    @torch.no_grad()
    def step():
        nonlocal water
        for _ in range(n(4, 1)):
            water = tick(water, stones)

    return step


class Mesh(Module):
    """A step of a graph network: edges from their ends, nodes from their edges."""

    def __init__(self, width):
        self.edges = mlp(3 * width, width, width)
        self.nodes = mlp(2 * width, width, width)

    def forward(self, nodes, edges, ends):
        first, second = ends
        edges = edges + self.edges(torch.cat((edges, nodes[first], nodes[second]), 1))
        met = torch.zeros_like(nodes).index_add(0, second, edges)
        return nodes + self.nodes(torch.cat((nodes, met), 1)), edges


@pair("tf32", found=True)
def storms_meshed_in_full_fp32(fixed):
    """A graph network learns the weather six hours ahead on a mesh of 10 242 places and 81 882
    neighbourhoods, all products in full fp32; the remedy is
    `torch.set_float32_matmul_precision("high")`."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    width, places, near, told = n(512, 16), n(10_242, 20), n(81_882, 60), n(78, 5)
    first, ways, last = mlp(told, width, width), mlp(4, width, width), mlp(width, width, told)
    mesh = nn.ModuleList(Mesh(width) for _ in range(n(4, 1)))
    now, later, of_edges = noise(places, told), noise(places, told), noise(near, 4)
    ends = whole(places, 2, near)

    def loss():
        nodes, edges = first(now), ways(of_edges)
        for part in mesh:
            nodes, edges = part(nodes, edges, ends)
        return F.mse_loss(now + last(nodes), later)

    return train(nn.ModuleList((first, ways, last, mesh)), loss)


def _molecule(drawn, kinds):
    """Atoms and bonds of a molecule of 12 to 40 atoms, and how soluble it is."""
    from torch_geometric.data import Data

    atoms = int(drawn.integers(12, 41))
    bonds = np.stack((np.arange(atoms - 1), np.arange(1, atoms)))
    rings = drawn.integers(0, atoms, (2, 4))
    ends = torch.from_numpy(np.concatenate((bonds, rings), 1))
    return Data(
        x=torch.from_numpy(drawn.integers(0, kinds, atoms)),
        edge_index=torch.cat((ends, ends.flip(0)), 1),
        y=torch.tensor([float(drawn.standard_normal())]),
    )


@pair("data_loader_workers", found=True, libraries=("torch_geometric",))
def molecules_joined_in_line(fixed):
    """A GIN of torch_geometric learns how soluble 512 molecules a step are; its `DataLoader` joins
    their graphs in the loop that trains. The remedy has eight processes do it."""
    from torch_geometric.loader import DataLoader as GraphLoader
    from torch_geometric.nn import GINConv, global_add_pool

    drawn = np.random.default_rng(7)
    width, kinds = n(256, 8), n(30, 4)
    loader = GraphLoader(
        [_molecule(drawn, kinds) for _ in range(n(8192, 16))],
        batch_size=n(512, 4),
        shuffle=True,
        num_workers=n(8, 1) if fixed else 0,
        persistent_workers=fixed,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    table = on_device(lambda: nn.Embedding(kinds, width))
    meet = nn.ModuleList(
        GINConv(mlp(width, 2 * width, width, between=nn.ReLU)) for _ in range(n(5, 2))
    ).to(DEVICE)
    last = mlp(width, width, 1)

    def loss():
        some = next(batches).to(DEVICE)
        h = table(some.x)
        for one in meet:
            h = h + one(h, some.edge_index).relu()
        return F.mse_loss(last(global_add_pool(h, some.batch)).squeeze(-1), some.y)

    return train(nn.ModuleList((table, meet, last)), loss)


class Rows(Module):
    """Rows of an alignment attend along themselves; a bias says which residues are near."""

    def __init__(self, width, pair_width, *, builtin):
        self.builtin = builtin
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.near = nn.Linear(pair_width, width // n(64, 8), bias=False)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x, pairs):
        h = self.before(x)
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        bias = self.near(pairs).movedim(-1, 0).contiguous()
        if self.builtin:
            told = F.scaled_dot_product_attention(q, k, v, bias[None].expand(len(q), -1, -1, -1))
        else:
            scores = torch.einsum("shqc,shkc->shqk", q, k) * q.shape[-1] ** -0.5
            scores = scores + bias
            told = torch.einsum("shqk,shkc->shqc", scores.softmax(-1), v)
        return x + self.out(told.transpose(1, 2).flatten(2) * self.gate(h).sigmoid())


@pair("fused_attention")
def alignments_attend_with_a_bias(fixed):
    """A model of proteins in bf16 reads 128 aligned rows of 384 residues: rows attend with a bias
    from pairs of residues, written out with `einsum`. The remedy is
    `scaled_dot_product_attention` with the bias."""
    width, pair_width, rows, residues = n(256, 16), n(128, 8), n(128, 3), n(384, 6)
    body = on_device(
        lambda: nn.ModuleList(Rows(width, pair_width, builtin=fixed) for _ in range(n(8, 2)))
    )
    after = nn.ModuleList(mlp(width, 4 * width, width, between=nn.ReLU) for _ in body)
    nn.ModuleList((body, after)).bfloat16().eval()
    aligned = noise(rows, residues, width, dtype=torch.bfloat16)
    pairs = noise(residues, residues, pair_width, dtype=torch.bfloat16)

    @torch.no_grad()
    def step():
        h = aligned
        for attend, move in zip(body, after, strict=True):
            h = attend(h, pairs)
            h = h + move(h)
        return h.mean(0)

    return step


class Curve(Module):
    """What a star's light over time tells: convolutions with holes, and a mean."""

    def __init__(self, width, depth, kinds):
        self.first = nn.Conv1d(2, width, 7, padding=3)
        self.body = nn.ModuleList(
            nn.Conv1d(width, width, 3, padding=2**at, dilation=2**at) for at in range(depth)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.last = nn.Linear(width, kinds)

    def forward(self, x):
        x = self.first(x)
        for conv, norm in zip(self.body, self.norms, strict=True):
            x = x + F.relu(norm(conv(x)))
        return self.last(x.mean(2))


@pair("larger_batch", found=True, as_much=16.0)
def stars_sixteen_curves_a_step(fixed):
    """A network with convolutions learns kinds of variable stars from 16 curves of 1024 nights a
    step, in bf16 autocast; the remedy takes 256 a step."""
    rows, kinds = n(256 if fixed else 16, 4 if fixed else 2), n(12, 3)
    model = on_device(lambda: Curve(n(128, 8), n(8, 3), kinds))
    light, names = noise(rows, 2, n(1024, 32)), whole(kinds, rows)
    return train(model, lambda: F.cross_entropy(model(light).float(), names), cast=True)


class Ensemble(Module):
    """Networks of equal widths, their weights stacked."""

    def __init__(self, count, *widths):
        sizes = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(
            torch.randn(count, *size) * size[0] ** -0.5 for size in sizes
        )
        self.biases = nn.ParameterList(torch.zeros(count, 1, after) for _, after in sizes)

    def forward(self, x):
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = F.silu(x) if number < len(self.weights) - 1 else x
        return x


@pair("batched_matmul", found=True)
def arms_models_learnt_in_turn(fixed):
    """Thirty-two models of how a robot's arm moves learn from 256 moves each, for a planner that
    trusts where they agree; they are called in turn. The remedy stacks their weights, and
    multiplies in one batched product."""
    count, rows = n(32, 3), n(256, 4)
    widths = (n(24, 4), *[n(256, 8)] * 3, n(18, 3))
    seen, moved = noise(count, rows, widths[0]), noise(count, rows, widths[-1])
    if fixed:
        model = on_device(lambda: Ensemble(count, *widths))
        return train(model, lambda: F.mse_loss(model(seen), moved) * count)
    models = nn.ModuleList(mlp(*widths) for _ in range(count))

    def loss():
        told = zip(models, seen, moved, strict=True)
        return sum(F.mse_loss(model(x), wanted) for model, x, wanted in told)

    return train(models, loss)


def _token(text, words):
    """The number of a word, by the hash that a service in another language has, too."""
    number = 2166136261
    for letter in text.encode():
        number = (number ^ letter) * 16777619 & 0xFFFFFFFF
    return number % words


@pair("move_host_work", found=True)
def adverts_hashed_in_the_loop(fixed):
    """A recommender learns who clicks on adverts, 1024 a step: eight words tell each, and Python
    hashes them in the loop that trains. The remedy hashes all before it begins."""
    rows, columns, words, width = n(1024, 4), 8, n(500_000, 50), n(64, 8)
    drawn = np.random.default_rng(4)
    told = drawn.integers(0, 10_000, (n(16, 2), rows, columns))
    log = [[[f"{c}={kind:05d}" for c, kind in enumerate(row)] for row in part] for part in told]

    def hashed(part):
        return torch.tensor([[_token(text, words) for text in row] for row in part])

    known = itertools.cycle([hashed(part) for part in log] if fixed else log)
    table = on_device(lambda: nn.EmbeddingBag(words, width, mode="sum"))
    top = mlp(columns * width, n(1024, 8), n(512, 8), 1, between=nn.ReLU)
    clicked = (torch.rand(rows, device=DEVICE) < 0.03).float()

    def loss():
        part = next(known)
        ids = (part if fixed else hashed(part)).to(DEVICE)
        seen = table(ids.view(-1, 1)).view(rows, -1)
        return F.binary_cross_entropy_with_logits(top(seen).squeeze(-1), clicked)

    return train(nn.ModuleList((table, top)), loss)


def _watch(module, _, told):
    """A hook that somebody left after a search for NaN."""
    if not torch.isfinite(told).all():
        raise FloatingPointError(type(module).__name__)


@pair("remove_syncs", found=True)
def tariffs_watched_for_nan(fixed):
    """A transformer for series, in bf16 autocast, learns tomorrow's prices of power from 64 weeks by
    the hour; a hook asks after each module whether all numbers are finite. The remedy takes the
    hooks out."""
    width = n(256, 16)
    first, body, last = mlp(n(8, 3), width), layers(width, n(8, 1)), mlp(width, 24)
    model = nn.ModuleList((first, body, last))
    if not fixed:
        for module in model.modules():
            if not [*module.children()]:
                module.register_forward_hook(_watch)
    weeks, wanted = noise(n(64, 2), n(168, 6), n(8, 3)), noise(n(64, 2), 24)
    return train(
        model, lambda: F.mse_loss(last(body(first(weeks))[:, -1]).float(), wanted), cast=True
    )


class Residual(Module):
    """A block that keeps its input's width."""

    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


@pair("pad_shapes", found=True)
def patients_age_appended(fixed):
    """A network in bf16 autocast learns from the vectors of 8192 patients' records, of 2048 numbers
    each, who will be back; the age is appended, and all layers are 2049 wide. The remedy pads
    them to 2056."""
    records, rows = n(2048, 16), n(8192, 4)
    width = records + (8 if fixed else 1)
    body = on_device(lambda: nn.Sequential(*(Residual(width) for _ in range(n(6, 1)))))
    last = mlp(width, 1)
    known, age = noise(rows, records), noise(rows, 1)
    back = (torch.rand(rows, device=DEVICE) < 0.2).float()

    def loss():
        x = F.pad(torch.cat((known, age), 1), (0, width - records - 1))
        return F.binary_cross_entropy_with_logits(last(body(x)).squeeze(-1).float(), back)

    return train(nn.ModuleList((body, last)), loss, cast=True)


@good("data_loader_workers", "fused_optimizer", found=True)
def good_tremors(version):
    """A network of convolutions and a transformer learns from 256 traces of seismographs when
    tremors begin, in bf16 autocast; a loader without processes hands out slices of what lies in
    memory, while the GPU is busy."""
    width, rows = n(512, 16), n(256, 4)
    first = on_device(
        lambda: nn.Sequential(
            nn.Conv1d(3, width // 4, 11, 4, 5),
            nn.GELU(),
            nn.Conv1d(width // 4, width, 11, 4, 5),
            nn.GELU(),
        )
    )
    body, last = layers(width, n(6, 1)), mlp(width, 2)
    workers = n(4, 1) if version == "data_loader_workers" else 0
    loader = DataLoader(
        TensorDataset(torch.randn(8 * rows, 3, n(6000, 64)), torch.rand(8 * rows, 2)),
        batch_size=None,
        sampler=[slice(at, at + rows) for at in range(0, 8 * rows, rows)],
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=DEVICE == "cuda",
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    model = nn.ModuleList((first, body, last))
    fused = version == "fused_optimizer" or None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=fused)

    def loss():
        traces, begin = (part.to(DEVICE, non_blocking=True) for part in next(batches))
        with autocast():
            told = last(body(first(traces).transpose(1, 2)).mean(1))
        return F.mse_loss(told.float(), begin)

    return train(optimizer, loss)
