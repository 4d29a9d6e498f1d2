"""Programs of two ranks: what they reduce, gather and exchange, and who waits for whom."""

import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.pairs.program import DEVICE, LIBRARIES, autocast, n, pair, train

RANK = int(os.environ.get("RANK", "0"))


def parallel(model, **how):  # The model under DDP
    return DistributedDataParallel(model, device_ids=[RANK] if DEVICE == "cuda" else None, **how)


def _gpt(layers, width):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, n_embd=width, n_head=width // 64, vocab_size=n(16_384, 128))
    with torch.device(DEVICE):
        return GPT2LMHeadModel(config)


def _llama(layers):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=n(2048, 64),
        intermediate_size=n(5632, 128),
        num_hidden_layers=layers,
        num_attention_heads=16,
        vocab_size=n(8192, 128),
        use_cache=False,
    )
    with torch.device(DEVICE):
        return LlamaForCausalLM(config)


def random_tokens(batch, length):  # A batch of texts, on the device
    return torch.randint(0, n(8000, 100), (batch, length), device=DEVICE)


def accumulated(layers, fixed):
    """GPT-2 of so many layers under DDP: four small backward passes a step; the remedy reduces
    gradients with the last."""
    model = parallel(_gpt(layers, n(768, 64)))
    parts = [random_tokens(n(2, 1), n(512, 16)) for _ in range(4)]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        for number, part in enumerate(parts):
            with model.no_sync() if fixed and number < 3 else contextlib.nullcontext():
                with autocast():
                    loss = model(part, labels=part).loss
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("no_sync_accumulation", found=True, libraries=("transformers.models.gpt2.modeling_gpt2",))
def gpt_accumulates(fixed):
    """GPT-2 under DDP: four small backward passes a step, gradients reduced with each."""
    return accumulated(n(12, 1), fixed)


@pair("compress_gradients", found=True, libraries=LIBRARIES)
def wide_ranking_fp32(fixed):
    """A wide ranking network under DDP, gradients reduced in fp32; the remedy is bf16's hook."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    width = n(6144, 64)
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(6))
    ).to(DEVICE)
    ddp = parallel(model)
    if fixed:
        ddp.register_comm_hook(dist.group.WORLD, default_hooks.bf16_compress_hook)
    x = torch.randn(n(1024, 8), width, device=DEVICE)
    return train(
        torch.optim.SGD(ddp.parameters(), 0.0001), lambda: ddp(x).float().square().mean(), cast=True
    )


def _sharded(model, fixed):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=not fixed)
    return fully_shard(model, mp_policy=policy)


@pair(
    "keep_parameters",
    found=True,
    libraries=("transformers.models.llama.modeling_llama", "torch.distributed.fsdp"),
)
def llama_gathered_twice(fixed):
    """A Llama under FSDP2 with little work a step; the remedy keeps what is gathered until the
    backward pass."""
    model = _sharded(_llama(n(8, 1)), fixed)
    tokens = random_tokens(n(2, 1), n(512, 16))
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss)


@pair("prefetch_parameters", found=True, libraries=LIBRARIES)
def llama_no_prefetch(fixed):
    """A Llama under FSDP1 that gathers each layer when it is needed; the remedy gathers one layer
    ahead."""
    import functools

    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    model = FullyShardedDataParallel(
        _llama(n(8, 1)),
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


# Tokens go to their experts' ranks, and their gradients come back, in the type they are in
class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(context, gradient):
        out = torch.empty_like(gradient)
        dist.all_to_all_single(out, gradient.contiguous())
        return out


@pair("smaller_messages", found=True, libraries=LIBRARIES)
def experts_exchange_fp32(fixed):
    """Experts on two ranks: tokens are exchanged in fp32; the remedy exchanges bf16."""
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


@pair("fix_straggler", found=True, libraries=LIBRARIES)
def rank_with_slow_input(fixed):
    """DDP where rank 1 prepares its batch with 8 ms of Python."""
    ddp = parallel(_gpt(n(6, 1), n(768, 64)))
    tokens = random_tokens(n(4, 1), n(512, 16))

    def loss():
        until = time.perf_counter() + (0.008 if RANK == 1 and (not fixed) else 0.0)
        while time.perf_counter() < until:
            pass
        with autocast():
            return ddp(tokens, labels=tokens).loss

    return train(ddp, loss)


@pair("fix_straggler", found=True, libraries=LIBRARIES)
def rank_with_longer_texts(fixed):
    """DDP where rank 1 gets three times as many tokens; the remedy deals them out evenly."""
    ddp = parallel(_gpt(n(6, 1), n(768, 64)))
    tokens = random_tokens(n(16 if fixed else 8 + 16 * RANK, 1 + RANK), n(512, 16))
    return train(ddp, lambda: ddp(tokens, labels=tokens).loss, cast=True)


@pair("overlap_communication", found=True, libraries=LIBRARIES)
def reduced_after_backward(fixed):
    """Gradients are reduced one by one after the backward pass; the remedy is DDP."""
    inner = _gpt(n(12, 1), n(1024, 64))
    model = parallel(inner) if fixed else inner
    tokens = random_tokens(n(8, 1), n(512, 16))
    optimizer = torch.optim.AdamW(inner.parameters(), 1e-5, fused=True)

    def step():
        with autocast():
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        for p in inner.parameters() if not fixed else ():
            dist.all_reduce(p.grad)
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("larger_buckets", found=True, libraries=LIBRARIES)
def many_small_buckets(fixed):
    """GPT-2 under DDP with buckets of 1 MB for 25."""
    ddp = parallel(_gpt(n(12, 1), n(768, 64)), bucket_cap_mb=25 if fixed else 1)
    tokens = random_tokens(n(8, 1), n(512, 16))
    return train(ddp, lambda: ddp(tokens, labels=tokens).loss, cast=True)


@pair("smaller_buckets", found=True, libraries=LIBRARIES)
def one_large_bucket(fixed):
    """GPT-2 under DDP with one bucket for all gradients."""
    ddp = parallel(_gpt(n(12, 1), n(1024, 64)), bucket_cap_mb=25 if fixed else 4000)
    tokens = random_tokens(n(8, 1), n(512, 16))
    return train(ddp, lambda: ddp(tokens, labels=tokens).loss, cast=True)
