"""Models that wait for what they learn from: texts, graphs, boards and a teacher's answers."""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, kl_div, log_softmax
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train
from benchmarks.pairs.sets.alike.training import encoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.pairs.program import Step

ENDLESS = 1 << 20
"""Samples that no run comes to the end of."""


def _loader(data: Dataset[Any], *, fixed: bool, batch: int | None) -> Iterator[Any]:
    more = {"num_workers": n(8, 1), "pin_memory": DEVICE == "cuda", "persistent_workers": True} if fixed else {}
    return iter(DataLoader(data, batch, **more))


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Texts that are cut into pieces of words when they are asked for, as a tokenizer in Python does."""

    def __init__(self, letters: int, long: int) -> None:
        rng = np.random.default_rng(0)
        self.texts, self.long = rng.integers(0, 26, (256, letters)).tolist(), long
        pairs = rng.permutation(26 * 26)[:200].tolist()
        self.ranks = {divmod(pair, 26): 26 + rank for rank, pair in enumerate(pairs)}

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pieces = list(self.texts[index % len(self.texts)])
        while found := [self.ranks[pair] for pair in itertools.pairwise(pieces) if pair in self.ranks]:
            best, joined, at = min(found), [], 0
            while at < len(pieces):
                both = self.ranks.get(tuple(pieces[at : at + 2])) == best
                joined.append(best if both else pieces[at])
                at += 2 if both else 1
            pieces = joined
        pieces = (pieces + [0] * self.long)[: self.long]
        return torch.tensor(pieces), index % 2


def reviews_cut_in_python(fixed: bool) -> Step:
    """Reviews judged by a small encoder, cut into pieces by a loader without workers; the remedy is eight workers."""
    width = n(384, 32)
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Embedding(256, width), encoder(n(4, 1), width), nn.Linear(width, 2))
    batches = _loader(Reviews(n(130, 20), n(96, 16)), fixed=fixed, batch=n(48, 2))

    def loss() -> Any:
        pieces, kinds = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        with autocast():
            return cross_entropy(model(pieces).mean(1), kinds)

    return train(model, loss)


class Neighbours(Dataset[tuple[torch.Tensor, ...]]):
    """Nodes, and some of their neighbours drawn by weight, without an edge twice; a sample is a batch."""

    def __init__(self, nodes: int, known: int, seeds: int) -> None:
        rng = np.random.default_rng(0)
        self.nodes, self.seeds = nodes, seeds
        self.edges = rng.integers(0, nodes, (nodes, known), np.int32)
        self.weights = rng.random((nodes, known), np.float32) + 0.1

    def __len__(self) -> int:
        return ENDLESS

    def _drawn(self, of: np.ndarray[Any, Any], many: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        times = -np.log(rng.random((len(of), self.edges.shape[1]), np.float32)) / self.weights[of]
        first = np.argpartition(times, many, axis=1)[:, :many]
        return np.take_along_axis(self.edges[of], first, 1)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        rng = np.random.default_rng(index)
        seeds = rng.integers(0, self.nodes, self.seeds, np.int32)
        near = self._drawn(seeds, n(12, 2), rng)
        far = self._drawn(near.reshape(-1), n(8, 2), rng).reshape(*near.shape, -1)
        return torch.from_numpy(seeds), torch.from_numpy(near), torch.from_numpy(far)


def neighbours_drawn_by_loader(fixed: bool) -> Step:
    """A network of purchases learns from 3072 nodes, whose neighbours its loader draws; the remedy is eight workers."""
    nodes, width = n(100_000, 64), n(256, 8)
    with torch.device(DEVICE):
        features, kinds = torch.randn(nodes, width), torch.randint(0, 40, (nodes,))
        inner, outer = nn.Linear(2 * width, width), nn.Linear(2 * width, 40)
    batches = _loader(Neighbours(nodes, n(48, 6), n(3072, 4)), fixed=fixed, batch=None)

    def loss() -> Any:
        seeds, near, far = (one.to(DEVICE, non_blocking=True).long() for one in next(batches))
        with autocast():
            close = inner(torch.cat((features[near], features[far].mean(2)), -1)).relu()
            own = inner(torch.cat((features[seeds], features[near].mean(1)), -1)).relu()
            return cross_entropy(outer(torch.cat((own, close.mean(1)), -1)), kinds[seeds])

    return train(nn.ModuleList((inner, outer)), loss)


class Games:
    """Positions of games on a board of 19 lines, in 18 planes of bits, each kept as what changed, and packed."""

    def __init__(self, positions: int, files: int) -> None:
        rng = np.random.default_rng(0)
        self.shape = (positions, 18, 19, 19)
        changes = (np.packbits(rng.random(self.shape) < 0.03) for _ in range(files))
        self.files = [zlib.compress(change.tobytes(), 6) for change in changes]

    def unpacked(self, number: int) -> torch.Tensor:
        """A file's positions, turned by a quarter or more."""
        packed = np.frombuffer(zlib.decompress(self.files[number % len(self.files)]), np.uint8)
        bits = np.unpackbits(packed, count=int(np.prod(self.shape))).reshape(self.shape)
        boards = np.bitwise_xor.accumulate(bits, axis=0)
        return torch.from_numpy(np.ascontiguousarray(np.rot90(boards, 1 + number % 3, (2, 3)), np.float32))

    def in_line(self) -> Iterator[torch.Tensor]:
        """Files when they are asked for."""
        number = 0
        while True:
            yield self.unpacked(number)
            number += 1

    def ahead(self, threads: int) -> Iterator[torch.Tensor]:
        """Files unpacked by threads, some ahead of time."""
        pool = ThreadPoolExecutor(threads)
        coming = deque(pool.submit(self.unpacked, number) for number in range(2 * threads))
        number = len(coming)
        while True:
            yield coming.popleft().result()
            coming.append(pool.submit(self.unpacked, number))
            number += 1


def boards_unpacked_before_each_step(fixed: bool) -> Step:
    """A network learns who wins at Go from 1024 positions a step, unpacked by the loop; with the remedy by threads."""
    width, many = n(96, 8), n(1024, 4)
    with torch.device(DEVICE):
        layers: list[nn.Module] = [nn.Conv2d(18, width, 3, padding=1)]
        for _ in range(n(6, 1)):
            layers += [nn.ReLU(), nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1))
        won = torch.randint(0, 2, (many, 1)).float()
    model.to(memory_format=torch.channels_last)
    games = Games(many, n(4, 2))
    boards = games.ahead(n(8, 2)) if fixed else games.in_line()

    def loss() -> Any:
        seen = next(boards).to(DEVICE).contiguous(memory_format=torch.channels_last)
        with autocast():
            return binary_cross_entropy_with_logits(model(seen), won)

    return train(model, loss)


class Ahead:
    """A teacher's answers in pinned memory; the next ones are copied while others are used."""

    def __init__(self, answers: list[torch.Tensor]) -> None:
        self.answers, self.number = answers, 0
        self.stream = torch.cuda.Stream()
        self._copy()

    def _copy(self) -> None:
        with torch.cuda.stream(self.stream):
            self.coming = self.answers[self.number % len(self.answers)].to(DEVICE, non_blocking=True)
        self.number += 1

    def __call__(self) -> torch.Tensor:
        """Those of this step."""
        here = torch.cuda.current_stream()
        here.wait_stream(self.stream)
        answers = self.coming
        answers.record_stream(here)
        self._copy()
        return answers


def teachers_answers_copied_for_the_loss(fixed: bool) -> Step:
    """A student's loss copies its teacher's stored scores from pinned memory; the remedy copies them a step ahead."""
    width, words, shape = n(1024, 32), n(32768, 64), (n(4, 1), n(1024, 8))
    with torch.device(DEVICE):
        model = nn.Sequential(nn.Embedding(words, width), encoder(n(8, 1), width), nn.Linear(width, words))
        tokens = torch.randint(0, words, shape)
    answers = [torch.empty(*shape, words, dtype=torch.bfloat16, pin_memory=DEVICE == "cuda") for _ in range(2)]
    for one in answers:
        one.copy_(log_softmax(torch.randn(one.shape, device=DEVICE), -1))
    numbers = iter(range(ENDLESS))
    ahead = Ahead(answers) if fixed and DEVICE == "cuda" else None

    def loss() -> Any:
        with autocast():
            scores = model(tokens)
        taught = ahead() if ahead else answers[next(numbers) % 2].to(DEVICE, non_blocking=True)
        return kl_div(log_softmax(scores, -1), taught, reduction="sum", log_target=True) / tokens.numel()

    return train(model, loss)


PAIRS = (
    Pair("data_loader_workers", reviews_cut_in_python, found=True, libraries=()),
    Pair("data_loader_workers", neighbours_drawn_by_loader, found=True, libraries=()),
    Pair("data_loader_workers", boards_unpacked_before_each_step, found=True, libraries=()),
    Pair("copy_ahead", teachers_answers_copied_for_the_loss, found=True, libraries=()),
)
