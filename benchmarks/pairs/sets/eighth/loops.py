"""Training loops that prepare, judge or record something between the layers."""

import itertools
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair
from benchmarks.pairs.sets.eighth.training import fit


class Cracks(
    Module
):  # A network that goes down and up again: which pixels of a wall are cracked, stained or sound
    def __init__(self, width):
        sizes = [3, *(width << depth for depth in range(n(4, 2)))]
        self.down = nn.ModuleList((self._two(a, b) for a, b in itertools.pairwise(sizes)))
        self.up = nn.ModuleList((self._two(a + b, a) for a, b in itertools.pairwise(sizes[1:])))
        self.last = nn.Conv2d(width, 3, 1)

    @staticmethod
    def _two(before, after):

        def one(channels):
            return [
                nn.Conv2d(channels, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]

        return nn.Sequential(*one(before), *one(after))

    def forward(self, x):
        kept = []
        for part in self.down:
            x = part(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = kept.pop()
        for part in reversed(self.up):
            x = part(torch.cat((kept.pop(), F.interpolate(x, scale_factor=2.0)), 1))
        return self.last(x)


@pair("remove_syncs", found=True)
def cracks_hard_pixels(fixed):
    """A U-Net finds cracks; masks pick labelled and hard pixels of each of 16 pictures; the remedy
    weighs pixels."""
    batch = n(16, 2)
    side = n(256, 16)
    with torch.device(DEVICE):
        model = Cracks(n(32, 4)).to(memory_format=torch.channels_last)
        walls = torch.randn(batch, 3, side, side).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 3, (batch, side, side)).masked_fill_(
            torch.rand(batch, side, side) < 0.1, 255
        )

    def picked(losses):
        found = []
        for one, label in zip(losses, labels, strict=True):
            known = one[label != 255]
            found.append(known[known > known.mean()].mean())
        return torch.stack(found)

    def weighed(losses):
        known = labels != 255
        hard = known & (
            losses > (losses * known).sum((1, 2), keepdim=True) / known.sum((1, 2), keepdim=True)
        )
        return (losses * hard).sum((1, 2)) / hard.sum((1, 2))

    def loss():
        with autocast():
            told = model(walls)
        losses = F.cross_entropy(told.float(), labels, ignore_index=255, reduction="none")
        return (weighed(losses) if fixed else picked(losses)).mean()

    return fit(model, loss)


class Snake:  # The game: a snake that grows by what it eats, and dies at a wall or of itself
    SIDE = 12

    def __init__(self, seed):
        self.draw = random.Random(seed)  # noqa: S311
        self.begin()

    def begin(self):
        self.body = [(6, 6), (6, 5), (6, 4)]
        self.heading = 1
        self.hunger = 0
        self.place()

    def place(self):
        free = [
            (y, x) for y in range(self.SIDE) for x in range(self.SIDE) if (y, x) not in self.body
        ]
        self.food = self.draw.choice(free)

    def turn(self, action):  # Left, straight on or right: the reward, and whether that was the end
        self.heading = (self.heading + action - 1) % 4
        down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[self.heading]
        y = self.body[0][0] + down
        x = self.body[0][1] + right
        self.hunger += 1
        if (
            not (0 <= y < self.SIDE and 0 <= x < self.SIDE)
            or (y, x) in self.body
            or self.hunger > 100
        ):
            self.begin()
            return (-1.0, True)
        self.body.insert(0, (y, x))
        if (y, x) != self.food:
            self.body.pop()
            return (-0.01, False)
        self.hunger = 0
        self.place()
        return (1.0, False)

    def draw_on(self, board):
        board[:] = 0
        for y, x in self.body:
            board[0, y, x] = 1
        board[1][self.body[0]] = board[2][self.food] = 1
        board[3] = self.heading


@pair("remove_syncs", found=True)
def snakes_losses_read(fixed):
    """Q-learning of 768 games of snake in Python reads loss, value and norm each step; the remedy
    reads them later."""
    games = [Snake(seed) for seed in range(n(768, 4))]
    side = Snake.SIDE
    boards = np.zeros((len(games), 4, side, side), np.uint8)
    memory = n(20_000, 64)
    with torch.device(DEVICE):
        layers = (
            nn.Conv2d(4, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2),
            nn.ReLU(),
            nn.Flatten(),
        )
        model = nn.Sequential(*layers, nn.Linear(64 * 25, 256), nn.ReLU(), nn.Linear(256, 3))
        before, after = (torch.zeros(memory, 4, side, side, dtype=torch.uint8) for _ in range(2))
        done = torch.zeros(memory, 3)
    optimizer = torch.optim.Adam(model.parameters(), 0.0001, fused=True)
    draw = np.random.default_rng(0)
    at = 0
    log = []
    waiting = []

    def look():
        for game, board in zip(games, boards, strict=True):
            game.draw_on(board)
        return torch.from_numpy(boards).to(DEVICE)

    def play():
        nonlocal at
        now = look()
        with torch.no_grad():
            best = model(now.float()).argmax(1).tolist()
        chosen = [int(draw.integers(3)) if draw.random() < 0.1 else one for one in best]
        told = [(float(one), *game.turn(one)) for game, one in zip(games, chosen, strict=True)]
        rows = slice(at, at + len(games))
        before[rows], after[rows], done[rows] = now, look(), torch.tensor(told).to(DEVICE)
        at = (at + len(games)) % (memory - len(games) + 1)

    def step():
        play()
        rows = torch.randint(0, memory, (n(256, 8),), device=DEVICE)
        action, reward, over = done[rows].unbind(1)
        with torch.no_grad():
            wanted = reward + 0.97 * (1 - over) * model(after[rows].float()).amax(1)
        value = model(before[rows].float()).gather(1, action.long()[:, None])[:, 0]
        loss = F.smooth_l1_loss(value, wanted)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        if not fixed:
            log.append((loss.item(), value.mean().item(), norm.item()))
            return
        waiting.append(torch.stack((loss.detach(), value.detach().mean(), norm)))
        if len(waiting) == 100:
            log.extend(torch.stack(waiting).tolist())
            waiting.clear()

    return step


def _near(
    places, most, reach
):  # Pairs of atoms that are near one another, at most so many for each
    found = []
    for atom, place in enumerate(places):
        distances = np.sqrt(((places - place) ** 2).sum(1))
        order = np.argsort(distances)[1 : most + 1]
        order = order[distances[order] < reach]
        found.append(np.stack((np.full(len(order), atom), order)))
    return np.concatenate(found, 1)


class Molecules(
    Module
):  # The energy of molecules: atoms exchange messages that depend on how far apart they are
    def __init__(self, width, layers):
        self.atoms, self.last = (
            nn.Embedding(10, width),
            nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)),
        )
        self.filters = nn.ModuleList(
            nn.Sequential(nn.Linear(50, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(layers)
        )
        self.mixes = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(layers)
        )

    def forward(self, kinds, places, pairs):
        into, out = pairs
        apart = (places[into] - places[out]).square().sum(1, keepdim=True).add(1e-6).sqrt()
        waves = torch.exp(-10 * (apart - torch.linspace(0, 5, 50, device=apart.device)) ** 2)
        x = self.atoms(kinds)
        for weigh, mix in zip(self.filters, self.mixes, strict=True):
            x = x + mix(torch.zeros_like(x).index_add(0, into, x[out] * weigh(waves)))
        return self.last(F.softplus(x)).sum()


@pair("move_host_work", found=True)
def molecules_neighbours_found_each_step(fixed):
    """Energies and forces of 40 molecules, whose neighbours NumPy finds in every step; the remedy
    finds them ahead."""
    torch.set_float32_matmul_precision("high")
    draw = np.random.default_rng(0)
    many = n(400, 6)
    batch = n(40, 2)
    shapes = [
        draw.normal(size=(int(draw.integers(18, 32)), 3)).astype(np.float32) * 2
        for _ in range(many)
    ]
    kinds = [draw.integers(0, 10, len(one)) for one in shapes]
    pulls = [np.tanh(-one) for one in shapes]
    ahead = [_near(one, 12, 5.0) for one in shapes] if fixed else []
    model = Molecules(n(128, 8), n(4, 1)).to(DEVICE)

    def some():
        chosen = draw.choice(many, batch, replace=False)
        pairs = [ahead[one] if fixed else _near(shapes[one], 12, 5.0) for one in chosen]
        begins = np.cumsum([0, *(len(shapes[one]) for one in chosen[:-1])])
        joined = np.concatenate([one + begin for one, begin in zip(pairs, begins, strict=True)], 1)
        parts = (np.concatenate([of[one] for one in chosen]) for of in (kinds, shapes, pulls))
        return tuple(torch.from_numpy(one).to(DEVICE) for one in (*parts, joined))

    def loss():
        atoms, places, wanted, pairs = some()
        energy = model(atoms, places.requires_grad_(), pairs)
        (slope,) = torch.autograd.grad(energy, places, create_graph=True)
        return (slope + wanted).square().mean() + 0.0001 * energy.square() / batch

    return fit(model, loss)
