"""More loops of two ranks that differ in one thing: pipelines, tensor parallelism, late input,
ranks that take turns.

Recorded by `benchmarks.ablations_record OUT --set ranks_scenarios` under torchrun; written blind.
"""

import itertools
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

from benchmarks.pairs.program import DEVICE, n, pair, train
from benchmarks.pairs.sets.ablations import mlp, think
from benchmarks.pairs.sets.ranks import RANK, parallel

MICROBATCHES = 8
WORLD = 2


def random(*shape):
    return torch.randn(shape, device=DEVICE)


@pair(
    "overlap_communication",
    ablation=("communication: two all-reduces a layer", "communication_free"),
)
def tensor_parallel_layers(fixed):
    """Twenty layers cut over two ranks, each with two all-reduces, against the same without
    them."""
    model = mlp(n(40, 2), n(1536, 64))
    x = random(n(1024, 4), n(1536, 64))

    @torch.no_grad()
    def step():
        h = x
        for layer in model:
            h = layer(h)
            if not fixed and isinstance(layer, nn.Linear):
                dist.all_reduce(h)

    return step


@pair("overlap_communication", ablation=("communication: DDP that overlaps", "communication_free"))
def ddp_overlapped(fixed):
    """DDP with its own buckets, against no communication at all."""
    model = mlp(n(12, 2), n(3072, 64))
    x = random(n(512, 4), n(3072, 64))
    called = model if fixed else parallel(model)
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: called(x).square().mean())


@pair(
    "larger_buckets",
    ablation=("buckets: one for every tensor of two widths, then 25 MB", "buckets=25MB"),
)
def buckets_two_widths(fixed):
    """DDP with a bucket for every tensor, of layers of two widths, against buckets of 25 MB."""
    with torch.device(DEVICE):
        widths = [n(768, 32), n(256, 16)] * n(24, 2)
        model = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))
    ddp = parallel(model, bucket_cap_mb=25 if fixed else 0.01)
    x = random(n(2048, 4), widths[0])
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: ddp(x).square().mean())


def read_each_step(called, optimizer, x, before=lambda: None):
    """A training step after `before`, whose loss is read."""

    def step():
        before()
        loss = called(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def in_step(fixed, late, *, batch=1.0, rank=1):
    """DDP whose loss is read each step; `late` runs on `rank` before the step, its batch is `batch`
    times as large."""
    model = mlp(n(8, 2), n(2048, 64))
    ddp = parallel(model)
    rows = int(n(2048, 4) * (1.0 if fixed or rank != RANK else batch))
    x = random(rows, n(2048, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    return read_each_step(ddp, optimizer, x, late if not fixed and rank == RANK else lambda: None)


@pair("fix_straggler", ablation=("straggler: 3 ms of input on rank 1", "no_straggler"))
def straggler_input(fixed):
    """Rank 1 waits 3 ms for its batch, and the loss is read each step."""
    rows = iter(torch.utils.data.DataLoader(_Late(), batch_size=None))
    return in_step(fixed, lambda: next(rows))


class _Late(torch.utils.data.IterableDataset):  # Rows that come after 3 ms
    def __iter__(self):
        while True:
            time.sleep(0.003)
            yield torch.zeros(8)


@pair("fix_straggler", ablation=("straggler: a batch 1.6 times as large on rank 1", "no_straggler"))
def straggler_batch(fixed):
    """Rank 1 has 1.6 times the rows."""
    return in_step(fixed, lambda: None, batch=1.6)


@pair("fix_straggler", ablation=("straggler: 1.5 ms of Python, the ranks by turns", "no_straggler"))
def stragglers_by_turns(fixed):
    """Four stretches a step; in each one of the two ranks spends 1.5 ms in Python, by turns."""
    weight, x = (
        torch.randn(n(4096, 64), n(4096, 64), device=DEVICE, dtype=torch.bfloat16) for _ in range(2)
    )

    def step():
        h = x
        for turn in range(4):
            h = (h @ weight) @ weight
            if not fixed and turn % 2 == RANK:
                think(0.0015)
            dist.all_reduce(h)

    return step


def pipeline(schedule, layers, extra=0):
    """A step of a pipeline of two stages; this rank's has `layers` layers and `extra` products more
    in each call."""
    from torch.distributed import pipelining

    width = n(2048, 32)
    rows = n(512, 4)

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp(layers, width)
            self.spare = nn.Parameter(random(width, width), requires_grad=False)

        def forward(self, x):
            for _ in range(extra):
                torch.mm(x, self.spare)
            return self.layers(x)

    module = Stage()
    stage = pipelining.PipelineStage(
        module, RANK, WORLD, torch.device(DEVICE, RANK) if DEVICE == "cuda" else torch.device("cpu")
    )
    run = getattr(pipelining, schedule)(
        stage, MICROBATCHES, loss_fn=lambda y, wanted: (y - wanted).square().mean()
    )
    optimizer = torch.optim.SGD((p for p in module.parameters() if p.requires_grad), lr=1e-9)
    x = random(rows * MICROBATCHES, width)

    def step():
        if RANK == 0:
            run.step(x)
        else:
            run.step(target=x, losses=[])
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("fix_straggler", ablation=("pipeline: rank 1 has products of its own", ""))
def pipeline_1f1b_slow_rank(fixed):
    """1F1B; rank 1 has four products more in each forward."""
    return pipeline("Schedule1F1B", n(8, 1), 0 if fixed or RANK == 0 else 4)


@pair("fix_straggler", ablation=("pipeline: stage 1 has the larger part", ""))
def pipeline_1f1b_heavy_stage(fixed):
    """1F1B; stage 1 has 11 layers and stage 0 has 5, then 8 and 8."""
    return pipeline("Schedule1F1B", n(8, 1) if fixed else (n(5, 1), n(11, 2))[RANK])


@pair("fix_straggler", ablation=("pipeline: stage 1 has the larger part, GPipe", ""))
def pipeline_gpipe_heavy_stage(fixed):
    """GPipe; stage 1 has 11 layers and stage 0 has 5, then 8 and 8."""
    return pipeline("ScheduleGPipe", n(8, 1) if fixed else (n(5, 1), n(11, 2))[RANK])


# Written when the model had been mended with those above in view.


def blocks(count, width):
    """Layers of an encoder in bf16."""
    return nn.Sequential(
        *(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True)
            for _ in range(count)
        )
    ).to(DEVICE, torch.bfloat16)


def encoder(called, model, x):
    return train(
        torch.optim.SGD(model.parameters(), lr=1e-9), lambda: called(x).float().square().mean()
    )


def sequences(batch, width):
    return random(batch, n(512, 8), width).to(torch.bfloat16)


@pair(
    "overlap_communication",
    ablation=("communication: DDP of an encoder in bf16", "communication_free"),
)
def encoder_ddp(fixed):
    """An encoder in bf16 under DDP, against no communication at all."""
    model = blocks(n(8, 1), n(1024, 64))
    return encoder(model if fixed else parallel(model), model, sequences(n(16, 2), n(1024, 64)))


@pair(
    "overlap_communication",
    ablation=("communication: weights gathered before each layer", "communication_free"),
)
def weights_gathered(fixed):
    """Each of sixteen layers gathers its halves of the weight before it is used, against weights
    that are whole."""
    width = n(4096, 64)
    halves = [random(width // 2, width).to(torch.bfloat16) for _ in range(n(16, 2))]
    wholes = [torch.cat((half, half)) for half in halves]
    x = random(n(4096, 8), width).to(torch.bfloat16)

    @torch.no_grad()
    def step():
        h = x
        for half, whole in zip(halves, wholes, strict=True):
            if not fixed:
                dist.all_gather_into_tensor(whole, half)
            h = torch.relu(h @ whole.t())
        return h

    return step


@pair(
    "overlap_communication",
    ablation=("overlap: an encoder reduced after its backward", "communication_overlapped"),
)
def encoder_reduced_after(fixed):
    """Gradients of an encoder reduced in one after the backward pass, against DDP's overlap."""
    model = blocks(n(8, 1), n(1024, 64))
    x = sequences(n(16, 2), n(1024, 64))
    if fixed:
        return encoder(parallel(model, gradient_as_bucket_view=True), model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

    def step():
        model(x).float().square().mean().backward()
        flat = torch.cat([parameter.grad.view(-1) for parameter in model.parameters()])
        dist.all_reduce(flat)
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("fix_straggler", ablation=("straggler: rank 0 has 1.4 times the sequences", "no_straggler"))
def encoder_uneven(fixed):
    """An encoder under DDP; rank 0 has 1.4 times the sequences."""
    model = blocks(n(8, 1), n(1024, 64))
    batch = int(n(16, 2) * (1.0 if fixed or RANK == 1 else 1.4))
    return encoder(parallel(model), model, sequences(batch, n(1024, 64)))


@pair("fix_straggler", ablation=("straggler: rank 0 thinks in the backward pass", "no_straggler"))
def encoder_thinks(fixed):
    """An encoder under DDP, loss read each step; a hook of rank 0 spends 3 ms in Python in each
    backward pass."""
    model = blocks(n(8, 1), n(1024, 64))
    x = sequences(n(16, 2), n(1024, 64))
    called = parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    if not fixed and RANK == 0:
        model[len(model) // 2].linear1.weight.register_hook(lambda _: think(0.003))
    return read_each_step(called, optimizer, x)


@pair(
    "fix_straggler", ablation=("straggler: six products more, the ranks by turns", "no_straggler")
)
def products_by_turns(fixed):
    """Four stretches a step; in each one of the ranks has six products more."""
    weight, x = (
        torch.randn(n(4096, 64), n(4096, 64), device=DEVICE, dtype=torch.bfloat16) for _ in range(2)
    )

    def step():
        h = x
        for turn in range(4):
            h = (h @ weight) @ weight
            if not fixed and turn % 2 == RANK:
                for _ in range(6):
                    weight @ weight
            dist.all_reduce(h)

    return step


@pair(
    "larger_buckets",
    ablation=("buckets: 1 MB of an embedding and small layers, then 25 MB", "buckets=25MB"),
)
def buckets_of_many_sizes(fixed):
    """DDP with buckets of 1 MB, of layers between 0.26 and 67 MB, against buckets of 25 MB."""
    with torch.device(DEVICE):
        widths = [n(4096, 64), n(4096, 64), *[n(256, 16)] * n(60, 2), n(1024, 32), n(256, 16)]
        model = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))
    ddp = parallel(model, bucket_cap_mb=25 if fixed else 1)
    x = random(n(1024, 4), widths[0])
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: ddp(x).square().mean())


def full_encoder(megabytes):
    """An encoder whose kernels take longer than its host, in buckets of so many MB."""
    model = blocks(n(6, 1), n(1024, 64))
    return encoder(
        parallel(model, bucket_cap_mb=megabytes), model, sequences(n(64, 2), n(1024, 64))
    )


@pair(
    "larger_buckets",
    ablation=("buckets: 1 MB of an encoder that fills the GPU, then 25 MB", "buckets=25MB"),
)
def buckets_of_an_encoder(fixed):
    """Buckets of 1 MB against buckets of 25 MB."""
    return full_encoder(25 if fixed else 1)


@pair("larger_buckets", ablation=("buckets: 0.1 MB of convolutions, then 25 MB", "buckets=25MB"))
def buckets_of_convolutions(fixed):
    """Forty convolutions in buckets of 0.1 MB, against buckets of 25 MB."""
    width = n(256, 8)
    layers = [
        m
        for _ in range(n(40, 2))
        for m in (nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
    ]
    model = nn.Sequential(*layers).to(DEVICE)
    x = random(n(16, 2), width, n(28, 8), n(28, 8))
    called = parallel(model, bucket_cap_mb=25 if fixed else 0.1)
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: called(x).square().mean())


@pair("smaller_buckets", ablation=("buckets: 25 MB of an encoder, then 4 MB", "buckets=4MB"))
def buckets_smaller(fixed):
    """Buckets of 25 MB against buckets of 4 MB."""
    return full_encoder(4 if fixed else 25)


def beside_a_thread(step):
    """The step, and while it runs a thread that wants the interpreter half of the time."""
    wanted = threading.Event()

    def run():
        while wanted.wait():
            think(0.002)
            time.sleep(0.002)

    def both():
        wanted.set()
        step()
        wanted.clear()

    threading.Thread(target=run, daemon=True).start()
    return both


def small_layers(fixed, *, read):
    """Layers that the host cannot launch as fast as they run, under DDP; a thread slows the host of
    rank 1."""
    model = mlp(n(60, 2), n(512, 64))
    called = parallel(model)
    x = random(n(256, 4), n(512, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    step = (
        read_each_step(called, optimizer, x)
        if read
        else train(optimizer, lambda: called(x).square().mean())
    )
    return step if fixed or RANK == 0 else beside_a_thread(step)


@pair(
    "fix_straggler",
    ablation=("straggler: a thread beside the host of rank 1, loss read", "no_straggler"),
)
def slow_host(fixed):
    """The host of rank 1 shares its interpreter with a thread; the loss is read each step."""
    return small_layers(fixed, read=True)


@pair("fix_straggler", ablation=("straggler: a thread beside the host of rank 1", "no_straggler"))
def slow_host_ahead(fixed):
    """The host of rank 1 shares its interpreter with a thread; nothing is read."""
    return small_layers(fixed, read=False)


@pair(
    "fix_straggler",
    ablation=("straggler: 5 ms of input on rank 1 every other step", "no_straggler"),
)
def straggler_every_other(fixed):
    """The input of rank 1 comes 5 ms late in every other step."""
    steps = itertools.count()
    return in_step(fixed, lambda: time.sleep(0.005 * (next(steps) % 2)))


@pair("fix_straggler", ablation=("straggler: rank 1 gets three times the tokens", "no_straggler"))
def uneven_experts(fixed):
    """Tokens go to two experts and back in each of eight layers; the one of rank 1 gets three of
    four."""
    width = n(2048, 64)
    rows = n(4096, 8)
    up = random(width, 4 * width).to(torch.bfloat16)
    down = random(4 * width, width).to(torch.bfloat16)
    x = random(rows, width).to(torch.bfloat16)
    share = [rows // 2, rows // 2] if fixed else [rows // 4, rows - rows // 4]
    mine = [share[RANK]] * WORLD

    @torch.no_grad()
    def step():
        h = x
        for _ in range(n(8, 2)):
            there = torch.empty(sum(mine), width, device=DEVICE, dtype=x.dtype)
            back = torch.empty_like(x)
            dist.all_to_all_single(there, h, mine, share)
            dist.all_to_all_single(back, torch.relu(there @ up) @ down, share, mine)
            h = back
        return h

    return step


@pair("overlap_communication", ablation=("communication: FSDP of an encoder", "communication_free"))
def encoder_fsdp(fixed):
    """An encoder whose parameters are sharded, against whole ones that nobody exchanges."""
    from torch.distributed.fsdp import fully_shard

    model = blocks(n(8, 1), n(1024, 64))
    if not fixed:
        for layer in (*model, model):
            fully_shard(layer)
    return encoder(model, model, sequences(n(32, 2), n(1024, 64)))


@pair(
    "overlap_communication", ablation=("communication: FSDP of wide layers", "communication_free")
)
def layers_fsdp(fixed):
    """Twelve wide layers whose parameters are sharded, kept after the forward pass, against whole
    ones."""
    from torch.distributed.fsdp import fully_shard

    model = mlp(n(12, 2), n(3072, 64))
    if not fixed:
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, reshard_after_forward=False)
        fully_shard(model)
    x = random(n(2048, 4), n(3072, 64))
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: model(x).square().mean())


@pair("larger_buckets", ablation=("buckets: 0.5 MB, loss read, then 25 MB", "buckets=25MB"))
def buckets_loss_read(fixed):
    """Eighty small layers in buckets of 0.5 MB, the loss read each step, against buckets of 25
    MB."""
    model = mlp(n(80, 2), n(384, 64))
    called = parallel(model, bucket_cap_mb=25 if fixed else 0.5)
    return read_each_step(
        called, torch.optim.SGD(model.parameters(), lr=1e-9), random(n(1024, 4), n(384, 64))
    )


@pair(
    "larger_buckets",
    ablation=("buckets: 0.1 MB of layers that fill the GPU, then 25 MB", "buckets=25MB"),
)
def buckets_full_gpu(fixed):
    """Sixty layers of 4 MB that fill the GPU, each tensor a bucket, against buckets of 25 MB."""
    model = mlp(n(60, 2), n(1024, 64))
    called = parallel(model, bucket_cap_mb=25 if fixed else 0.1)
    x = random(n(4096, 4), n(1024, 64))
    return train(torch.optim.SGD(model.parameters(), lr=1e-9), lambda: called(x).square().mean())


@pair(
    "overlap_communication",
    ablation=("communication: sequences cut over the ranks", "communication_free"),
)
def sequences_cut(fixed):
    """Twelve layers that gather sequences before and scatter their sums after, against the same
    without."""
    width = n(2048, 64)
    rows = n(2048, 8)
    ups = [random(width, 2 * width).to(torch.bfloat16) for _ in range(n(12, 2))]
    downs = [random(2 * width, width).to(torch.bfloat16) for _ in ups]
    part = random(rows // WORLD, width).to(torch.bfloat16)
    whole = random(rows, width).to(torch.bfloat16)

    @torch.no_grad()
    def step():
        mine = part
        for up, down in zip(ups, downs, strict=True):
            if not fixed:
                dist.all_gather_into_tensor(whole, mine)
            made = torch.relu(whole @ up) @ down
            mine = torch.empty_like(part)
            if not fixed:
                dist.reduce_scatter_tensor(mine, made)
        return mine

    return step


def read_value(_module, _inputs, output):
    output[0, 0].item()


@pair(
    "fix_straggler", ablation=("straggler: rank 0 reads a value after each layer", "no_straggler")
)
def straggler_reads(fixed):
    """Under DDP rank 0 reads a value after each of sixteen layers."""
    model = mlp(n(16, 2), n(1024, 64))
    called = parallel(model)
    x = random(n(2048, 4), n(1024, 64))
    if not fixed and RANK == 0:
        for layer in model:
            layer.register_forward_hook(read_value)
    return read_each_step(called, torch.optim.SGD(model.parameters(), lr=1e-9), x)


@pair("fix_straggler", ablation=("straggler: rank 0 pauses 12 ms every third step", "no_straggler"))
def straggler_pauses(fixed):
    """Under DDP rank 0 pauses for 12 ms before every third step."""
    steps = itertools.count()
    return in_step(fixed, lambda: time.sleep(0.012 * (next(steps) % 3 == 0)), rank=0)
