"""Programs of two ranks from daily work, of PyTorch alone: each with one mistake, and without
it."""

import contextlib
import html
import re

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair, train
from benchmarks.pairs.sets.ranks import RANK, parallel, random_tokens

WORLD = 2


def heads_of(x, number):  # Batch, heads, places, width of a head; what comes in is joined by width
    return x.unflatten(-1, (number, -1)).transpose(1, 2)


class Causal(
    Module
):  # Attention to the places before, and a feed-forward network, each on top of what comes in
    def __init__(self, width):
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.number = width // n(64, 8)
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = (
            heads_of(part, self.number) for part in self.joined(self.norms[0](x)).chunk(3, -1)
        )
        x = x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )
        return x + self.feed(self.norms[1](x))


class Gated(Module):  # A gated feed-forward network on top of what comes in
    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.gate, self.up = (nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _made(*layers):
    with torch.device(DEVICE):
        return nn.Sequential(*(make() for make in layers))


@pair("no_sync_accumulation", found=True)
def genomes_reduced_eight_times(fixed):
    """Wide gated layers on genes under DDP, a batch in eight parts; gradients are reduced with each
    of them."""
    width = n(2048, 16)
    model = parallel(_made(*[lambda: Gated(width)] * n(6, 1)))
    parts = torch.randn(n(8, 2), n(512, 4), width, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        for number, part in enumerate(parts, 1):
            with model.no_sync() if fixed and number < len(parts) else contextlib.nullcontext():
                with autocast():
                    loss = model(part).float().square().mean() / len(parts)
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _narrow(channels, layers):

    def layer(before):
        return nn.Sequential(
            nn.Conv1d(before, channels, 5, padding=2), nn.BatchNorm1d(channels), nn.SiLU()
        )

    return _made(
        lambda: layer(12),
        *[lambda: layer(channels)] * layers,
        lambda: nn.AdaptiveAvgPool1d(1),
        nn.Flatten,
        lambda: nn.Linear(channels, 1),
    )


@pair("larger_buckets", found=True)
def heartbeats_reduced_weight_by_weight(fixed):
    """Heartbeats sorted by 72 narrow convolutions; a hook reduces each weight's gradient; the
    remedy is DDP."""
    inner = _narrow(n(96, 4), n(71, 2))
    model = parallel(inner, broadcast_buffers=False) if fixed else inner
    under_way = []

    def reduce(weight):
        assert weight.grad is not None
        weight.grad /= WORLD
        under_way.append(dist.all_reduce(weight.grad, async_op=True))

    for weight in () if fixed else inner.parameters():
        weight.register_post_accumulate_grad_hook(reduce)
    beats = torch.randn(n(32, 2), 12, n(1000, 16), device=DEVICE)
    ill = torch.ones(n(32, 2), 1, device=DEVICE)
    optimizer = torch.optim.AdamW(inner.parameters(), 1e-5, fused=True)

    def step():
        F.binary_cross_entropy_with_logits(model(beats), ill).backward()
        for work in under_way:
            work.wait()
        under_way.clear()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _language(layers, width, words):
    return _made(
        lambda: nn.Embedding(words, width),
        *[lambda: Causal(width)] * layers,
        lambda: nn.Linear(width, words),
    )


def _next_word(model, tokens):
    with autocast():
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


@pair("overlap_communication", found=True)
def bucket_hook_waits(fixed):
    """A wide decoder under DDP with a hook of its own that waits for each bucket; the remedy leaves
    it to DDP."""
    ddp = parallel(_language(n(10, 1), n(2048, 16), n(8192, 128)))

    def reduced(bucket):
        gradients = bucket.buffer().div_(WORLD)
        dist.all_reduce(gradients)
        done = torch.futures.Future()
        done.set_result(gradients)
        return done

    if not fixed:
        ddp.register_comm_hook(None, lambda _, bucket: reduced(bucket))
    tokens = random_tokens(n(3, 1), n(512, 16) + 1)
    return train(
        torch.optim.SGD(ddp.parameters(), 0.0001, fused=True), lambda: _next_word(ddp, tokens)
    )


@pair("prefetch_parameters", found=True, libraries=("torch.distributed.fsdp",))
def wide_layers_without_prefetch(fixed):
    """Wide gated layers under FSDP1, gathered when they are needed; the remedy gathers the next one
    beforehand."""
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    width = n(4096, 16)
    model = FullyShardedDataParallel(
        _made(*[lambda: Gated(width)] * n(6, 2)),
        device_id=RANK if DEVICE == "cuda" else torch.device("cpu"),
        auto_wrap_policy=ModuleWrapPolicy({Gated}),
        use_orig_params=True,
        forward_prefetch=fixed,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE if fixed else None,
    )
    x = torch.randn(n(2048, 8), width, device=DEVICE)
    return train(
        torch.optim.SGD(model.parameters(), 0.0001), lambda: model(x).float().square().mean()
    )


@pair("fix_straggler")
def archive_split_by_year(fixed):
    """Search in an archive split by year: rank 1 has three quarters of it; the remedy deals it out
    evenly."""
    width = n(256, 16)
    whole = n(2**21, 64)
    best = n(100, 4)
    mine = whole // 2 if fixed else whole * (1 + 2 * RANK) // 4
    half = torch.bfloat16
    texts = torch.randn(mine, width, device=DEVICE, dtype=half)
    questions = torch.randn(n(384, 4), width, device=DEVICE, dtype=half)

    def step():
        found = torch.stack(
            [(part @ texts.T).float().topk(best).values for part in questions.split(n(64, 2))]
        )
        everyones = [torch.empty_like(found) for _ in range(WORLD)]
        dist.all_gather(everyones, found)
        return torch.cat(everyones, -1).topk(best).values.cpu()

    return step


@pair("fix_straggler", found=True)
def pages_stripped_on_one_rank(fixed):
    """Web pages learnt under DDP; rank 1's come with their tags, stripped in every step; the remedy
    did so before."""
    batch = n(8, 1)
    length = n(512, 16)
    dice = np.random.default_rng(RANK)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(dice.choice(list(alphabet), size)) for size in dice.integers(2, 9, 500)]
    plain = [" ".join(dice.choice(words, n(4000, 50))) for _ in range(batch)]
    pages = [
        re.sub("(\\w+) (\\w+)", '<p class="x">\\1&nbsp;<b>\\2</b></p>', text) for text in plain
    ]
    tags = re.compile("<[^>]*>")
    ddp = parallel(_language(n(6, 1), n(1024, 16), n(1024, 128)))

    def loss():
        texts = (
            [html.unescape(tags.sub(" ", page)) for page in pages]
            if RANK == 1 and (not fixed)
            else plain
        )
        rows = np.stack([np.frombuffer(text.encode()[: length + 1], np.uint8) for text in texts])
        return _next_word(ddp, torch.from_numpy(rows % 128).to(DEVICE).long())

    return train(ddp, loss)


@pair("smaller_messages", found=True)
def histories_sent_before_they_are_pooled(fixed):
    """Embedding tables on two ranks: 24 vectors of a history are sent and averaged; the remedy
    averages first."""
    tables = n(8, 2)
    history = n(24, 3)
    width = n(128, 4)
    rows = n(8192, 4)
    with torch.device(DEVICE):
        items = torch.randn(tables * n(50_000, 9), width)
        wanted = torch.randint(0, len(items), (WORLD * rows, tables, history))
        clicked = torch.rand(rows, 1).round()
    top = parallel(
        _made(
            lambda: nn.Linear(WORLD * tables * width, n(1024, 8)),
            nn.ReLU,
            lambda: nn.Linear(n(1024, 8), 512),
            nn.ReLU,
            lambda: nn.Linear(512, 1),
        )
    )

    def features():
        if fixed:
            mine = F.embedding_bag(wanted.flatten(0, 1), items, mode="mean").view(-1, tables, width)
        else:
            mine = items[wanted]
        received = torch.empty_like(mine)
        dist.all_to_all_single(received, mine)
        return (
            (received if fixed else received.mean(2))
            .view(WORLD, rows, tables * width)
            .transpose(0, 1)
            .flatten(1)
        )

    def loss():
        known = features()
        with autocast():
            return F.binary_cross_entropy_with_logits(top(known).float(), clicked)

    return train(top, loss)


@pair("remove_syncs", found=True)
def gradients_checked_one_by_one(fixed):
    """A decoder under DDP that asks of each gradient whether it is finite; the remedy asks once for
    all."""
    ddp = parallel(_language(n(16, 1), n(512, 16), n(8192, 128)))
    tokens = random_tokens(n(8, 1), n(512, 16) + 1)
    optimizer = torch.optim.AdamW(ddp.parameters(), 1e-5, fused=True)

    def step():
        _next_word(ddp, tokens).backward()
        gradients = [weight.grad for weight in ddp.parameters() if weight.grad is not None]
        if fixed:
            good = bool(torch.stack(torch._foreach_norm(gradients)).isfinite().all())
        else:
            good = all(bool(gradient.isfinite().all()) for gradient in gradients)
        if good:
            optimizer.step()
        optimizer.zero_grad()

    return step
