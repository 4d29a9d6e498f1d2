"""Programs of four ranks: pipelines, tensor and expert parallelism, sharding, buckets, stragglers.

`torchrun --standalone --nproc-per-node=4 -m benchmarks.ablations_record OUT --set four_ranks
--plain` times and records them. Written before any recording of four GPUs was seen.
"""

import itertools
import multiprocessing
import os
import time

import torch
import torch.distributed as dist
from torch import nn

from benchmarks.pairs.program import DEVICE, n, pair, train
from benchmarks.pairs.sets.ablations import mlp, think
from benchmarks.pairs.sets.ranks import Exchange, _llama, accumulated, parallel, random_tokens
from benchmarks.pairs.sets.ranks_scenarios import (
    beside_a_thread,
    blocks,
    encoder,
    random,
    read_each_step,
    sequences,
)

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "4"))
MICROBATCHES = 8


def nothing():
    """A rank that is not late."""


# Pipelines


def pipeline(schedule, layers, before=nothing):
    """A step of a pipeline with a stage a rank; this rank's has `layers` layers and calls `before`
    in each forward pass."""
    from torch.distributed import pipelining

    width = n(2048, 32)
    rows = n(512, 4)

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp(layers, width)

        def forward(self, x):
            before()
            return self.layers(x)

    module = Stage()
    device = torch.device(DEVICE, RANK) if DEVICE == "cuda" else torch.device("cpu")
    stage = pipelining.PipelineStage(module, RANK, WORLD, device)
    run = getattr(pipelining, schedule)(
        stage, MICROBATCHES, loss_fn=lambda y, wanted: (y - wanted).square().mean()
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-9)
    x = random(rows * MICROBATCHES, width)

    def step():
        if RANK == 0:
            run.step(x)
        elif RANK == WORLD - 1:
            run.step(target=x, losses=[])
        else:
            run.step()
        optimizer.step()
        optimizer.zero_grad()

    return step


EVEN = (7, 8, 8, 7)
"""Layers of each stage of a pipeline whose stages take about as long."""


def layers_of(counts):
    return n(counts[RANK % 4], 1)


@pair("fix_straggler", ablation=("pipeline: stage 2 of four is heavy, GPipe", ""))
def four_gpipe_heavy(fixed):
    """GPipe; stage 2 has 12 layers and the others have 6, then about as many each."""
    return pipeline("ScheduleGPipe", layers_of(EVEN if fixed else (6, 6, 12, 6)))


@pair("fix_straggler", ablation=("pipeline: stage 1 of four is heavy, 1F1B", ""))
def four_1f1b_heavy(fixed):
    """1F1B; stage 1 has 12 layers and the others have 6, then about as many each."""
    return pipeline("Schedule1F1B", layers_of(EVEN if fixed else (6, 12, 6, 6)))


@pair("", ablation=("pipeline: nothing, 1F1B of even stages", ""))
def four_1f1b_even(fixed):
    """1F1B of even stages, twice."""
    return pipeline("Schedule1F1B", layers_of(EVEN))


@pair("fix_straggler", ablation=("pipeline: the host of stage 3 thinks in each forward", ""))
def four_1f1b_slow_host(fixed):
    """1F1B; the last stage spends 1 ms of Python in each forward pass."""
    late = not fixed and RANK == WORLD - 1
    return pipeline("Schedule1F1B", layers_of(EVEN), lambda: think(0.001 if late else 0.0))


# Tensor parallelism


def reduced_layers(group, fixed, before=nothing):
    """Twenty layers cut over the ranks of a group, each with an all-reduce; without where fixed."""
    model = mlp(n(20, 2), n(2048, 64))
    x = random(n(2048, 4), n(2048, 64))

    @torch.no_grad()
    def step():
        before()
        h = x
        for layer in model:
            h = layer(h)
            if not fixed and isinstance(layer, nn.Linear):
                dist.all_reduce(h, group=group)

    return step


@pair(
    "overlap_communication",
    ablation=("communication: all-reduces of four ranks", "communication_free"),
)
def four_tensor(fixed):
    """Layers cut over four ranks, against the same without their all-reduces."""
    return reduced_layers(None, fixed)


def two_by_two():
    """This rank's group of two neighbours, and its group of two across them."""
    pairs = [dist.new_group([i, i + 1]) for i in range(0, WORLD, 2)]
    across = [dist.new_group(list(range(i, WORLD, 2))) for i in range(2)]
    return pairs[RANK // 2], across[RANK % 2]


class Reduced(torch.autograd.Function):
    """An all-reduce of activations within a group; gradients pass as they are."""

    @staticmethod
    def forward(context, x, group):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context, gradient):
        return gradient, None


def tensor_and_data(late):
    """Layers cut over two ranks, two replicas under DDP; `late` runs in the forward pass."""
    tensor, data = two_by_two()
    layers = mlp(n(12, 2), n(2048, 64))

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            late()
            for layer in self.layers:
                x = layer(x)
                if isinstance(layer, nn.Linear):
                    x = Reduced.apply(x, tensor)
            return x

    model = Cut()
    ddp = parallel(model, process_group=data)
    x = random(n(2048, 4), n(2048, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    return read_each_step(ddp, optimizer, x)


@pair("fix_straggler", ablation=("straggler: rank 3 thinks, 2 x 2", "no_straggler"))
def four_tensor_data_slow_host(fixed):
    """Tensor parallel 2 and data parallel 2; rank 3 spends 3 ms of Python in the forward pass."""
    return tensor_and_data(lambda: think(0.003 if RANK == 3 and not fixed else 0.0))


@pair("", ablation=("nothing: tensor parallel 2 and data parallel 2", ""))
def four_tensor_data(fixed):
    """Tensor parallel 2 and data parallel 2 without a fault, twice."""
    return tensor_and_data(nothing)


# Sharding


def sharded(model, mesh, reshard):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def mesh(*shape):
    from torch.distributed.device_mesh import init_device_mesh

    names = ("replicate", "shard")[-len(shape) :]
    return init_device_mesh(DEVICE, shape, mesh_dim_names=names)


def llama_step(shape, reshard, late=nothing):
    model = sharded(_llama(n(6, 1)), mesh(*shape), reshard)
    tokens = random_tokens(n(2, 1), n(512, 16))

    def loss():
        late()
        return model(input_ids=tokens, labels=tokens).loss

    return train(model, loss)


@pair("keep_parameters", ablation=("sharding: gathered twice", ""))
def four_fsdp_gathered_twice(fixed):
    """A Llama under FSDP2; the remedy keeps what is gathered until the backward pass."""
    return llama_step((WORLD,), not fixed)


@pair("keep_parameters", ablation=("sharding: HSDP 2 x 2, gathered twice", ""))
def four_hsdp_gathered_twice(fixed):
    """A Llama under HSDP of 2 x 2; the remedy keeps what is gathered until the backward pass."""
    return llama_step((2, 2), not fixed)


@pair("fix_straggler", ablation=("straggler: the host of rank 2 thinks, FSDP2", "no_straggler"))
def four_fsdp_slow_host(fixed):
    """FSDP2; rank 2 spends 8 ms of Python before its forward pass."""
    return llama_step((WORLD,), True, lambda: think(0.008 if RANK == 2 and not fixed else 0.0))


@pair("prefetch_parameters", ablation=("sharding: FSDP1 without prefetch", ""))
def four_fsdp_no_prefetch(fixed):
    """A Llama under FSDP1 that gathers each layer when it is needed; then one layer ahead."""
    import functools

    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    model = FullyShardedDataParallel(
        _llama(n(6, 1)),
        device_id=RANK if DEVICE == "cuda" else None,
        auto_wrap_policy=functools.partial(
            transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}
        ),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
        forward_prefetch=fixed,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE if fixed else None,
        use_orig_params=True,
    )
    tokens = random_tokens(n(4, 1), n(1024, 16))
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss)


# Experts


@pair("smaller_messages", ablation=("experts: tokens exchanged in fp32, then bf16", ""))
def four_experts_fp32(fixed):
    """Experts on four ranks: tokens are exchanged in fp32; the remedy exchanges bf16."""
    width = n(1024, 64)
    experts = nn.ModuleList(
        nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        for _ in range(4)
    ).to(DEVICE)
    x = torch.randn(n(32_768, 64), width, device=DEVICE)
    kind = torch.bfloat16 if fixed else torch.float32

    def loss():
        y = x
        for expert in experts:
            y = Exchange.apply(expert(Exchange.apply(y.to(kind))).to(kind))
        return y.float().square().mean()

    return train(experts, loss, cast=True)


@pair("fix_straggler", ablation=("straggler: the expert of rank 1 gets most", "no_straggler"))
def four_experts_uneven(fixed):
    """Tokens go to four experts and back in six layers; the one of rank 1 gets four of seven."""
    width = n(2048, 64)
    part = n(1024, 2)
    up = random(width, 4 * width).to(torch.bfloat16)
    down = random(4 * width, width).to(torch.bfloat16)
    x = random(7 * part, width).to(torch.bfloat16)
    share = [7 * part // 4] * 4 if fixed else [part, 4 * part, part, part]
    mine = [share[RANK]] * WORLD

    @torch.no_grad()
    def step():
        h = x
        for _ in range(n(6, 2)):
            there = torch.empty(sum(mine), width, device=DEVICE, dtype=x.dtype)
            back = torch.empty_like(h[: sum(share)])
            dist.all_to_all_single(there, h[: sum(share)], mine, share)
            dist.all_to_all_single(back, torch.relu(there @ up) @ down, share, mine)
            h = back
        return h

    return step


# Buckets


def bucketed(megabytes):
    model = blocks(n(8, 1), n(1024, 64))
    called = parallel(model, bucket_cap_mb=megabytes)
    return encoder(called, model, sequences(n(16, 2), n(1024, 64)))


@pair("larger_buckets", ablation=("buckets: 0.1 MB, then 25 MB", "buckets=25MB"))
def four_buckets_tiny(fixed):
    """An encoder under DDP of four ranks in buckets of 0.1 MB, then 25 MB."""
    return bucketed(25 if fixed else 0.1)


@pair("larger_buckets", ablation=("buckets: 1 MB, then 25 MB", "buckets=25MB"))
def four_buckets_small(fixed):
    """An encoder under DDP of four ranks in buckets of 1 MB, then 25 MB."""
    return bucketed(25 if fixed else 1)


@pair("smaller_buckets", ablation=("buckets: one of all, then 25 MB", "buckets=25MB"))
def four_bucket_of_all(fixed):
    """An encoder under DDP of four ranks in one bucket, then 25 MB."""
    return bucketed(25 if fixed else 1000)


@pair("no_sync_accumulation", ablation=("accumulation: reduced in each of four passes", ""))
def four_accumulates(fixed):
    """GPT-2 under DDP: four small backward passes a step, gradients reduced with each."""
    return accumulated(n(8, 1), fixed)


@pair("overlap_communication", ablation=("overlap: reduced after backward", ""))
def four_reduced_after(fixed):
    """Gradients reduced one by one after the backward pass; the remedy is DDP."""
    model = blocks(n(8, 1), n(1024, 64))
    x = sequences(n(16, 2), n(1024, 64))
    if fixed:
        return encoder(parallel(model), model, x)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

    def step():
        model(x).float().square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()

    return step


# Stragglers of known cost


def in_step(fixed, late, ranks):
    """DDP of four ranks whose loss is read each step; `late` runs before the step on `ranks`."""
    model = mlp(n(8, 2), n(2048, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    x = random(n(2048, 4), n(2048, 64))
    is_late = not fixed and RANK in ranks
    return read_each_step(parallel(model), optimizer, x, late if is_late else nothing)


def extra_products():
    """A function that gives this device some products more to do."""
    weight = random(n(4096, 16), n(4096, 16)).to(torch.bfloat16)

    def late():
        for _ in range(8):
            weight @ weight

    return late


@pair("fix_straggler", ablation=("straggler: products more on rank 1 of four", "no_straggler"))
def four_more_work(fixed):
    """Rank 1 has eight products more in each step."""
    return in_step(fixed, extra_products(), {1})


@pair("fix_straggler", ablation=("straggler: products more on ranks 1 and 3", "no_straggler"))
def four_more_work_twice(fixed):
    """Ranks 1 and 3 have eight products more in each step."""
    return in_step(fixed, extra_products(), {1, 3})


@pair("fix_straggler", ablation=("straggler: 3 ms of Python on rank 2 of four", "no_straggler"))
def four_slow_python(fixed):
    """Rank 2 spends 3 ms in Python before each step."""
    return in_step(fixed, lambda: think(0.003), {2})


@pair("fix_straggler", ablation=("straggler: 3 ms of Python on ranks 0 and 2", "no_straggler"))
def four_slow_python_twice(fixed):
    """Ranks 0 and 2 spend 3 ms in Python before each step."""
    return in_step(fixed, lambda: think(0.003), {0, 2})


class _Late(torch.utils.data.IterableDataset):  # Rows that come after 4 ms
    def __iter__(self):
        while True:
            time.sleep(0.004)
            yield torch.zeros(8)


@pair("fix_straggler", ablation=("straggler: 4 ms of input on rank 3 of four", "no_straggler"))
def four_slow_input(fixed):
    """Rank 3 waits 4 ms for its batch before each step."""
    rows = iter(torch.utils.data.DataLoader(_Late(), batch_size=None))
    return in_step(fixed, lambda: next(rows), {3})


@pair("fix_straggler", ablation=("straggler: 2 ms of Python, by turns", "no_straggler"))
def four_by_turns(fixed):
    """In each step another of the four ranks spends 2 ms in Python."""
    turns = itertools.count()
    return in_step(
        fixed, lambda: think(0.002 if next(turns) % WORLD == RANK else 0.0), {0, 1, 2, 3}
    )


@pair("fix_straggler", ablation=("straggler: a thread beside the host of rank 1", "no_straggler"))
def four_shared_host(fixed):
    """Small layers under DDP; a thread takes half of the interpreter of rank 1."""
    model = mlp(n(40, 2), n(512, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    step = read_each_step(parallel(model), optimizer, random(n(256, 4), n(512, 64)))
    return step if fixed or RANK != 1 else beside_a_thread(step)


def _neighbour(wanted, device):
    """A program of its own that wants the same device while the event is set."""
    torch.cuda.set_device(device)
    weight = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    while True:
        wanted.wait()
        weight @ weight
        torch.cuda.synchronize()
        time.sleep(0.0005)


@pair("fix_straggler", ablation=("straggler: a neighbour on the GPU of rank 2", "no_straggler"))
def four_slow_gpu(fixed):
    """Another program shares the GPU of rank 2, which no recording of the job shows."""
    model = blocks(n(4, 1), n(1024, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    step = read_each_step(parallel(model), optimizer, sequences(n(16, 2), n(1024, 64)))
    if fixed or RANK != 2 or DEVICE != "cuda":
        return step
    context = multiprocessing.get_context("spawn")
    wanted = context.Event()
    context.Process(target=_neighbour, args=(wanted, RANK), daemon=True).start()
    time.sleep(8)

    def both():
        wanted.set()
        step()
        wanted.clear()

    return both


@pair("", ablation=("nothing: DDP of an encoder on four ranks", ""))
def four_clean(fixed):
    """An encoder under DDP of four ranks without a fault, twice."""
    return bucketed(25)
