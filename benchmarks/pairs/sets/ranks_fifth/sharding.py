"""Programs under FSDP: each rank keeps half of every parameter, and they gather what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import mse_loss

from benchmarks.pairs.program import DEVICE, Pair, n, train
from benchmarks.pairs.sets.ranks import RANK
from benchmarks.pairs.sets.ranks_fifth.replicas import encoder_layers

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step

HERE = torch.device("cuda", RANK) if DEVICE == "cuda" else torch.device("cpu")
LIBRARIES = ("torch.distributed.fsdp",)


class Residual(nn.Module):
    """A wide residual layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def expression_parts_reduced(fixed: bool) -> Step:
    """Very wide layers on cells under FSDP2, six parts a step: parameters are kept over them, but all are reduced."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    width = n(7168, 32)
    with torch.device(DEVICE):
        model = nn.Sequential(*(Residual(width) for _ in range(n(3, 1))))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=False)
    sharded = fully_shard(model, mp_policy=policy)
    parts = [torch.randn(n(512, 4), width, device=DEVICE) for _ in range(n(6, 3))]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step() -> None:
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            sharded.set_reshard_after_backward(last)
            sharded.set_requires_gradient_sync(last or not fixed)
            (mse_loss(sharded(part).float(), part) / len(parts)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def sharded_as_one(fixed: bool) -> Step:
    """An encoder of radar patches under FSDP2, sharded as one unit: gathered first, reduced last; or layer by layer."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    width = n(3072, 32)
    model = nn.Sequential(*encoder_layers(n(4, 2), width))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model if fixed else ():
        fully_shard(layer, mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mp_policy=policy)
    patches = torch.randn(n(3, 1), n(512, 8), width, device=DEVICE)
    return train(model, lambda: mse_loss(model(patches).float(), patches))


def judge_gathered_for_each_batch(fixed: bool) -> Step:
    """A frozen judge under FSDP2 scores six batches of answers; its layers are given back after each, or kept."""
    from torch.distributed.fsdp import fully_shard

    width = n(4096, 32)
    model = nn.Sequential(*encoder_layers(n(4, 2), width), nn.Linear(width, 1, device=DEVICE)).to(torch.bfloat16)
    for layer in model[:-1]:
        fully_shard(layer, reshard_after_forward=not fixed)
    fully_shard(model)
    model.requires_grad_(False)
    answers = [torch.randn(n(4, 1), n(128, 8), width, device=DEVICE, dtype=torch.bfloat16) for _ in range(n(6, 2))]

    def step() -> list[torch.Tensor]:
        with torch.no_grad():
            return [model(answer).mean(1) for answer in answers]

    return step


def climate_encoder_gathered_late(fixed: bool) -> Step:
    """A wide encoder of climate under FSDP1 that gathers no layer ahead in the backward pass, as it saves memory."""
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    width = n(4096, 32)
    model = FullyShardedDataParallel(
        nn.Sequential(*encoder_layers(n(5, 2), width)), device_id=HERE,
        auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}), use_orig_params=True,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16),
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE if fixed else None,
    )  # fmt: skip
    fields = torch.randn(n(2, 1), n(512, 8), width, device=DEVICE)
    return train(model, lambda: mse_loss(model(fields).float(), fields))


PAIRS = (
    Pair("no_sync_accumulation", expression_parts_reduced, found=True, libraries=LIBRARIES),
    Pair("overlap_communication", sharded_as_one, found=True, libraries=LIBRARIES),
    Pair("keep_parameters", judge_gathered_for_each_batch, libraries=LIBRARIES),
    Pair("prefetch_parameters", climate_encoder_gathered_late, found=True, libraries=LIBRARIES),
)
