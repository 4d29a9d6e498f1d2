"""Science, tables and games: flows, molecules, shops, arms; good: wells."""

import itertools
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, mlp, noise, on_device, whole

PINNED = DEVICE == "cuda"


def _slope(of, by):
    """How much one thing changes with another."""
    return torch.autograd.grad(of.sum(), by, create_graph=True)[0]


def _slopes(of, by):
    """How much one thing changes with several others, by one backward pass."""
    return torch.autograd.grad(of.sum(), by, create_graph=True)


class _Flow(Module):
    """A network that tells speed and pressure of a flow, and how far it is from the Navier-Stokes equations."""

    def __init__(self, width, depth, *, together):
        self.net = mlp(3, *depth * (width,), 3, between=nn.Tanh)
        self.together = together

    def first(self, x, y, t):
        """What is told of places, and its first slopes."""
        u, v, p = self.net(torch.cat((x, y, t), 1)).split(1, 1)
        if self.together:
            of_u, of_v = _slopes(u, (x, y, t)), _slopes(v, (x, y, t))
            return u, v, (of_u, of_v, _slopes(p, (x, y)))
        of_u = _slope(u, x), _slope(u, y), _slope(u, t)
        of_v = _slope(v, x), _slope(v, y), _slope(v, t)
        return u, v, (of_u, of_v, (_slope(p, x), _slope(p, y)))

    def residual(self, x, y, t, thick):
        u, v, ((u_x, u_y, u_t), (v_x, v_y, v_t), (p_x, p_y)) = self.first(x, y, t)
        bent_u = _slope(u_x, x) + _slope(u_y, y)
        bent_v = _slope(v_x, x) + _slope(v_y, y)
        along = u_t + u * u_x + v * u_y + p_x - thick * bent_u
        across = v_t + u * v_x + v * v_y + p_y - thick * bent_v
        return along.square().mean() + across.square().mean() + (u_x + v_y).square().mean()


@pair("no_recompute", found=True)
def flows_differentiated_for_each_input(fixed):
    """A physics-informed network (six layers, 256 wide) learns a flow by the Navier-Stokes equations at 65 536
    points, TF32 allowed. Each first derivative is a call of `torch.autograd.grad` of its own, and each goes
    back through the whole network: three for u, three for v, two for p. The remedy is one call for each of
    u, v and p, with all inputs at once."""
    torch.set_float32_matmul_precision("high")
    rows = n(65_536, 6)
    flow = on_device(lambda: _Flow(n(256, 8), n(6, 2), together=fixed)).train()
    x, y, t = (torch.rand(rows, 1, device=DEVICE).requires_grad_() for _ in range(3))
    edges, known = torch.rand(n(2048, 3), 3, device=DEVICE), noise(n(2048, 3), 3)

    def loss():
        return flow.residual(x, y, t, 0.01) + F.mse_loss(flow.net(edges), known)

    return train(flow, loss)


def _seed_everything(seed, *, deterministic):
    """As many repositories begin."""
    random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = not deterministic


class _Messages(Module):
    """A layer of a graph network: edges tell atoms what those at their other end know."""

    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.of_edge = nn.Linear(16, width)
        self.after = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x, ends, edges):
        told = F.relu(self.norm(x).index_select(0, ends[0]) + self.of_edge(edges))
        return x + self.after(x + torch.zeros_like(x).index_add(0, ends[1], told))


class _Molecules(Module):
    """A graph network (GINE) that tells a number for each molecule."""

    def __init__(self, kinds, width, depth):
        self.atoms = nn.Embedding(kinds, width)
        self.body = nn.ModuleList(_Messages(width) for _ in range(depth))
        self.last = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, atoms, ends, edges, of, count):
        x = self.atoms(atoms)
        for layer in self.body:
            x = layer(x, ends, edges)
        return self.last(x.new_zeros(count, x.shape[1]).index_add(0, of, x)).squeeze(-1)


@pair("faster_kernels", found=True)
def molecules_seeded_deterministically(fixed):
    """A graph network (GINE, five layers, 64 wide) learns a number for each of 1024 molecules a step, of 48 atoms
    and 960 pairs of close atoms each, TF32 allowed. `seed_everything` calls
    `torch.use_deterministic_algorithms(True)`, by which what edges tell is sorted before it is added up, there
    and back. The remedy turns deterministic algorithms off."""
    torch.set_float32_matmul_precision("high")
    _seed_everything(0, deterministic=not fixed)
    count, each, bonds, kinds = n(1024, 3), n(48, 4), n(960, 6), n(40, 5)
    model = on_device(lambda: _Molecules(kinds, n(64, 8), n(5, 2))).train()
    atoms, of = (
        whole(kinds, count * each),
        torch.arange(count, device=DEVICE).repeat_interleave(each),
    )
    begins = torch.arange(count, device=DEVICE).repeat_interleave(bonds) * each
    ends = begins + whole(each, 2, count * bonds)
    edges, wanted = noise(count * bonds, 16), noise(count)
    return train(model, lambda: F.l1_loss(model(atoms, ends, edges, of, count), wanted))


class _Tables(Module):
    """What is known of the values of many columns: a table for each, or one for all."""

    def __init__(self, sizes, width, *, together):
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        if together:
            whole_table = torch.cat([table.weight.detach() for table in self.tables])
            self.tables = nn.ModuleList([nn.Embedding.from_pretrained(whole_table, freeze=False)])
        begins = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("begins", begins.to(DEVICE))
        self.together = together

    def forward(self, columns):
        if self.together:
            return self.tables[0](columns + self.begins)
        known = [table(columns[:, at]) for at, table in enumerate(self.tables)]
        return torch.stack(known, 1)


class _Crossed(Module):
    """DeepFM: a weight for each value, products of all pairs of values, and a deep network."""

    def __init__(self, sizes, numbers, width, deep, *, together):
        self.linear = _Tables(sizes, 1, together=together)
        self.known = _Tables(sizes, width, together=together)
        self.of_numbers = nn.Linear(numbers, width)
        self.deep = mlp((len(sizes) + 1) * width, *deep, 1, between=nn.ReLU)

    def forward(self, columns, numbers):
        known = torch.cat((self.known(columns), self.of_numbers(numbers)[:, None]), 1)
        pairs = known.sum(1).square() - known.square().sum(1)
        deep = self.deep(known.flatten(1)).squeeze(-1)
        return self.linear(columns).sum((1, 2)) + 0.5 * pairs.sum(1) + deep


@pair("batch_calls", found=True)
def shops_table_for_each_column(fixed):
    """A DeepFM learns what people buy in shops, from 8192 rows a step of 64 columns with 100 to 20 000 values, TF32
    allowed. Each column has a table of its own, twice, and a list of 64 `nn.Embedding` is called one by
    one. The remedy is one table for all columns: column numbers are offset, and a single lookup
    replaces 64."""
    torch.set_float32_matmul_precision("high")
    rows, columns, numbers = n(8192, 4), n(64, 3), n(13, 2)
    drawn = np.random.default_rng(9)
    sizes = [int(size) for size in drawn.integers(n(100, 3), n(20_000, 7), columns)]
    deep = n((400, 400, 400), (8,))
    model = on_device(lambda: _Crossed(sizes, numbers, n(16, 4), deep, together=fixed)).train()
    chosen = torch.stack([whole(size, rows) for size in sizes], 1)
    told, bought = noise(rows, numbers), (torch.rand(rows, device=DEVICE) < 0.1).float()
    return train(model, lambda: F.binary_cross_entropy_with_logits(model(chosen, told), bought))


class _Actor(Module):
    """Tells a move by a mean and a spread, and how likely it is."""

    def __init__(self, seen, width, moves):
        self.body = mlp(seen, width, width, 2 * moves, between=nn.ReLU)

    def forward(self, seen):
        mean, spread = self.body(seen).chunk(2, -1)
        spread = spread.clamp(-5, 2).exp()
        noisy = torch.randn_like(mean)
        move = (mean + spread * noisy).tanh()
        likely = -0.5 * noisy.square() - spread.log() - (1 - move.square() + 1e-6).log()
        return move, likely.sum(-1)


class _Agent:
    """Soft actor-critic: an actor, two critics, two that follow them, and how much chance is worth."""

    def __init__(self, seen, width, moves, *, capturable):
        def critic():
            return mlp(seen + moves, width, width, 1, between=nn.ReLU)

        self.actor = on_device(lambda: _Actor(seen, width, moves))
        self.critics, self.late = (nn.ModuleList((critic(), critic())) for _ in range(2))
        self.late.load_state_dict(self.critics.state_dict())
        self.chance = nn.Parameter(torch.zeros((), device=DEVICE))
        self.moves = moves
        how = {"lr": 3e-4, "capturable": capturable}
        self.of_critics = torch.optim.Adam(self.critics.parameters(), **how)
        self.of_actor = torch.optim.Adam(self.actor.parameters(), **how)
        self.of_chance = torch.optim.Adam([self.chance], **how)

    @staticmethod
    def worth(critics, seen, move):
        both = torch.cat((seen, move), -1)
        return torch.cat([critic(both) for critic in critics], -1)

    @staticmethod
    def learn(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def update(self, seen, move, paid, after):
        chance = self.chance.detach().exp()
        with torch.no_grad():
            then, likely = self.actor(after)
            least = self.worth(self.late, after, then).amin(-1)
            wanted = paid + 0.99 * (least - chance * likely)
        told = self.worth(self.critics, seen, move)
        self.learn(self.of_critics, F.mse_loss(told, wanted[:, None].expand_as(told)))
        now, likely = self.actor(seen)
        least = self.worth(self.critics, seen, now).amin(-1)
        self.learn(self.of_actor, (chance * likely - least).mean())
        self.learn(self.of_chance, -(self.chance.exp() * (likely.detach() - self.moves)).mean())
        pairs = zip(self.late.parameters(), self.critics.parameters(), strict=True)
        with torch.no_grad():
            for late, weight in pairs:
                late.lerp_(weight, 0.005)


@pair("cuda_graph")
def arms_taught_kernel_by_kernel(fixed):
    """Soft actor-critic teaches a robot's arm, by four updates a step from 256 memories each, which lie on the
    GPU, TF32 allowed. Networks are small (256 wide), and an update is some 400 kernels, launched one by one. The
    remedy captures the four updates in a CUDA graph (Adam with `capturable=True`)."""
    torch.set_float32_matmul_precision("high")
    rows, kept, sees, moves = n(256, 4), n(200_000, 30), n(39, 5), n(8, 2)
    agent = _Agent(sees, n(256, 8), moves, capturable=fixed and DEVICE == "cuda")
    seen, after = noise(kept, sees), noise(kept, sees)
    done, paid = noise(kept, moves).tanh(), noise(kept)

    def step():
        for _ in range(4):
            some = torch.randint(kept, (rows,), device=DEVICE)
            agent.update(seen[some], done[some], paid[some], after[some])

    return graphed(step) if fixed else step


class _Windows(Dataset):
    """Pieces of long series: what was, and what comes."""

    def __init__(self, count, long, before, after):
        self.series = np.random.default_rng(1).standard_normal((count, long), dtype=np.float32)
        self.before, self.after = before, after
        self.each = long - before - after

    def __len__(self):
        return len(self.series) * self.each

    def __getitem__(self, number):
        row, begin = divmod(number, self.each)
        middle = begin + self.before
        series = self.series[row]
        return series[begin:middle], series[middle : middle + self.after]


@good("data_loader_workers", "pinned_memory", found=True)
def good_wells(version):
    """A PatchTST (12 layers, 512 wide) learns in bf16 autocast how much water 256 wells give in 96 hours, from
    4096 hours in patches of 32. Windows are cut out of an array in the training loop, without workers. That
    is little work, and done while the GPU computes; four workers bring nothing, nor does pinned memory."""
    rows, patch, after, width = n(256, 3), n(32, 4), n(96, 5), n(512, 16)
    before = patch * n(128, 4)
    wells = _Windows(n(64, 3), n(20_000, 60), before, after)
    workers = 4 if version == "data_loader_workers" else 0
    loader = DataLoader(
        wells,
        rows,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=version == "pinned_memory" and PINNED,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    first, body, last = mlp(patch, width), layers(width, n(12, 1)), mlp(width, after)

    def loss():
        was, comes = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        level, spread = was.mean(1, keepdim=True), was.std(1, keepdim=True) + 1e-5
        told = last(body(first(((was - level) / spread).unflatten(1, (-1, patch)))).mean(1))
        return F.mse_loss(told.float() * spread + level, comes)

    return train(nn.ModuleList((first, body, last)), loss, cast=True)
