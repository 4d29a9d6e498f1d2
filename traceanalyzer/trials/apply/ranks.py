"""Switches of programs of several ranks."""

import functools
from typing import Any

from traceanalyzer.trials.apply.wrap import change_arguments


def _ddp() -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel


def bucket_size(value: Any) -> None:
    """Gradients are exchanged in buckets of so many MB."""
    change_arguments(_ddp(), "__init__", lambda kwargs: kwargs.update(bucket_cap_mb=value))


def bucket_views(_: Any) -> None:
    """Gradients lie in the buckets, and are not copied there."""
    change_arguments(_ddp(), "__init__", lambda kwargs: kwargs.update(gradient_as_bucket_view=True))


def static_graph(_: Any) -> None:
    """Each step uses all the parameters, in one order."""
    change_arguments(_ddp(), "__init__", lambda kwargs: kwargs.update(static_graph=True))


def accumulate(value: Any) -> None:
    """Gradients are exchanged in the last of so many backward passes of a step alone."""
    owner = _ddp()
    forward = owner.forward
    calls = int(value)

    @functools.wraps(forward)
    def counted(this: Any, *args: Any, **kwargs: Any) -> Any:
        number = vars(this).get("_traceanalyzer_calls", 0) + 1
        this._traceanalyzer_calls = number
        this.require_backward_grad_sync = number % calls == 0
        return forward(this, *args, **kwargs)

    owner.forward = counted


def keep_parameters(_: Any) -> None:
    """FSDP keeps what it has gathered from forward to backward."""
    import torch.distributed.fsdp as fsdp

    if hasattr(fsdp, "fully_shard"):
        change_arguments(
            fsdp, "fully_shard", lambda kwargs: kwargs.update(reshard_after_forward=False)
        )
    strategy = fsdp.ShardingStrategy.SHARD_GRAD_OP
    change_arguments(
        fsdp.FullyShardedDataParallel,
        "__init__",
        lambda kwargs: kwargs.update(sharding_strategy=strategy),
    )


def prefetch_parameters(_: Any) -> None:
    """FSDP gathers the parameters of the next layer while one computes."""
    import torch.distributed.fsdp as fsdp

    change_arguments(
        fsdp.FullyShardedDataParallel,
        "__init__",
        lambda kwargs: kwargs.update(forward_prefetch=True, limit_all_gathers=True),
    )
