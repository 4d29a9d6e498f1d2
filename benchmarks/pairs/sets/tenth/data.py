"""What the host prepares, copies, or works out beside the training."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.pairs.program import DEVICE, good, n, pair, train
from benchmarks.pairs.sets.tenth.blocks import draw, forever, layers, perceptron

ITEMS = n(5000, 50)
MOST = n(80, 8)


class Baskets(Dataset):
    """Baskets of shopping: lists of items, with prices."""

    def __init__(self):
        drawn = np.random.default_rng(0)
        self.rows = [
            {
                "items": drawn.integers(1, ITEMS, drawn.integers(4, MOST)).tolist(),
                "day": int(drawn.integers(7)),
                "next": int(drawn.integers(ITEMS)),
            }
            for _ in range(n(20_000, 64))
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def together(rows):
    """Baskets padded to the longest, with how often and how long ago each item was taken."""
    longest = max(len(row["items"]) for row in rows)
    items, counts, ages = [], [], []
    for row in rows:
        seen = {}
        for item in row["items"]:
            seen[item] = seen.get(item, 0) + 1
        last = {item: at for at, item in enumerate(row["items"])}
        fill = [0] * (longest - len(row["items"]))
        items.append(row["items"] + fill)
        counts.append([float(seen[item]) for item in row["items"]] + fill)
        length = len(row["items"])
        ages.append([(length - last[item]) / length for item in row["items"]] + fill)
    wanted = torch.tensor([row["next"] for row in rows])
    return torch.tensor(items), torch.tensor(counts), torch.tensor(ages), wanted


@pair("data_loader_workers", found=True)
def baskets_padded_in_collate(fixed):
    """512 baskets are padded and counted in Python as they are collated, in the loop; the remedy
    has eight workers."""
    workers = n(8, 1) if fixed else 0
    loader = DataLoader(
        Baskets(),
        n(512, 8),
        shuffle=True,
        drop_last=True,
        collate_fn=together,
        num_workers=workers,
        persistent_workers=fixed,
    )
    batches = forever(loader)
    width = n(256, 8)
    table = nn.Embedding(ITEMS, width, padding_idx=0).to(DEVICE)
    body = perceptron(width + 2, 4 * width, ITEMS)

    def loss():
        items, counts, ages, wanted = (part.to(DEVICE) for part in next(batches))
        x = torch.cat((table(items), counts[..., None], ages[..., None]), -1)
        return F.cross_entropy(body(x.mean(1)), wanted)

    return train(nn.ModuleList((table, body)), loss)


@pair("batch_calls", found=True)
def targets_sent_box_by_box(fixed):
    """The boxes, kinds, sizes and flags of 64 pictures are sent to the GPU one by one; the remedy
    joins them first."""
    pictures = n(64, 3)
    drawn = np.random.default_rng(0)
    targets = []
    for _ in range(pictures):
        count = int(drawn.integers(3, 20))
        boxes = torch.rand(count, 4)
        targets.append(
            {
                "boxes": boxes,
                "labels": torch.randint(0, 90, (count,)),
                "area": boxes[:, 2] * boxes[:, 3],
                "crowd": torch.zeros(count),
            }
        )
    pictures_of = torch.repeat_interleave(
        torch.arange(pictures), torch.tensor([len(one["labels"]) for one in targets])
    ).to(DEVICE)
    width = n(768, 16)
    model = perceptron(width, width, width, width, 4 + 90)
    x = draw(pictures, width)

    def sent(key):
        if fixed:
            return torch.cat([one[key] for one in targets]).to(DEVICE)
        return torch.cat([one[key].to(DEVICE) for one in targets])

    def loss():
        boxes, labels, area, crowd = (sent(key) for key in ("boxes", "labels", "area", "crowd"))
        told = model(x)[pictures_of]
        apart = (told[:, :4] - boxes).abs().mean(1) * (1 + area) * (1 - crowd)
        return apart.mean() + F.cross_entropy(told[:, 4:], labels)

    return train(model, loss)


@pair("move_host_work", found=True)
def weights_histogrammed_in_numpy(fixed):
    """After each step NumPy makes histograms of ten layers' weights for a log; the remedy counts on
    the GPU, and copies the counts."""
    width = n(256, 8)
    model = perceptron(*[width] * 11)
    x = draw(n(2048, 4), width)
    weights = [p for p in model.parameters() if p.ndim == 2]
    learn = train(model, lambda: model(x).square().mean())
    log = []

    @torch.no_grad()
    def count():
        if fixed:
            return torch.stack([torch.histc(p, 64, -0.1, 0.1) for p in weights]).cpu().numpy()
        return [np.histogram(p.cpu().numpy(), 64, (-0.1, 0.1))[0] for p in weights]

    def step():
        learn()
        log[:] = [count()]

    return step


@good("data_loader_workers", "pinned_memory", found=True)
def good_signals_from_memory(version):
    """Signals that lie in memory are collated in the loop, while the GPU has long work: the loader
    keeps up."""
    width = n(1024, 16)
    data = TensorDataset(torch.randn(n(2048, 16), n(256, 4)), torch.randn(n(2048, 16), 1))
    workers = n(4, 1) if version == "data_loader_workers" else 0
    pinned = version == "pinned_memory" and DEVICE == "cuda"
    loader = DataLoader(
        data,
        n(64, 4),
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=pinned,
    )
    batches = forever(loader)
    first = nn.Linear(1, width).to(DEVICE)
    stack = layers(width, n(8, 1))
    last = nn.Linear(width, 1).to(DEVICE)

    def loss():
        signals, wanted = (part.to(DEVICE, non_blocking=pinned) for part in next(batches))
        told = last(stack(first(signals[..., None])).mean(1))
        return F.mse_loss(told.float(), wanted)

    return train(nn.ModuleList((first, stack, last)), loss, cast=True)
