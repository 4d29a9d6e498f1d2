"""Training loops that do something between the layers which need not be done there."""

from __future__ import annotations

import itertools
import string
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, smooth_l1_loss
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.pairs.program import Step


def _convolutions(channels: tuple[int, ...]) -> nn.Sequential:
    """Layers that halve a picture each, channels last."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers).to(DEVICE, memory_format=torch.channels_last)


def classes_asked_for_members(fixed: bool) -> Step:
    """A network that learns from few examples asks each of 60 classes whether it has any; the remedy does not ask."""
    kinds, shots, side = n(60, 3), 5, n(84, 16)
    encoder = _convolutions((3, *[64] * n(4, 2)))
    pictures = torch.randn(2 * kinds * shots, 3, side, side, device=DEVICE).contiguous(
        memory_format=torch.channels_last
    )
    labels = torch.arange(kinds, device=DEVICE).repeat(shots)

    def prototypes(known: torch.Tensor) -> torch.Tensor:
        found = []
        for kind in range(kinds):
            members = labels == kind
            if not fixed and not members.any():
                continue
            found.append((known * members[:, None]).sum(0) / members.sum())
        return torch.stack(found)

    def loss() -> Any:
        with autocast():
            known, asked = encoder(pictures).flatten(1).float().chunk(2)
        return cross_entropy(-torch.cdist(asked, prototypes(known)), labels)

    return train(encoder, loss)


_DRAW = np.random.default_rng(0)


def _span(size: int, most: int, *, on_host: bool) -> slice:
    """A stretch of up to so many rows, somewhere."""
    if on_host:
        width = int(_DRAW.integers(1, most))
        begin = int(_DRAW.integers(0, size - width))
    else:
        width = int(torch.randint(1, most, (), device=DEVICE).item())
        begin = int(torch.randint(0, size - width, (), device=DEVICE).item())
    return slice(begin, begin + width)


def spectra_hidden_in_stretches(fixed: bool) -> Step:
    """Stretches of 48 spectra of speech are hidden, drawn on the GPU and read; the remedy draws them on the host."""
    batch, tones, times = n(48, 2), n(128, 32), n(768, 64)
    channels = (2, 64, 128, 256, 256)[: n(5, 3)]
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 35))
    model = nn.Sequential(_convolutions(channels), pooled).to(DEVICE)
    clean = torch.randn(batch, 2, tones, times, device=DEVICE).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 35, (batch,), device=DEVICE)

    def loss() -> Any:
        heard = clean.clone()
        for one in heard:
            for _ in range(2):
                one[:, _span(tones, tones // 5, on_host=fixed)] = 0.0
                one[:, :, _span(times, times // 8, on_host=fixed)] = 0.0
        with autocast():
            return cross_entropy(model(heard), labels)

    return train(model, loss)


def _all_anchors(side: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Corners of nine boxes around each place of two maps of a picture."""
    found = []
    for stride in (8, 16):
        places = (np.arange(side // stride) + 0.5) * stride
        y, x = (one.reshape(-1, 1) for one in np.meshgrid(places, places, indexing="ij"))
        halves = (size / 2 for size in stride * 2.0 ** (np.arange(9) / 3 + 1))
        found += [np.concatenate((x - half, y - half, x + half, y + half), 1) for half in halves]
    return np.concatenate(found).astype(np.float32)


def _matched(boxes: Any, anchors: Any, library: Any) -> tuple[Any, Any]:
    """How well each anchor fits its best box, and which that is: NumPy's or PyTorch's arrays."""
    a, b = anchors[:, None], boxes[..., None, :, :]
    width = (library.minimum(a[..., 2], b[..., 2]) - library.maximum(a[..., 0], b[..., 0])).clip(min=0)
    height = (library.minimum(a[..., 3], b[..., 3]) - library.maximum(a[..., 1], b[..., 1])).clip(min=0)
    size_a = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1])
    size_b = (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    shared = width * height
    overlap = shared / (size_a + size_b - shared)
    best = overlap.argmax(-1)
    return overlap.max(-1) if library is np else overlap.amax(-1), best


class Detector(nn.Module):
    """A ResNet-18 with a head for kinds and corners at two of its maps."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import resnet18

        body = resnet18(num_classes=1)
        parts = list(body.children())
        self.early, self.late = nn.Sequential(*parts[:6]), parts[6]
        self.heads = nn.ModuleList(nn.Conv2d(channels, 9 * 5, 3, padding=1) for channels in (128, 256))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        early = self.early(pictures)
        maps = early, self.late(early)
        told = [
            head(one).unflatten(1, (9, 5)).permute(0, 1, 3, 4, 2).flatten(1, 3)
            for head, one in zip(self.heads, maps, strict=True)
        ]
        return torch.cat(told, 1).float()


def anchors_matched_in_numpy(fixed: bool) -> Step:
    """A detector on a ResNet-18 whose anchors NumPy matches with the boxes of each picture; the remedy uses the GPU."""
    batch, side, objects = n(8, 2), n(256, 64), n(12, 3)
    with torch.device(DEVICE):
        model = Detector()
    model = model.to(memory_format=torch.channels_last)
    pictures = torch.randn(batch, 3, side, side, device=DEVICE).contiguous(memory_format=torch.channels_last)
    corners = np.random.default_rng(0).uniform(0, side * 0.7, (batch, objects, 2)).astype(np.float32)
    boxes, anchors = np.concatenate((corners, corners + side * 0.2), -1), _all_anchors(side)
    there, anchors_there = torch.from_numpy(boxes).to(DEVICE), torch.from_numpy(anchors).to(DEVICE)

    def targets() -> tuple[torch.Tensor, torch.Tensor]:
        if fixed:
            overlap, best = _matched(there, anchors_there, torch)
            return overlap, there.gather(1, best[..., None].expand(-1, -1, 4))
        pairs = [_matched(some, anchors, np) for some in boxes]
        chosen = np.stack([some[best] for some, (_, best) in zip(boxes, pairs, strict=True)])
        return torch.from_numpy(np.stack([one for one, _ in pairs])).to(DEVICE), torch.from_numpy(chosen).to(DEVICE)

    def loss() -> Any:
        with autocast():
            told = model(pictures)
        overlap, wanted = targets()
        hit = (overlap > 0.5).float()
        apart = smooth_l1_loss(told[..., 1:], (wanted - anchors_there) / 16, reduction="none").mean(-1)
        return binary_cross_entropy_with_logits(told[..., 0], hit) + (apart * hit).sum() / (hit.sum() + 1)

    return train(model, loss)


class Reviews(Dataset[tuple[torch.Tensor, int]]):
    """Reviews as text; an item's words are cut into the longest pieces that the vocabulary has."""

    def __init__(self, words: int, length: int) -> None:
        draw, letters = np.random.default_rng(0), string.ascii_lowercase[:12]

        def some(least: int, most: int) -> str:
            return "".join(draw.choice(list(letters), draw.integers(least, most)))

        pieces = {some(2, 6) for _ in range(n(6000, 100))} | set(letters)
        self.pieces, self.length = {piece: number for number, piece in enumerate(sorted(pieces))}, length
        self.texts = [" ".join(some(3, 13) for _ in range(words)) for _ in range(n(64, 4))]

    def __len__(self) -> int:
        return 1 << 20

    def _cut(self, word: str) -> Iterator[int]:
        begin = 0
        while begin < len(word):
            end = min(len(word), begin + 12)
            while word[begin:end] not in self.pieces:
                end -= 1
            yield self.pieces[word[begin:end]]
            begin = end

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        text = self.texts[number % len(self.texts)]
        ids = [one for word in text.split() for one in self._cut(word)][: self.length]
        return torch.tensor(ids + [0] * (self.length - len(ids))), number % 2


def reviews_cut_into_pieces(fixed: bool) -> Step:
    """A small BERT of transformers sorts reviews that the loop cuts into pieces; the remedy has eight workers."""
    from transformers import BertConfig, BertForSequenceClassification

    width = n(256, 32)
    config = BertConfig(
        vocab_size=9000, hidden_size=width, intermediate_size=4 * width, num_attention_heads=4,
        num_hidden_layers=n(4, 1), num_labels=2,
    )  # fmt: skip
    with torch.device(DEVICE):
        model = BertForSequenceClassification(config).train()
    reviews, workers = Reviews(n(130, 20), n(128, 16)), n(8, 1) if fixed else 0
    loader = DataLoader(reviews, n(64, 2), num_workers=workers, persistent_workers=fixed, pin_memory=DEVICE == "cuda")
    batches = iter(loader)

    def loss() -> Any:
        tokens, labels = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        with autocast():
            return model(input_ids=tokens, labels=labels).loss

    return train(model, loss)


PAIRS = (
    Pair("remove_syncs", classes_asked_for_members, found=True, libraries=()),
    Pair("remove_syncs", spectra_hidden_in_stretches, found=True, libraries=()),
    Pair("move_host_work", anchors_matched_in_numpy, found=True, libraries=("torchvision.models",)),
    Pair(
        "data_loader_workers", reviews_cut_into_pieces, found=True,
        libraries=("transformers.models.bert.modeling_bert",),
    ),
)  # fmt: skip
