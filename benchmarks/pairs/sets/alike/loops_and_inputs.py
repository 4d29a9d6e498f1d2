"""Loops that call, wait and note more than they need to, and models that wait for what they learn
from."""

import copy
import itertools
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, graphed, n, pair, train
from benchmarks.pairs.sets.alike.training import encoder


@pair("cuda_graph")
def echoes_removed_block_by_block(fixed):
    """A call's echo removed in eight blocks of sound by 24 small convolutions for each; the remedy
    is a CUDA graph."""
    channels = n(32, 4)
    layers = n(24, 3)
    long = n(160, 16)
    with torch.device(DEVICE):
        weights = [torch.randn(channels, channels, 3) / (3 * channels) for _ in range(layers)]
        biases = [torch.randn(channels) for _ in range(layers)]
        slope = torch.full((channels,), 0.2)
        blocks = torch.randn(n(8, 2), 2, channels, long)
        clean = torch.empty_like(blocks)

    @torch.no_grad()
    def step():
        for number, block in enumerate(blocks):
            x = block
            for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                holes = 2 ** (depth % 6)
                x = x + F.prelu(
                    F.conv1d(F.pad(x, (2 * holes, 0)), weight, bias, dilation=holes), slope
                )
            clean[number] = x

    return graphed(step) if fixed else step


class Retention(
    Module
):  # A layer that remembers in a matrix for each head, which fades with every word (RetNet)
    def __init__(self, width, heads, texts):
        self.heads = heads
        inner = width // heads
        self.qkvg, self.out = (
            nn.Linear(width, 4 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )
        self.up, self.down = (
            nn.Linear(width, 4 * width, bias=False),
            nn.Linear(4 * width, width, bias=False),
        )
        self.register_buffer(
            "fades", 1 - 2 ** (-5 - torch.arange(heads, dtype=torch.float32))[:, None, None]
        )
        self.register_buffer("memory", torch.zeros(texts, heads, inner, inner))

    def forward(self, x):
        q, k, v, gate = self.qkvg(F.rms_norm(x, x.shape[-1:])).chunk(4, -1)
        q, k, v = (one.unflatten(-1, (self.heads, -1)) for one in (q, k, v))
        self.memory.mul_(self.fades).add_(k[..., :, None] * v[..., None, :])
        read = F.rms_norm((q[..., None, :] @ self.memory)[..., 0, :], q.shape[-1:])
        x = x + self.out(read.flatten(1) * F.silu(gate))
        return x + self.down(F.silu(self.up(F.rms_norm(x, x.shape[-1:]))))


@pair("cuda_graph")
def retention_writes(fixed):
    """A retentive network of 12 layers in half precision writes eight words of 16 texts; the remedy
    is a CUDA graph."""
    width = n(1024, 32)
    words = n(32_000, 64)
    texts = n(16, 2)
    with torch.device(DEVICE):
        embedding = nn.Embedding(words, width)
        head = nn.Linear(width, words, bias=False)
        layers = nn.Sequential(*(Retention(width, n(8, 2), texts) for _ in range(n(12, 2))))
        last = torch.randint(0, words, (texts,))
    model = nn.Sequential(embedding, layers, head).to(
        torch.float16 if DEVICE == "cuda" else torch.bfloat16
    )

    @torch.no_grad()
    def step():
        for _ in range(n(8, 2)):
            last.copy_(model(last).argmax(-1))

    return graphed(step) if fixed else step


def _convolutions(width, blocks, out):
    with torch.device(DEVICE):
        layers = [nn.Conv2d(3, width, 4, 4)]
        for _ in range(blocks):
            layers += [
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
        return nn.Sequential(*layers, nn.Conv2d(width, out, 1)).to(
            memory_format=torch.channels_last
        )


def _cropped(picture, side, where):
    room = picture.shape[-1] - side + 1
    top, left = (int(torch.randint(room, (), device=where).item()) for _ in range(2))
    light, contrast = (0.8 + 0.4 * torch.rand((), device=where).item() for _ in range(2))
    return (picture[:, top : top + side, left : left + side] * light - 0.5) * contrast


@pair("remove_syncs", found=True)
def crops_drawn_on_device(fixed):
    """Pictures cropped and lit at random; each draw is made on the GPU and read; with the remedy
    the CPU draws."""
    side = n(160, 16)
    many = n(64, 2)
    model = _convolutions(n(128, 8), n(16, 2), 100)
    with torch.device(DEVICE):
        pictures = torch.rand(many, 3, n(224, 24), n(224, 24))
        kinds = torch.randint(0, 100, (many,))
    where = "cpu" if fixed else DEVICE

    def loss():
        batch = torch.stack([_cropped(picture, side, where) for picture in pictures])
        with autocast():
            return F.cross_entropy(
                model(batch.to(memory_format=torch.channels_last)).mean((2, 3)), kinds
            )

    return train(model, loss)


@pair("remove_syncs", found=True)
def overlaps_read_class_by_class(fixed):
    """Scenes segmented in 60 classes, the overlap of each read in every step; the remedy adds them
    up on the GPU."""
    classes = n(60, 4)
    side = n(256, 16)
    model = _convolutions(n(128, 8), n(16, 2), classes)
    with torch.device(DEVICE):
        pictures = torch.randn(n(24, 2), 3, side, side).to(memory_format=torch.channels_last)
        wanted = torch.randint(0, classes, (n(24, 2), side // 4, side // 4))
        sums = torch.zeros(classes, 2)
    told = [[0.0, 0.0] for _ in range(classes)]

    def note(found):
        counted = []
        for one in range(classes):
            here = found == one
            there = wanted == one
            shared = (here & there).sum()
            either = (here | there).sum()
            if fixed:
                counted.append(torch.stack((shared, either)))
            else:
                told[one][0] += shared.item()
                told[one][1] += either.item()
        if fixed:
            sums.add_(torch.stack(counted))

    def loss():
        with autocast():
            scores = model(pictures)
        note(scores.detach().argmax(1))
        return F.cross_entropy(scores.float(), wanted)

    return train(model, loss)


class Settings:  # An experiment's settings, a tree, and what a run of it changes
    def __init__(self):
        names = "data", "model", "layer", "optimizer", "schedule", "log", "export", "search"
        self.tree = {name: {f"{name}_{k}": [k, str(k), k / 7] for k in range(40)} for name in names}
        self.changes = {"layer": {"slope": [1.0], "share": [0.5]}}

    def merged(self):  # A copy of the tree with the changes
        tree = copy.deepcopy(self.tree)
        for name, changed in self.changes.items():
            tree[name] |= copy.deepcopy(changed)
        return tree


# A residual layer that asks the settings for its slope and share: once, or whenever it is called
class Configured(Module):
    def __init__(self, width, settings, *, once):
        self.inner = nn.Linear(width, width)
        self.settings = settings
        self.known = settings.merged()["layer"] if once else None

    def forward(self, x):
        known = self.known or self.settings.merged()["layer"]
        return x + known["share"][0] * F.elu(self.inner(x), known["slope"][0])


@pair("move_host_work", found=True)
def settings_merged_in_each_layer(fixed):
    """A network of tables whose 32 layers merge the experiment's settings when called; the remedy
    merges them once."""
    width = n(512, 16)
    settings = Settings()
    with torch.device(DEVICE):
        model = nn.Sequential(*(Configured(width, settings, once=fixed) for _ in range(n(32, 2))))
        rows = torch.randn(n(4096, 8), width)
    return train(model, lambda: model(rows).square().mean(), cast=True)


class Speaker(Module):  # Who speaks: convolutions over frames, their mean and spread, a vector
    def __init__(self, features, width, layers):
        self.first = nn.Conv1d(features, width, 5, padding=2)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.out = nn.Linear(2 * width, 192)

    def forward(self, x, real):
        x = self.first(x) * real
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = (x + norm(layer(x).relu())) * real
        frames = real.sum(-1)
        mean = x.sum(-1) / frames
        spread = (((x - mean[..., None]) * real).square().sum(-1) / frames).clamp_min(0.0001).sqrt()
        return F.normalize(self.out(torch.cat((mean, spread), -1)), dim=-1)


@pair("batch_calls")
def speakers_recognised_in_turn(fixed):
    """A network names the speakers of 32 pieces of a meeting, one by one, each read; the remedy
    pads and takes all."""
    generator = torch.Generator().manual_seed(0)
    features = n(80, 8)
    half = torch.float16 if DEVICE == "cuda" else torch.float32
    lengths = torch.randint(n(200, 5), n(500, 12), (n(32, 3),), generator=generator).tolist()
    with torch.device(DEVICE):
        model = Speaker(features, n(512, 16), n(12, 2)).to(half).eval()
        pieces = [torch.randn(length, features, dtype=half) for length in lengths]
        ends = torch.tensor(lengths)[:, None, None]
    who = []

    @torch.no_grad()
    def step():
        who.clear()
        if fixed:
            batch = pad_sequence(pieces, batch_first=True).transpose(1, 2)
            real = torch.arange(batch.shape[-1], device=DEVICE) < ends
            who.extend(model(batch, real.to(half)).cpu())
            return
        for piece in pieces:
            real = torch.ones(1, 1, len(piece), device=DEVICE, dtype=half)
            who.append(model(piece.T[None], real).cpu())

    return step


ENDLESS = 1 << 20
"""Samples that no run comes to the end of."""


def _loader(data, *, fixed, batch):
    more = (
        {"num_workers": n(8, 1), "pin_memory": DEVICE == "cuda", "persistent_workers": True}
        if fixed
        else {}
    )
    return iter(DataLoader(data, batch, **more))


# Texts that are cut into pieces of words when they are asked for, as a tokenizer in Python does
class Reviews(Dataset):
    def __init__(self, letters, long):
        rng = np.random.default_rng(0)
        self.texts = rng.integers(0, 26, (256, letters)).tolist()
        self.long = long
        pairs = rng.permutation(26 * 26)[:200].tolist()
        self.ranks = {divmod(pair, 26): 26 + rank for rank, pair in enumerate(pairs)}

    def __len__(self):
        return ENDLESS

    def __getitem__(self, index):
        pieces = list(self.texts[index % len(self.texts)])
        while found := [
            self.ranks[pair] for pair in itertools.pairwise(pieces) if pair in self.ranks
        ]:
            best = min(found)
            joined = []
            at = 0
            while at < len(pieces):
                both = self.ranks.get(tuple(pieces[at : at + 2])) == best
                joined.append(best if both else pieces[at])
                at += 2 if both else 1
            pieces = joined
        pieces = (pieces + [0] * self.long)[: self.long]
        return (torch.tensor(pieces), index % 2)


@pair("data_loader_workers", found=True)
def reviews_cut_in_python(fixed):
    """Reviews judged by a small encoder, cut into pieces by a loader without workers; the remedy is
    eight workers."""
    width = n(384, 32)
    with torch.device(DEVICE):
        model = nn.Sequential(
            nn.Embedding(256, width), encoder(n(4, 1), width), nn.Linear(width, 2)
        )
    batches = _loader(Reviews(n(130, 20), n(96, 16)), fixed=fixed, batch=n(48, 2))

    def loss():
        pieces, kinds = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        with autocast():
            return F.cross_entropy(model(pieces).mean(1), kinds)

    return train(model, loss)


# Nodes, and some of their neighbours drawn by weight, without an edge twice; a sample is a batch
class Neighbours(Dataset):
    def __init__(self, nodes, known, seeds):
        rng = np.random.default_rng(0)
        self.nodes = nodes
        self.seeds = seeds
        self.edges = rng.integers(0, nodes, (nodes, known), np.int32)
        self.weights = rng.random((nodes, known), np.float32) + 0.1

    def __len__(self):
        return ENDLESS

    def _drawn(self, of, many, rng):
        times = -np.log(rng.random((len(of), self.edges.shape[1]), np.float32)) / self.weights[of]
        first = np.argpartition(times, many, axis=1)[:, :many]
        return np.take_along_axis(self.edges[of], first, 1)

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        seeds = rng.integers(0, self.nodes, self.seeds, np.int32)
        near = self._drawn(seeds, n(12, 2), rng)
        far = self._drawn(near.reshape(-1), n(8, 2), rng).reshape(*near.shape, -1)
        return (torch.from_numpy(seeds), torch.from_numpy(near), torch.from_numpy(far))


@pair("data_loader_workers", found=True)
def neighbours_drawn_by_loader(fixed):
    """A network of purchases learns from 3072 nodes, whose neighbours its loader draws; the remedy
    is eight workers."""
    nodes = n(100_000, 64)
    width = n(256, 8)
    with torch.device(DEVICE):
        features = torch.randn(nodes, width)
        kinds = torch.randint(0, 40, (nodes,))
        inner = nn.Linear(2 * width, width)
        outer = nn.Linear(2 * width, 40)
    batches = _loader(Neighbours(nodes, n(48, 6), n(3072, 4)), fixed=fixed, batch=None)

    def loss():
        seeds, near, far = (one.to(DEVICE, non_blocking=True).long() for one in next(batches))
        with autocast():
            close = inner(torch.cat((features[near], features[far].mean(2)), -1)).relu()
            own = inner(torch.cat((features[seeds], features[near].mean(1)), -1)).relu()
            return F.cross_entropy(outer(torch.cat((own, close.mean(1)), -1)), kinds[seeds])

    return train(nn.ModuleList((inner, outer)), loss)


# Positions of games on a board of 19 lines, in 18 planes of bits, each kept as what changed, and
# packed
class Games:
    def __init__(self, positions, files):
        rng = np.random.default_rng(0)
        self.shape = positions, 18, 19, 19
        changes = (np.packbits(rng.random(self.shape) < 0.03) for _ in range(files))
        self.files = [zlib.compress(change.tobytes(), 6) for change in changes]

    def unpacked(self, number):  # A file's positions, turned by a quarter or more
        packed = np.frombuffer(zlib.decompress(self.files[number % len(self.files)]), np.uint8)
        bits = np.unpackbits(packed, count=int(np.prod(self.shape))).reshape(self.shape)
        boards = np.bitwise_xor.accumulate(bits, axis=0)
        return torch.from_numpy(
            np.ascontiguousarray(np.rot90(boards, 1 + number % 3, (2, 3)), np.float32)
        )

    def in_line(self):  # Files when they are asked for
        number = 0
        while True:
            yield self.unpacked(number)
            number += 1

    def ahead(self, threads):  # Files unpacked by threads, some ahead of time
        pool = ThreadPoolExecutor(threads)
        coming = deque(pool.submit(self.unpacked, number) for number in range(2 * threads))
        number = len(coming)
        while True:
            yield coming.popleft().result()
            coming.append(pool.submit(self.unpacked, number))
            number += 1


@pair("data_loader_workers", found=True)
def boards_unpacked_before_each_step(fixed):
    """A network learns who wins at Go from 1024 positions a step, unpacked by the loop; with the
    remedy by threads."""
    width = n(96, 8)
    many = n(1024, 4)
    with torch.device(DEVICE):
        layers = [nn.Conv2d(18, width, 3, padding=1)]
        for _ in range(n(6, 1)):
            layers += [
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
            ]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1))
        won = torch.randint(0, 2, (many, 1)).float()
    model.to(memory_format=torch.channels_last)
    games = Games(many, n(4, 2))
    boards = games.ahead(n(8, 2)) if fixed else games.in_line()

    def loss():
        seen = next(boards).to(DEVICE).contiguous(memory_format=torch.channels_last)
        with autocast():
            return F.binary_cross_entropy_with_logits(model(seen), won)

    return train(model, loss)


class Ahead:  # A teacher's answers in pinned memory; the next ones are copied while others are used
    def __init__(self, answers):
        self.answers = answers
        self.number = 0
        self.stream = torch.cuda.Stream()
        self._copy()

    def _copy(self):
        with torch.cuda.stream(self.stream):
            self.coming = self.answers[self.number % len(self.answers)].to(
                DEVICE, non_blocking=True
            )
        self.number += 1

    def __call__(self):  # Those of this step
        here = torch.cuda.current_stream()
        here.wait_stream(self.stream)
        answers = self.coming
        answers.record_stream(here)
        self._copy()
        return answers


@pair("copy_ahead", found=True)
def teachers_answers_copied_for_the_loss(fixed):
    """A student's loss copies its teacher's stored scores from pinned memory; the remedy copies
    them a step ahead."""
    width = n(1024, 32)
    words = n(32_768, 64)
    shape = (n(4, 1), n(1024, 8))
    with torch.device(DEVICE):
        model = nn.Sequential(
            nn.Embedding(words, width), encoder(n(8, 1), width), nn.Linear(width, words)
        )
        tokens = torch.randint(0, words, shape)
    answers = [
        torch.empty(*shape, words, dtype=torch.bfloat16, pin_memory=DEVICE == "cuda")
        for _ in range(2)
    ]
    for one in answers:
        one.copy_(F.log_softmax(torch.randn(one.shape, device=DEVICE), -1))
    numbers = iter(range(ENDLESS))
    ahead = Ahead(answers) if fixed and DEVICE == "cuda" else None

    def loss():
        with autocast():
            scores = model(tokens)
        taught = ahead() if ahead else answers[next(numbers) % 2].to(DEVICE, non_blocking=True)
        return (
            F.kl_div(F.log_softmax(scores, -1), taught, reduction="sum", log_target=True)
            / tokens.numel()
        )

    return train(model, loss)
