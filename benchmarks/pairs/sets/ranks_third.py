"""A third set for two ranks, of PyTorch alone: what teams that train together get wrong, and
without it."""

import contextlib
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, n, pair, train
from benchmarks.pairs.sets.ranks import RANK, parallel, random_tokens
from benchmarks.pairs.sets.ranks_more import SELDOM, Block


def _wide(layers, width):
    with torch.device(DEVICE):
        return nn.Sequential(
            *(x for _ in range(layers) for x in (nn.Linear(width, width), nn.ReLU()))
        )


def _blocks(layers, width):
    with torch.device(DEVICE):
        return nn.Sequential(*(Block(width) for _ in range(layers)))


def _random(*shape):
    return torch.randn(shape, device=DEVICE)


@pair("no_sync_accumulation", found=True)
def ranker_reduces_each_slice(fixed):
    """A wide ranking network under DDP that takes its batch in eight slices, gradients reduced with
    each."""
    width = n(5120, 32)
    slices = n(8, 2)
    model = parallel(_wide(6, width))
    parts = [_random(n(384, 4), width) for _ in range(slices)]
    optimizer = torch.optim.SGD(model.parameters(), 0.0001, 0.9, fused=True)

    def step():
        for number, part in enumerate(parts, 1):
            with model.no_sync() if fixed and number < slices else contextlib.nullcontext():
                with autocast():
                    loss = model(part).float().square().mean() / slices
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("larger_buckets", found=True)
def forecaster_quarter_megabyte_buckets(fixed):
    """A deep and narrow forecaster under DDP with buckets of 0.25 MB, meant to begin early; the
    remedy is 25 MB."""
    width = n(256, 32)
    ddp = parallel(_blocks(n(40, 2), width), bucket_cap_mb=25 if fixed else 0.25)
    seen, wanted = (_random(n(16, 1), n(256, 8), width) for _ in range(2))
    return train(ddp, lambda: F.mse_loss(ddp(seen).float(), wanted), cast=True)


class Chat(Module):  # A decoder with a large vocabulary
    def __init__(self, layers, width, words):
        with torch.device(DEVICE):
            self.words, self.out = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.blocks = _blocks(layers, width)

    def forward(self, tokens):
        logits = self.out(self.blocks(self.words(tokens[:, :-1])))
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def _told(model, tokens):
    with autocast():
        return model(tokens)


@pair("compress_gradients", found=True)
def short_chats_reduced_in_fp32(fixed):
    """A large vocabulary tuned on short chats under DDP, gradients reduced in fp32; the remedy is
    the bf16 hook."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    ddp = parallel(Chat(n(4, 1), n(2048, 32), n(64_000, 128)), gradient_as_bucket_view=True)
    if fixed and DEVICE == "cuda":
        ddp.register_comm_hook(dist.group.WORLD, default_hooks.bf16_compress_hook)
    tokens = random_tokens(n(2, 1), n(257, 9))
    return train(torch.optim.SGD(ddp.parameters(), 0.0001, fused=True), lambda: _told(ddp, tokens))


@pair("overlap_communication", found=True)
def flattened_after_backward(fixed):
    """A decoder whose gradients are joined, reduced at once after backward and dealt out again; the
    remedy is DDP."""
    inner = Chat(n(8, 1), n(2048, 32), n(8192, 128))
    model = parallel(inner) if fixed else inner
    tokens = random_tokens(n(4, 1), n(513, 9))
    parameters = list(inner.parameters())
    optimizer = torch.optim.AdamW(parameters, 1e-5, fused=True)

    def reduce():
        joined = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(joined)
        joined /= dist.get_world_size()
        parts = joined.split([p.numel() for p in parameters])
        torch._foreach_copy_([p.grad.view(-1) for p in parameters], list(parts))

    def step():
        _told(model, tokens).backward()
        if not fixed:
            reduce()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("keep_parameters", found=True, libraries=("torch.distributed.fsdp",))
def video_model_gathers_again(fixed):
    """A wide model of video under FSDP2 on few patches; layers are freed after forward and gathered
    again."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    width = n(5120, 32)
    model = _blocks(n(5, 2), width)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for block in model:
        fully_shard(block, mp_policy=policy, reshard_after_forward=not fixed)
    fully_shard(model, mp_policy=policy)
    patches, coming = (_random(n(3, 1), n(256, 8), width) for _ in range(2))
    return train(model, lambda: F.mse_loss(model(patches).float(), coming))


@pair("fix_straggler", found=True)
def first_rank_validates(fixed):
    """DDP where rank 0 also takes all pictures for validation in every step; the remedy deals them
    out evenly."""
    width = n(1024, 32)
    many = n(48, 2)
    ddp = parallel(_blocks(n(8, 1), width))
    kept = many // 2 if fixed else many * (RANK == 0)
    seen = _random(n(12, 1), n(256, 8), width)
    held = _random(many, n(256, 8), width)[:kept]
    best = torch.zeros((), device=DEVICE)

    def loss():
        if kept:
            with torch.no_grad(), autocast():
                best.copy_(ddp.module(held).float().square().mean())
        with autocast():
            return ddp(seen).float().square().mean()

    return train(ddp, loss)


class Shared(
    torch.autograd.Function
):  # Adds what the ranks' halves of a layer tell, in a number format
    @staticmethod
    def forward(context, x, kind):
        added = x.to(kind, copy=True)
        dist.all_reduce(added)
        return added.to(x.dtype)

    @staticmethod
    def backward(context, gradient):
        return (gradient, None)


class Entered(
    torch.autograd.Function
):  # Into a layer split over the ranks: gradients are added, in a number format
    @staticmethod
    def forward(context, x, kind):
        context.kind = kind
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        added = gradient.to(context.kind, copy=True)
        dist.all_reduce(added)
        return (added.to(gradient.dtype), None)


class Halved(Module):  # A residual layer whose inner width is halved between the ranks
    def __init__(self, width, kind):
        self.before = nn.LayerNorm(width)
        self.kind = kind
        self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x):
        return x + Shared.apply(
            self.down(F.gelu(self.up(Entered.apply(self.before(x), self.kind)))), self.kind
        )


@pair("smaller_messages", found=True)
def halves_added_in_fp32(fixed):
    """Tensor-parallel layers in bf16 whose halves are added over the ranks in fp32; the remedy adds
    bf16."""
    width = n(1024, 32)
    with torch.device(DEVICE):
        model = nn.Sequential(
            *(Halved(width, torch.bfloat16 if fixed else torch.float32) for _ in range(n(12, 2)))
        )
    model.to(torch.bfloat16)
    x = _random(n(24_576, 16), width).bfloat16()
    return train(model, lambda: model(x).float().square().mean())


class Tasks(Module):  # Many small tasks over one encoder
    def __init__(self, layers, width, tasks):
        self.body = _blocks(layers, width)
        with torch.device(DEVICE):
            self.heads = nn.ModuleList(nn.Linear(width, 32) for _ in range(tasks))

    def forward(self, x):
        mean = self.body(x).mean(1)
        return [head(mean) for head in self.heads]


@pair("remove_syncs", found=True)
def task_losses_read(fixed):
    """Twenty-four tasks over one encoder under DDP; each loss is averaged over the ranks and read
    in every step."""
    width = n(512, 32)
    count = itertools.count()
    ddp = parallel(Tasks(n(12, 1), width, 24))
    x = _random(n(32, 2), n(128, 8), width)
    kinds = torch.randint(0, 32, (n(32, 2),), device=DEVICE)
    told = {}

    def loss():
        with autocast():
            losses = [F.cross_entropy(one, kinds) for one in ddp(x)]
        for number, one in enumerate(losses) if next(count) % (SELDOM if fixed else 1) == 0 else ():
            mean = one.detach().clone()
            dist.all_reduce(mean)
            told[number] = mean.item() / dist.get_world_size()
        return torch.stack(losses).sum()

    return train(ddp, loss)
