"""How far a prediction may be off by what is changed: one list, by what the changes have in common.

A scenario leaves things out in proportion to what it changes. A host without its launches or its Python is known well;
how fast other kernels are is not. The shares were chosen on pairs of programs that were timed with and without a
remedy; `python -m benchmarks.remedy_errors` holds each against the others (docs/accuracy.md).
"""

from __future__ import annotations

GAIN_SPREAD = 0.015
"""Share of what a scenario gains by which its prediction may be off ..."""
OF_KERNELS = 0.2
"""... where kernels become other kernels ..."""
OF_MOVES = 0.1
"""... and where input is loaded or copied in another way, messages between ranks change, or many calls become one."""
BY_CHANGE = {
    **dict.fromkeys(
        (
            "compile",
            "fuse_elementwise",
            "fused_attention",
            "channels_last",
            "pad_shapes",
            "tf32",
            "low_precision",
            "no_recompute",
            "fused_optimizer",
        ),
        OF_KERNELS,
    ),
    **dict.fromkeys(
        (
            "data_loader_workers",
            "copy_ahead",
            "pinned_memory",
            "no_sync_accumulation",
            "larger_buckets",
            "smaller_buckets",
            "compress_gradients",
            "overlap_communication",
            "keep_parameters",
            "prefetch_parameters",
            "smaller_messages",
            "batch_calls",
            "batched_matmul",
            "fused_rnn",
            "keep_on_device",
            "larger_batch",
        ),
        OF_MOVES,
    ),
}
"""By the name of the remedy."""


def gain_spread(change: str) -> float:
    """Share of what this scenario gains by which its prediction may be off."""
    return BY_CHANGE.get(change, GAIN_SPREAD)
