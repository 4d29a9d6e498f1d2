"""Decisions and nature: games, landers, grips, shops, meters, molecules, flames, orbitals."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, mlp, noise, on_device, whole


class Tower(Module):
    """A network for Go: residual convolutions, odds of each move and who wins."""

    def __init__(self, planes, width, depth, side):
        self.first = self.block(planes, width)
        self.body = nn.ModuleList(
            nn.Sequential(self.block(width, width), nn.ReLU(), self.block(width, width))
            for _ in range(depth)
        )
        self.moves = nn.Sequential(nn.Conv2d(width, 2, 1), nn.Flatten())
        self.odds = nn.Linear(2 * side * side, side * side + 1)
        self.wins = nn.Linear(width, 1)

    @staticmethod
    def block(before, after):
        """A convolution and its norm."""
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after))

    def forward(self, x):
        x = F.relu(self.first(x))
        for block in self.body:
            x = F.relu(x + block(x))
        return self.odds(self.moves(x)).float().softmax(-1), self.wins(x.mean((2, 3))).tanh()


@pair("low_precision")
def positions_judged_in_fp32(fixed):
    """A network for Go judges 1024 positions a step for the search of self-play, in `channels_last` and
    in fp32, the type it was trained in; TF32 is allowed. The remedy judges in bf16."""
    torch.set_float32_matmul_precision("high")
    kind = torch.bfloat16 if fixed else torch.float32
    rows, planes, side = n(1024, 2), 17, n(19, 5)
    tower = on_device(lambda: Tower(planes, n(192, 8), n(10, 1), side)).eval()
    tower = tower.to(kind, memory_format=torch.channels_last)
    boards = (torch.rand(4 * rows, planes, side, side, device=DEVICE) < 0.3).to(kind)
    boards = boards.contiguous(memory_format=torch.channels_last)
    positions = itertools.cycle(boards.split(rows))

    @torch.no_grad()
    def step():
        return tower(next(positions))

    return step


class Moon:
    """Landers above the moon, all on the GPU: place and speed in two directions, angle and spin."""

    def __init__(self, landers, *, on_device):
        self.on_device = on_device
        self.state = self.begin(landers)

    @staticmethod
    def begin(landers):
        """High up, and moving a little."""
        start = torch.randn(landers, 6, device=DEVICE) * 0.1
        start[:, 1] += 1
        return start

    def tick(self, thrust):
        """A moment later: what it is worth, and which landers are down."""
        x, y, right, up, angle, spin = self.state.unbind(1)
        main, side = thrust[:, 0].clamp(0, 1), thrust[:, 1].clamp(-1, 1)
        spin = spin + 0.05 * side
        angle = angle + 0.05 * spin
        right = right - 0.05 * main * angle.sin()
        up = up + 0.05 * (main * angle.cos() - 0.6)
        self.state = torch.stack((x + 0.05 * right, y + 0.05 * up, right, up, angle, spin), 1)
        down = (self.state[:, 1] < 0) | (self.state[:, 0].abs() > 2)
        worth = -(self.state[:, 0].abs() + 0.1 * up.abs() + 0.1 * main)
        self.reset(down)
        return worth

    def reset(self, down):
        """Let those that are down begin again."""
        if self.on_device:
            self.state = torch.where(down[:, None], self.begin(len(down)), self.state)
        elif down.any():
            self.state[down] = self.begin(int(down.sum()))


@pair("remove_syncs", found=True)
def landers_reset_when_any_is_down(fixed):
    """A policy learns to land from 4096 landers that are simulated on the GPU, 32 moments a step. After
    each moment the loop asks whether any lander is down, counts them, and resets those. The remedy
    chooses between the old and a new state with `torch.where`."""
    torch.set_float32_matmul_precision("high")
    landers, moments, width = n(4096, 8), n(32, 3), n(256, 8)
    moon = Moon(landers, on_device=fixed)
    policy = mlp(6, width, width, 2, between=nn.Tanh)
    spread = 0.3

    def loss():
        states, thrusts, worths = [], [], []
        with torch.no_grad():
            for _ in range(moments):
                states.append(moon.state.clone())
                thrust = policy(moon.state)
                thrust = thrust + spread * torch.randn_like(thrust)
                worths.append(moon.tick(thrust))
                thrusts.append(thrust)
        worth = torch.stack(worths).flip(0).cumsum(0).flip(0)
        worth = (worth - worth.mean()) / worth.std()
        missed = (policy(torch.stack(states)) - torch.stack(thrusts)).square().sum(-1)
        return (worth * missed).mean() / (2 * spread**2)

    return train(policy, loss)


class Cross(Module):
    """A layer that reads what is done next, and looks at what the cameras saw."""

    def __init__(self, width):
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.asks = nn.LayerNorm(width)
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, seen):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        q = heads(self.q(self.asks(x)))
        k, v = map(heads, self.kv(seen).chunk(2, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


@pair("cuda_graph")
def grips_denoised_kernel_by_kernel(fixed):
    """A robot's arm is moved by a policy in bf16: a vision transformer looks through two cameras, and
    the next 16 moves are drawn in ten steps of flow matching by six small layers, for one arm. The
    remedy captures all of it in a CUDA graph."""
    width, moves, joints = n(512, 16), n(16, 3), 7
    eye = layers(width, n(4, 1))
    cut, of_moves, last = mlp(768, width), mlp(joints, width), mlp(width, joints)
    of_time = mlp(1, width, width)
    body = on_device(lambda: nn.ModuleList(Cross(width) for _ in range(n(6, 1))))
    nn.ModuleList((eye, cut, of_moves, last, of_time, body)).bfloat16().eval()
    film = noise(n(16, 3), 2, n(64, 4), 768, dtype=torch.bfloat16)
    frames = torch.zeros_like(film[0])
    planned = noise(1, moves, joints, dtype=torch.bfloat16)
    times = torch.linspace(0, 1, n(10, 2), device=DEVICE, dtype=torch.bfloat16)[:, None]
    number = 0

    @torch.no_grad()
    def plan():
        seen = eye(cut(frames)).flatten(0, 1)[None]
        x = torch.randn_like(planned)
        for time in times:
            h = of_moves(x) + of_time(time)
            for layer in body:
                h = layer(h, seen)
            x = x + last(h) / len(times)
        planned.copy_(x)

    plan = graphed(plan) if fixed else plan

    def step():
        nonlocal number
        frames.copy_(film[number % len(film)])
        number += 1
        plan()

    return step


BEST = 20
"""So many articles a shopper is shown."""
WORTH = 1 / np.log2(np.arange(2, BEST + 2))
"""What a bought article is worth at each place."""


def _ranked_on_host(scores, bought):
    """NDCG of each shopper in turn, by numpy."""
    gains = []
    for told, articles in zip(scores.cpu().numpy(), bought.cpu().numpy(), strict=True):
        best = np.argpartition(-told, BEST)[:BEST]
        best = best[np.argsort(-told[best])]
        ideal = WORTH[: min(len(articles), BEST)].sum()
        gains.append((np.isin(best, articles) * WORTH).sum() / ideal)
    return torch.tensor(np.mean(gains))


def _ranked_on_device(scores, bought, worth):
    """The same for all shoppers at once, on the GPU."""
    best = scores.topk(BEST, 1).indices
    hit = (best[:, :, None] == bought[:, None]).any(2)
    return ((hit * worth).sum(1) / worth[: bought.shape[1]].sum()).mean()


@pair("move_host_work")
def shops_ranked_shopper_by_shopper(fixed):
    """A recommender is evaluated on 96 shoppers a step: a transformer in bf16 reads what they bought
    and scores 24,000 articles; the scores go to the host, where numpy sorts them for NDCG in a loop
    over the shoppers. The remedy ranks on the GPU."""
    rows, length, width, articles = n(96, 3), n(100, 5), n(256, 16), n(24_000, 60)
    table = on_device(lambda: nn.Embedding(articles, width)).bfloat16()
    body = layers(width, n(4, 1), causal=True).bfloat16().eval()
    seen, bought = whole(articles, n(16, 2), rows, length), whole(articles, rows, n(10, 2))
    shoppers = itertools.cycle(seen)
    worth = torch.tensor(WORTH, device=DEVICE, dtype=torch.float32)
    total = torch.zeros((), device=DEVICE if fixed else "cpu")

    @torch.no_grad()
    def step():
        told = body(table(next(shoppers)))[:, -1]
        scores = (told @ table.weight.t()).float()
        if fixed:
            total.add_(_ranked_on_device(scores, bought, worth))
        else:
            total.add_(_ranked_on_host(scores, bought))

    return step


class Meters(Dataset):
    """Windows of what houses used, hour by hour, with what each hour is called."""

    def __init__(self, houses, hours, past, ahead):
        drawn = np.random.default_rng(13)
        self.used = drawn.gamma(2.0, 0.4, (houses, hours)).astype(np.float32)
        self.past = past
        self.ahead = ahead

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        drawn = np.random.default_rng(number)
        house = drawn.integers(len(self.used))
        begin = drawn.integers(self.used.shape[1] - self.past - self.ahead)
        window = self.used[house, begin : begin + self.past + self.ahead]
        known = window[: self.past]
        day = np.convolve(known, np.ones(24) / 24)[: self.past]
        hour = begin + np.arange(self.past)
        waves = [f(2 * np.pi * hour / each) for each in (24, 168, 8766) for f in (np.sin, np.cos)]
        scaled = (window - known.mean()) / (known.std() + 1e-6)
        told = np.stack((scaled[: self.past], day, *waves), 1)
        return torch.from_numpy(told.astype(np.float32)), torch.from_numpy(scaled[self.past :])


@pair("data_loader_workers", found=True)
def meters_windows_cut_in_line(fixed):
    """A transformer learns in bf16 autocast what houses use in the next day, from 256 windows of two
    weeks a step. The data set cuts, scales and smooths each window with numpy, in the process that
    trains. The remedy has eight workers do it."""
    past, ahead, rows, width = n(336, 8), n(24, 2), n(256, 4), n(256, 16)
    loader = DataLoader(
        Meters(n(500, 4), n(8766, 100), past, ahead),
        batch_size=rows,
        shuffle=True,
        num_workers=n(8, 1) if fixed else 0,
        persistent_workers=fixed,
        pin_memory=DEVICE == "cuda",
        drop_last=True,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    first, body, last = mlp(8, width), layers(width, n(3, 1)), mlp(width, ahead)

    def loss():
        known, later = (part.to(DEVICE, non_blocking=True) for part in next(batches))
        return F.mse_loss(last(body(first(known)).mean(1)).float(), later)

    return train(nn.ModuleList((first, body, last)), loss, cast=True)


class Atoms(Module):
    """A layer for molecules: atoms hear of their neighbours, and attend to their whole molecule."""

    def __init__(self, width):
        self.near = mlp(width, 2 * width, width)
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.after = mlp(width, 2 * width, width)

    def forward(self, x, ends, filled_up, taken_out):
        heard = torch.zeros_like(x).index_add(0, ends[1], x[ends[0]])
        h, there = filled_up(self.before(x))
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        told = F.scaled_dot_product_attention(q, k, v, attn_mask=there[:, None, None])
        told = taken_out(told.transpose(1, 2).flatten(2), there)
        x = x + self.near(x + heard) + self.out(told)
        return x + self.after(x)


@pair("remove_syncs", found=True, libraries=("torch_geometric",))
def molecules_filled_up_in_each_layer(fixed):
    """A graph transformer learns energies of 128 molecules a step. In each of ten layers
    `to_dense_batch` of torch_geometric asks the GPU how many molecules there are and how large the
    largest is, and a mask takes the atoms out again. The remedy keeps where each atom goes, which
    is known when the batch is made."""
    from torch_geometric.utils import to_dense_batch

    torch.set_float32_matmul_precision("high")
    drawn = np.random.default_rng(5)
    width, rows, kinds = n(256, 16), n(128, 3), n(20, 4)
    sizes = drawn.integers(n(9, 3), n(40, 6), rows)
    begins = np.cumsum(sizes) - sizes
    atoms, most = int(sizes.sum()), int(sizes.max())
    of = np.repeat(np.arange(rows), sizes)
    bonds = drawn.integers(0, 1 << 30, (2, 4 * atoms)) % np.tile(sizes[of], 4)
    ends = torch.from_numpy(bonds + np.tile(begins[of], 4)).to(DEVICE)
    goes = torch.from_numpy(of * most + np.arange(atoms) - begins[of]).to(DEVICE)
    molecule = torch.from_numpy(of).to(DEVICE)
    there = torch.arange(most, device=DEVICE) < torch.from_numpy(sizes).to(DEVICE)[:, None]

    def filled_up(x):
        if not fixed:
            return to_dense_batch(x, molecule)
        empty = x.new_zeros(rows * most, x.shape[1])
        return empty.index_copy(0, goes, x).unflatten(0, (rows, most)), there

    def taken_out(x, known):
        return x.flatten(0, 1)[goes] if fixed else x[known]

    table = on_device(lambda: nn.Embedding(kinds, width))
    body = on_device(lambda: nn.ModuleList(Atoms(width) for _ in range(n(10, 2))))
    last = mlp(width, width, 1)
    elements, energies = whole(kinds, atoms), noise(rows)

    def loss():
        x = table(elements)
        for layer in body:
            x = layer(x, ends, filled_up, taken_out)
        told = x.new_zeros(rows, width).index_add(0, molecule, x)
        return F.mse_loss(last(told).squeeze(-1), energies)

    return train(nn.ModuleList((table, body, last)), loss)


@pair("cuda_graph")
def flames_integrated_kernel_by_kernel(fixed):
    """A learnt model of how a flame reacts is integrated for 2048 cells of gas: 40 steps of Runge and
    Kutta a step, four calls of a small network each, kernel by kernel. The remedy captures the 40
    steps in a CUDA graph."""
    cells, gases, width, moment = n(2048, 4), n(32, 4), n(128, 8), 0.01
    rates = mlp(gases, width, width, gases)
    gas = torch.rand(cells, gases, device=DEVICE)

    @torch.no_grad()
    def react():
        y = gas
        for _ in range(n(40, 2)):
            first = rates(y)
            second = rates(y + moment / 2 * first)
            third = rates(y + moment / 2 * second)
            fourth = rates(y + moment * third)
            y = y + moment / 6 * (first + 2 * second + 2 * third + fourth)
            y = y.clamp_min(0)
        gas.copy_(y / y.sum(1, keepdim=True).clamp_min(1e-6))

    return graphed(react) if fixed else react


@good("tf32", "cuda_graph")
def good_orbitals(version):
    """The orbitals of a large molecule that are filled are found by purification: two products of
    matrices of 4096 in doubles for each of three rounds a step, which the sums need; nothing is
    read."""
    torch.set_float32_matmul_precision("high" if version == "tf32" else "highest")
    size = n(4096, 16)
    levels = torch.linspace(0.05, 0.95, size, dtype=torch.float64, device=DEVICE)
    start = torch.diag(levels) + 1e-4 * noise(size, size, dtype=torch.float64)
    start = (start + start.t()) / 2
    filled = start.clone()

    @torch.no_grad()
    def purify():
        known = start
        for _ in range(n(3, 1)):
            squared = known @ known
            known = torch.addmm(squared, squared, known, beta=3.0, alpha=-2.0)
        filled.copy_(known)

    return graphed(purify) if version == "cuda_graph" else purify
