"""Programs whose data lies on the GPU or might, or is made while the GPU waits."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, dropout
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train
from benchmarks.pairs.sets.eighth.training import fit

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


class Loans(nn.Module):
    """Whether a loan is paid back, from columns of numbers and of kinds."""

    def __init__(self, kinds: int, columns: int, numbers: int, width: int) -> None:
        super().__init__()
        self.kinds = nn.ModuleList(nn.Embedding(kinds, 16) for _ in range(columns))
        self.first = nn.Linear(16 * columns + numbers, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.ReLU(),
                nn.Dropout(0.1),
                nn.Linear(2 * width, width),
            )
            for _ in range(n(5, 1))
        )
        self.last = nn.Linear(width, 1)

    def forward(self, kinds: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        x = torch.cat([table(one) for table, one in zip(self.kinds, kinds.unbind(1), strict=True)] + [numbers], 1)
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)[:, 0]


def loans_in_small_batches(fixed: bool) -> Step:
    """A residual network learns from a table on the GPU, 256 rows a step; the remedy takes 4096."""
    torch.set_float32_matmul_precision("high")
    rows, columns, batch = n(400_000, 512), 12, n(256, 4) * (16 if fixed else 1)
    with torch.device(DEVICE):
        model = Loans(200, columns, 40, n(256, 16))
        kinds, numbers = torch.randint(0, 200, (rows, columns)), torch.randn(rows, 40)
        paid, order = (torch.rand(rows) < 0.9).float(), torch.randperm(rows)
    at = 0

    def loss() -> Any:
        nonlocal at, order
        if at + batch > rows:
            at, order = 0, torch.randperm(rows, device=DEVICE)
        chosen, at = order[at : at + batch], at + batch
        return binary_cross_entropy_with_logits(model(kinds[chosen], numbers[chosen]), paid[chosen])

    return fit(model, loss)


class Machines(Dataset[tuple[torch.Tensor, int]]):
    """Two seconds of a machine's sound in another's noise and a room, as a spectrogram."""

    def __init__(self, length: int) -> None:
        draw = np.random.default_rng(0)
        self.sounds = draw.normal(size=(n(200, 4), length)).astype(np.float32)
        self.rooms = (draw.normal(size=(8, length // 4)) * np.exp(-np.arange(length // 4) / 800)).astype(np.float32)
        self.window, self.bands = np.hanning(512).astype(np.float32), draw.random((257, 64)).astype(np.float32)

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        draw = np.random.default_rng(number)
        sound = self.sounds[number % len(self.sounds)] + 0.1 * self.sounds[draw.integers(len(self.sounds))]
        length, room = len(sound), self.rooms[draw.integers(8)]
        whole = np.fft.rfft(sound, 2 * length) * np.fft.rfft(room, 2 * length)
        heard = np.fft.irfft(whole)[:length]
        at = np.linspace(0, length - 1, int(length * draw.uniform(0.9, 1.1)))
        heard = np.resize(np.interp(at, np.arange(length), heard), length)
        frames = np.lib.stride_tricks.sliding_window_view(heard, 512)[::160] * self.window
        power = np.abs(np.fft.rfft(frames)) ** 2
        return torch.from_numpy(np.log(power @ self.bands + 1e-6).astype(np.float32).T[None]), number % 6


def machines_heard_in_the_loop(fixed: bool) -> Step:
    """A network hears faults of machines in 32 sounds that NumPy renders in the loop; the remedy has ten workers."""
    layers, before = [], 1
    for width in (64, 128, 256, 512)[: n(4, 2)]:
        for stride in (2, 1, 1):
            layers += [nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 6))
    model = model.to(DEVICE, memory_format=torch.channels_last)
    workers = n(10, 1) if fixed else 0
    sounds = Machines(n(32_000, 2_000))
    loader = DataLoader(sounds, n(32, 2), num_workers=workers, persistent_workers=fixed, pin_memory=DEVICE == "cuda")
    batches = iter(loader)

    def loss() -> Any:
        heard, faults = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        with autocast():
            return cross_entropy(model(heard), faults)

    return train(model, loss)


class Papers(nn.Module):
    """What papers are about, from their words and from the papers that cite them."""

    def __init__(self, words: int, width: int, kinds: int) -> None:
        super().__init__()
        sizes = (words, width, width, kinds)
        pairs = list(itertools.pairwise(sizes))
        self.own = nn.ModuleList(nn.Linear(before, after) for before, after in pairs)
        self.others = nn.ModuleList(nn.Linear(before, after, bias=False) for before, after in pairs)

    def forward(self, x: torch.Tensor, cited: torch.Tensor) -> torch.Tensor:
        into, out = cited
        count = torch.zeros(len(x), device=x.device).index_add_(0, into, torch.ones(len(into), device=x.device))
        share = 1 / count.clamp(min=1)[:, None]
        for number, (own, others) in enumerate(zip(self.own, self.others, strict=True)):
            told = others(x)
            met = torch.zeros_like(told).index_add(0, into, told[out]) * share
            x = own(x) + met
            if number < len(self.own) - 1:
                x = dropout(x.relu(), 0.3, self.training)
        return x


def papers_sent_each_epoch(fixed: bool) -> Step:
    """A network on the graph of 60,000 papers, which is sent to the GPU for each epoch; the remedy sends it once."""
    torch.set_float32_matmul_precision("high")
    many, words, kinds, epoch = n(60_000, 60), n(384, 16), 40, 0
    model = Papers(words, n(128, 8), kinds).to(DEVICE)
    graph = (torch.randn(many, words), torch.randint(0, many, (2, n(600_000, 200))), torch.randint(0, kinds, (many,)))
    learnt = torch.arange(many * 2 // 3, device=DEVICE)
    kept = tuple(one.to(DEVICE) for one in graph) if fixed else graph
    judged: list[float] = []

    def loss() -> Any:
        nonlocal epoch
        x, cited, labels = (one.to(DEVICE) for one in kept)
        epoch += 1
        if epoch % 50 == 0:
            with torch.no_grad():
                right = model.eval()(x, cited).argmax(1) == labels
            judged.append(right[len(learnt) :].float().mean().item())
            model.train()
        return cross_entropy(model(x, cited)[learnt], labels[learnt])

    return train(model, loss)


class Drones:
    """Many drones that fly to a goal each, all on the GPU."""

    def __init__(self, many: int, sight: int) -> None:
        with torch.device(DEVICE):
            self.place, self.speed, self.goal = torch.randn(many, 3), torch.zeros(many, 3), torch.randn(many, 3)
            self.posts = torch.randn(sight, 3) * 3

    def seen(self) -> torch.Tensor:
        return torch.cat((self.goal - self.place, self.speed, torch.cdist(self.place, self.posts)), 1)

    def fly(self, thrust: torch.Tensor) -> torch.Tensor:
        self.speed = 0.95 * self.speed + 0.05 * thrust.clamp(-1, 1)
        self.place = self.place + 0.1 * self.speed
        away = (self.goal - self.place).norm(dim=1, keepdim=True)
        lost = (away > 6) | (torch.cdist(self.place, self.posts).amin(1, keepdim=True) < 0.05)
        self.place = torch.where(lost, self.goal + torch.randn_like(self.goal), self.place)
        self.speed = torch.where(lost, 0.0, self.speed)
        return (-0.1 * away - 5.0 * lost)[:, 0]


def drones_remembered_on_the_host(fixed: bool) -> Step:
    """PPO of 4096 drones on the GPU: what they met is stored on the host and sent back; the remedy leaves it there."""
    many, sight, turns, width = n(4096, 8), n(58, 4), n(12, 3), n(256, 16)
    where = torch.device(DEVICE if fixed else "cpu")
    drones = Drones(many, sight)
    with torch.device(DEVICE):
        body = nn.Sequential(nn.Linear(sight + 6, width), nn.ELU(), nn.Linear(width, width), nn.ELU())
        model, spread = nn.Sequential(body, nn.Linear(width, 4)), nn.Parameter(torch.full((3,), -1.2))
    parameters = [*model.parameters(), spread]
    optimizer = torch.optim.Adam(parameters, 3e-4, fused=True)
    log: list[float] = []

    def told(seen: torch.Tensor) -> tuple[torch.distributions.Normal, torch.Tensor]:
        out = model(seen)
        return torch.distributions.Normal(out[..., :3], spread.exp(), validate_args=False), out[..., 3]

    def fly() -> list[torch.Tensor]:
        met = []
        for _ in range(turns):
            seen = drones.seen()
            wish, value = told(seen)
            thrust = wish.sample()
            reward = drones.fly(thrust)
            met.append([one.to(where) for one in (seen, thrust, wish.log_prob(thrust).sum(1), value, reward)])
        seen, thrust, chance, value, reward = (torch.stack(one) for one in zip(*met, strict=True))
        better, gains = torch.zeros(many, device=where), []
        for turn in reversed(range(turns - 1)):
            better = reward[turn] + 0.98 * value[turn + 1] - value[turn] + 0.93 * better
            gains.append(better)
        gain = torch.stack(gains[::-1])
        rows = (seen[:-1], thrust[:-1], chance[:-1], gain + value[:-1], (gain - gain.mean()) / gain.std())
        return [one.flatten(0, 1).to(DEVICE) for one in rows]

    def step() -> None:
        with torch.no_grad():
            rows = fly()
        for part in torch.randperm(len(rows[0]), device=DEVICE).chunk(4):
            seen, thrust, chance, wanted, gain = (one[part] for one in rows)
            wish, value = told(seen)
            ratio = (wish.log_prob(thrust).sum(1) - chance).exp()
            kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = (value - wanted).square().mean() - kept
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
        log.append(loss.item())

    return step


PAIRS = (
    Pair("larger_batch", loans_in_small_batches, found=True, as_much=16.0, libraries=()),
    Pair("data_loader_workers", machines_heard_in_the_loop, found=True, libraries=()),
    Pair("keep_on_device", papers_sent_each_epoch, found=True, libraries=()),
    Pair("keep_on_device", drones_remembered_on_the_host, libraries=()),
)
