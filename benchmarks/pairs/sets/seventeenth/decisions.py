"""Tables, science and games: contracts, plates, dreams, warehouses; good: baskets and meters."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"


class _Residual(Module):
    """A layer of a residual network for tables."""

    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def _shuffled(rows, batch):
    """Numbers of the rows of a batch, without end: all rows in a new order, on the device."""
    while True:
        order = torch.randperm(rows, device=DEVICE)
        yield from order[: rows // batch * batch].split(batch)


@pair("move_host_work", found=True)
def contracts_taken_row_by_row(fixed):
    """A residual network (four layers, 512 wide) learns in bf16 autocast who ends a telephone contract, from
    2048 contracts a step with 96 numbers each. The table is a `TensorDataset`, and the `DataLoader`
    takes 2048 rows from it one by one and stacks them. The remedy has the table on the GPU, where a batch
    is one indexing."""
    rows, batch, told, width = n(400_000, 40), n(2048, 4), n(96, 6), n(512, 16)
    table = torch.randn(rows, told)
    ended = (torch.rand(rows) < 0.2).float()
    model = mlp(told, width)
    model.extend([*on_device(lambda: [_Residual(width) for _ in range(n(4, 1))]), mlp(width, 1)])
    if fixed:
        here, known = table.to(DEVICE), ended.to(DEVICE)
        batches = ((here[some], known[some]) for some in _shuffled(rows, batch))
    else:
        data = TensorDataset(table, ended)
        loader = DataLoader(data, batch, shuffle=True, drop_last=True, pin_memory=PINNED)
        batches = itertools.chain.from_iterable(itertools.repeat(loader))

    def loss():
        some, wanted = next(batches)
        some = some.to(DEVICE, non_blocking=True)
        wanted = wanted.to(DEVICE, non_blocking=True)
        return F.binary_cross_entropy_with_logits(model(some).squeeze(-1).float(), wanted)

    return train(model, loss, cast=True)


@pair("tf32", found=True)
def plates_operator_in_full_fp32(fixed):
    """A DeepONet learns how hot 8192 points of a plate are, from the heat at its edge: a network (2048 wide)
    reads the edges of 512 plates, another one the points, and the products of both are the heat. PyTorch's
    default is full fp32 for products; the remedy is `set_float32_matmul_precision("high")`."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    plates, points, edge, width, basis = n(512, 3), n(8192, 5), n(1024, 7), n(2048, 8), n(512, 4)
    branch = mlp(edge, width, width, basis, between=nn.GELU)
    trunk = mlp(2, width, width, width, basis, between=nn.GELU)
    edges, hot = noise(plates, edge), noise(plates, points)
    where = torch.rand(points, 2, device=DEVICE)

    def loss():
        return F.mse_loss(branch(edges) @ trunk(where).t() / basis, hot)

    return train(nn.ModuleList((branch, trunk)), loss)


class _World(Module):
    """A world that Dreamer has learnt: a memory, and 32 variables of as many values."""

    def __init__(self, width, kinds, moves):
        self.kinds = kinds
        self.merge = mlp(kinds * kinds + moves, width)
        self.memory = nn.GRUCell(width, width)
        self.prior = mlp(width, width, kinds * kinds)
        self.actor = mlp(width + kinds * kinds, width, width, moves)
        self.reward = mlp(width + kinds * kinds, width, 1)
        self.value = mlp(width + kinds * kinds, width, 1)
        self.register_buffer("numbers", torch.arange(max(kinds, moves)))

    def drawn(self, scores):
        """One of the values by how likely it is, as zeros and a one."""
        gumbel = -torch.empty_like(scores).exponential_().log()
        best = (scores + gumbel).argmax(-1, keepdim=True)
        return (best == self.numbers[: scores.shape[-1]]).to(scores.dtype)

    def forward(self, memory, state):
        seen = torch.cat((memory, state), -1)
        move = self.drawn(self.actor(seen))
        memory = self.memory(F.silu(self.merge(torch.cat((state, move), -1))), memory)
        state = self.drawn(self.prior(memory).unflatten(-1, (self.kinds, -1))).flatten(1)
        return memory, state


@pair("cuda_graph")
def dreams_dreamt_kernel_by_kernel(fixed):
    """Dreamer lets its policy act in the world that it has learnt, from 256 moments, for 15 moves, and sums
    up what that is worth. A move is a GRU cell, two small networks and draws, kernel by kernel, TF32
    allowed. The remedy captures the 15 moves in a CUDA graph."""
    torch.set_float32_matmul_precision("high")
    rows, ahead, width, kinds = n(256, 3), n(15, 2), n(512, 8), n(32, 3)
    world = on_device(lambda: _World(width, kinds, n(18, 3))).eval()
    begun, met = noise(rows, width), torch.rand(rows, kinds * kinds, device=DEVICE)

    @torch.no_grad()
    def step():
        memory, state = begun, met
        rewards, values = [], []
        for _ in range(ahead):
            memory, state = world(memory, state)
            seen = torch.cat((memory, state), -1)
            rewards.append(world.reward(seen))
            values.append(world.value(seen))
        worth = values[-1]
        for reward, value in zip(reversed(rewards), reversed(values), strict=True):
            worth = reward + 0.997 * (0.05 * value + 0.95 * worth)
        return worth

    return graphed(step) if fixed else step


class _Player(Module):
    """A network that tells the worth of each move from four pictures."""

    def __init__(self, side, width, moves):
        self.eyes = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()
        )
        places = ((side - 8) // 4 + 1 - 4) // 2 + 1
        self.body = nn.Sequential(nn.Linear(64 * places**2, width), nn.ReLU())
        self.moves = nn.Linear(width, moves)

    def forward(self, x):
        return self.moves(self.body(self.eyes(x.float() / 255).flatten(1)))


@pair("remove_syncs", found=True)
def warehouses_surprises_read_one_by_one(fixed):
    """A robot learns by Q-learning to sort parcels, from 256 memories a step that are drawn by how surprising
    they were, TF32 allowed. After the step each memory is told its new surprise: a list of
    `float(error)` reads them from the GPU one by one. The remedy reads all of them at once."""
    torch.set_float32_matmul_precision("high")
    rows, kept, side, moves = n(256, 4), n(8192, 20), n(84, 24), n(18, 3)
    player, late = (on_device(lambda: _Player(side, n(512, 8), moves)) for _ in range(2))
    pictures = torch.randint(256, (kept, 4, side, side), dtype=torch.uint8, device=DEVICE)
    chosen, paid = whole(moves, kept, 1), noise(kept)
    surprises = np.ones(kept)
    drawn = np.random.default_rng(0)
    optimizer = torch.optim.Adam(player.parameters(), 1e-4, fused=True)

    def step():
        total = surprises.cumsum()
        numbers = np.searchsorted(total, drawn.random(rows) * total[-1]).clip(max=kept - 2)
        some = torch.from_numpy(numbers).to(DEVICE)
        told = player(pictures[some]).gather(1, chosen[some]).squeeze(-1)
        with torch.no_grad():
            wanted = paid[some] + 0.99 * late(pictures[some + 1]).amax(1)
        errors = (wanted - told).abs()
        F.smooth_l1_loss(told, wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        errors = errors.detach()
        new = errors.tolist() if fixed else [float(error) for error in errors]
        surprises[numbers] = (np.array(new) + 0.01) ** 0.6

    return step


class _Spread(torch.autograd.Function):
    """Vectors spread along the edges of a symmetric graph, which is its own way back."""

    @staticmethod
    def forward(ctx, graph, x):
        ctx.graph = graph
        return graph @ x

    @staticmethod
    def backward(ctx, grad):
        return None, ctx.graph @ grad


def _bought(people, goods, edges):
    """Who bought what: a symmetric graph of people and goods, each edge by how many they have."""
    who, what = whole(people, edges), people + whole(goods, edges)
    many = torch.bincount(torch.cat((who, what)), minlength=people + goods).clamp_min(1)
    ends = torch.stack((torch.cat((who, what)), torch.cat((what, who))))
    weights = (many[ends[0]] * many[ends[1]]).float().rsqrt()
    size = people + goods, people + goods
    return torch.sparse_coo_tensor(ends, weights, size).coalesce().to_sparse_csr()


@good("fused_optimizer", "remove_syncs", found=True)
def good_baskets(version):
    """LightGCN learns what 150 000 people buy of 50 000 goods: vectors of 64 numbers are spread three times
    along 3 000 000 purchases, there and back, by products with a sparse matrix, and 16 384 purchases
    are compared with goods that were not bought. Reading the loss at the end and the default Adam are
    little next to that."""
    people, goods, edges = n(150_000, 12), n(50_000, 7), n(3_000_000, 40)
    rows, width = n(16_384, 4), n(64, 4)
    graph = _bought(people, goods, edges)
    table = nn.Parameter(0.1 * noise(people + goods, width))
    fused = version == "fused_optimizer" or None
    optimizer = torch.optim.Adam([table], 1e-3, fused=fused)
    who = whole(people, rows)
    what, other = people + whole(goods, rows), people + whole(goods, rows)

    def step():
        told, x = table, table
        for _ in range(3):
            x = _Spread.apply(graph, x)
            told = told + x
        some = F.embedding(who, told)
        better = (some * (F.embedding(what, told) - F.embedding(other, told))).sum(-1)
        loss = -F.logsigmoid(better / 16).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach() if version == "remove_syncs" else loss.item()

    return step


@good("remove_syncs", found=True)
def good_meters(version):
    """A PatchTST (six layers, 256 wide) learns the load of 1536 meters from 64 patches of each, in fp16
    autocast with a `GradScaler`, which asks in each step whether gradients are finite. Kernels are
    large, so that asking costs nothing; bf16 without a scaler, which does not ask, brings nothing."""
    rows, patches, long, width = n(1536, 3), n(64, 4), n(16, 4), n(256, 16)
    first, body, last = mlp(long, width), layers(width, n(6, 1)), mlp(width, n(96, 5))
    model = nn.ModuleList((first, body, last))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    scaled = version != "remove_syncs"
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**10, enabled=scaled)
    seen, wanted = noise(rows, patches, long), noise(rows, n(96, 5))

    def step():
        with torch.autocast(DEVICE, torch.float16) if scaled else autocast():
            told = last(body(first(seen)).mean(1))
        scaler.scale(F.mse_loss(told.float(), wanted)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step
