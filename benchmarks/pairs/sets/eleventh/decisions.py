"""Tables, series, voices and games: what is decided from them."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.eleventh.parts import blocks, dense, ids_below, normal


@pair("larger_batch", found=True)
def dictation_two_voices_at_a_time(fixed):
    """A recogniser of speech learns with CTC, in bf16 autocast, from 16 utterances a step, two at a
    time as on a smaller GPU; the remedy takes all at once."""
    width, letters, frames = n(512, 16), n(128, 6), n(1200, 64)
    voices = n(16, 4)
    with torch.device(DEVICE):
        shorten = nn.Sequential(
            nn.Conv1d(80, width, 3, 2, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU()
        )
        head = nn.Linear(width, letters)
    body = blocks(width, n(6, 1))
    model = nn.ModuleList((shorten, body, head))
    sound = normal(voices, 80, frames)
    said = torch.randint(1, letters, (voices, n(120, 5)), device=DEVICE)
    lengths = np.random.default_rng(9).integers(n(60, 2), n(120, 5), voices).tolist()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    at_a_time = voices if fixed else 2

    def step():
        for first in range(0, voices, at_a_time):
            some = slice(first, first + at_a_time)
            with autocast():
                h = shorten(sound[some]).transpose(1, 2)
                told = head(body(h)).float().log_softmax(-1).transpose(0, 1)
            loss = F.ctc_loss(told, said[some], [len(told)] * at_a_time, lengths[some])
            (loss * at_a_time / voices).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Lion(torch.optim.Optimizer):
    """Lion, by its paper: from parameter to parameter, or for all of a group at once."""

    def __init__(self, params, lr, betas=(0.9, 0.99), decay=0.01, *, together=False):
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})
        self.together = together

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            means = [self.mean(p) for p in params]
            (self.all_at_once if self.together else self.in_turn)(group, params, grads, means)

    def mean(self, p):
        state = self.state[p]
        if not state:
            state["mean"] = torch.zeros_like(p)
        return state["mean"]

    def in_turn(self, group, params, grads, means):
        (fast, slow), lr = group["betas"], group["lr"]
        for p, grad, mean in zip(params, grads, means, strict=True):
            p.mul_(1 - lr * group["decay"])
            update = mean.clone().mul_(fast).add(grad, alpha=1 - fast).sign_()
            p.add_(update, alpha=-lr)
            mean.mul_(slow).add_(grad, alpha=1 - slow)

    def all_at_once(self, group, params, grads, means):
        (fast, slow), lr = group["betas"], group["lr"]
        torch._foreach_mul_(params, 1 - lr * group["decay"])
        update = torch._foreach_lerp(means, grads, 1 - fast)
        torch._foreach_sign_(update)
        torch._foreach_add_(params, update, alpha=-lr)
        torch._foreach_lerp_(means, grads, 1 - slow)


class Columns(Module):
    """A token for each column of a table, and one for the row."""

    def __init__(self, numbers, kinds, each, width):
        self.scale = nn.Parameter(torch.randn(numbers, width) * 0.02)
        self.shift = nn.Parameter(torch.zeros(numbers, width))
        self.kinds = nn.Embedding(kinds * each, width)
        self.row = nn.Parameter(torch.zeros(1, 1, width))
        self.register_buffer("first", torch.arange(kinds) * each)

    def forward(self, numbers, kinds):
        row = self.row.expand(len(numbers), -1, -1)
        told = numbers[..., None] * self.scale + self.shift
        return torch.cat((row, told, self.kinds(kinds + self.first)), 1)


@pair("fused_optimizer", found=True)
def loans_lion_in_turn(fixed):
    """A transformer for tables (a token a column) learns which of 512 loans fail; Lion, copied from
    its paper, goes from parameter to parameter. The remedy has `torch._foreach` functions."""
    width, numbers, kinds, each = n(192, 16), n(24, 3), n(8, 2), n(50, 4)
    rows = n(512, 4)
    with torch.device(DEVICE):
        columns = Columns(numbers, kinds, each, width)
        head = nn.Linear(width, 1)
    body = blocks(width, n(8, 1))
    model = nn.ModuleList((columns, body, head))
    told = normal(rows, numbers)
    of_kind = ids_below(each, rows, kinds)
    failed = (torch.rand(rows, device=DEVICE) < 0.1).float()

    def loss():
        with autocast():
            odds = head(body(columns(told, of_kind))[:, 0]).squeeze(-1)
        return F.binary_cross_entropy_with_logits(odds.float(), failed)

    return train(Lion(model.parameters(), 1e-5, together=fixed), loss)


class Mixing(Module):
    """A block that mixes times, then series."""

    def __init__(self, times, series):
        self.before = nn.LayerNorm(series)
        self.times = nn.Linear(times, times)
        self.between = nn.LayerNorm(series)
        self.series = nn.Sequential(
            nn.Linear(series, 4 * series), nn.GELU(), nn.Linear(4 * series, series)
        )

    def forward(self, x):
        x = x + F.gelu(self.times(self.before(x).transpose(1, 2))).transpose(1, 2)
        return x + self.series(self.between(x))


@pair("low_precision")
def feeders_forecast_in_doubles(fixed):
    """The loads of 128 feeders of a grid are forecast for backtests, from 512 windows a step; pandas
    gave doubles, and the model was made to fit. The remedy has the loads and the model in fp32,
    where TF32 is allowed."""
    torch.backends.cuda.matmul.allow_tf32 = True
    series, times, ahead = n(128, 4), n(512, 16), n(96, 4)
    kind = torch.float32 if fixed else torch.float64
    measured = np.random.default_rng(1).standard_normal((n(20_000, 200), series))
    loads = torch.from_numpy(measured).to(DEVICE, kind)
    with torch.device(DEVICE):
        body = nn.Sequential(*(Mixing(times, series) for _ in range(n(6, 1))))
        last = nn.Linear(times, ahead)
    nn.ModuleList((body, last)).to(kind).eval()
    windows = loads.unfold(0, times + ahead, 1)
    missed = torch.zeros((), device=DEVICE, dtype=kind)

    @torch.no_grad()
    def step():
        seen, wanted = windows[ids_below(len(windows), n(512, 4))].split((times, ahead), -1)
        told = last(body(seen.transpose(1, 2)).transpose(1, 2))
        missed.add_((told - wanted).abs().mean())

    return step


def _cart_poles(xp, state, push):
    """Carts with poles, a fiftieth of a second later; `xp` is numpy or torch."""
    x, speed, angle, turn = state
    sin, cos = xp.sin(angle), xp.cos(angle)
    force = (10.0 * push + 0.05 * turn * turn * sin) / 1.1
    turning = (9.8 * sin - cos * force) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
    rolling = force - 0.05 * turning * cos / 1.1
    return (
        x + 0.02 * speed,
        speed + 0.02 * rolling,
        angle + 0.02 * turn,
        turn + 0.02 * turning,
    )


class HostCarts:
    """Games of carts with poles, in numpy."""

    def __init__(self, games):
        self.rng = np.random.default_rng(0)
        self.state = tuple(self.start(games) for _ in range(4))

    def start(self, games):
        return self.rng.uniform(-0.05, 0.05, games).astype(np.float32)

    def seen(self):
        return torch.from_numpy(np.stack(self.state, 1)).to(DEVICE)

    def act(self, right):
        """What every game gave."""
        push = right.cpu().numpy().astype(np.float32) * 2 - 1
        state = _cart_poles(np, self.state, push)
        over = (np.abs(state[0]) > 2.4) | (np.abs(state[2]) > 0.2095)
        self.state = tuple(np.where(over, self.start(len(over)), one) for one in state)
        return torch.from_numpy(1 - over.astype(np.float32)).to(DEVICE)


class DeviceCarts:
    """Games of carts with poles, on the device."""

    def __init__(self, games):
        self.state = tuple(self.start(games) for _ in range(4))

    def start(self, games):
        return torch.rand(games, device=DEVICE) * 0.1 - 0.05

    def seen(self):
        return torch.stack(self.state, 1)

    def act(self, right):
        """What every game gave."""
        state = _cart_poles(torch, self.state, right.float() * 2 - 1)
        over = (state[0].abs() > 2.4) | (state[2].abs() > 0.2095)
        self.state = tuple(torch.where(over, self.start(len(over)), one) for one in state)
        return 1 - over.float()


@pair("move_host_work")
def carts_balanced_by_numpy(fixed):
    """A policy plays 32 768 games of carts with poles, eight moves a step, to see how well; numpy
    computes the carts on the host. The remedy has them on the device."""
    games = (DeviceCarts if fixed else HostCarts)(n(32_768, 8))
    policy = dense(4, n(256, 8), n(256, 8), 2, between=nn.Tanh).eval()
    given = torch.zeros((), device=DEVICE)

    @torch.no_grad()
    def step():
        for _ in range(n(8, 2)):
            odds = policy(games.seen()).softmax(-1)
            right = torch.rand(len(odds), device=DEVICE) < odds[:, 1]
            given.add_(games.act(right).mean())

    return step


@pair("keep_on_device")
def laws_looked_up_on_the_host(fixed):
    """64 questions are encoded in bf16, and 256 passages that an index proposed for each are scored
    by their vectors, from a table on the host; the remedy has the table on the device, where there
    is room for it."""
    width, passages = n(768, 16), n(300_000, 64)
    asked, proposed = n(64, 2), n(256, 8)
    encoder = blocks(width, n(6, 1)).bfloat16().eval()
    vectors = normal(passages, width)
    vectors = vectors if fixed else vectors.cpu()
    questions = normal(asked, n(32, 4), width, dtype=torch.bfloat16)
    from_index = [torch.randint(0, passages, (asked, proposed)) for _ in range(8)]
    proposals = itertools.cycle(from_index)

    @torch.no_grad()
    def step():
        told = encoder(questions).mean(1).float()
        ids = next(proposals)
        found = vectors[ids.to(vectors.device)].to(DEVICE)
        best = torch.bmm(found, told[:, :, None]).squeeze(-1).topk(n(10, 3), 1)
        return best.indices.tolist(), best.values.tolist()

    return step


class Windows(Dataset):
    """Windows of measured series, a batch at once."""

    def __init__(self, length):
        values = np.random.default_rng(2).standard_normal(n(200_000, 500), dtype=np.float32)
        self.windows = np.lib.stride_tricks.sliding_window_view(values, length)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, starts):
        return torch.from_numpy(self.windows[starts])


@good("data_loader_workers", "pinned_memory", found=True)
def good_turbines(version):
    """A transformer in bf16 autocast learns to foretell 512 windows of turbines' sensors by
    patches; a loader without processes cuts a batch with one indexing while the GPU is busy."""
    width, patch, patches = n(512, 16), n(16, 4), n(64, 4)
    windows = Windows((patches + 1) * patch)
    sampler = BatchSampler(RandomSampler(windows), n(512, 4), drop_last=True)
    workers = n(4, 1) if version == "data_loader_workers" else 0
    pinned = version == "pinned_memory" and DEVICE == "cuda"
    loader = DataLoader(
        windows,
        batch_size=None,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=pinned,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    first, last = dense(patch, width), dense(width, patch)
    body = blocks(width, n(6, 1))

    def loss():
        told = next(batches).to(DEVICE, non_blocking=pinned).unflatten(1, (-1, patch))
        return F.mse_loss(last(body(first(told[:, :-1]))[:, -1]).float(), told[:, -1])

    return train(nn.ModuleList((first, body, last)), loss, cast=True)
