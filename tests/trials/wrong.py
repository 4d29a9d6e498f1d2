"""Switches that make a program wrong, slow or dead: none may be accepted. They are put on as those
of the table are."""

from __future__ import annotations

import functools
import os
import signal
import time


def _around(owner, name, change):
    original = getattr(owner, name)

    @functools.wraps(original)
    def changed(*args, **kwargs):
        return change(original, *args, **kwargs)

    setattr(owner, name, changed)


def half_the_learning_rate(_):
    import torch

    def change(init, this, params, lr=1e-3, **kwargs):
        init(this, params, lr=lr / 2, **kwargs)

    _around(torch.optim.AdamW, "__init__", change)


def every_fourth_step_is_left_out(_):
    import torch

    calls = []

    def change(step, this, *args, **kwargs):
        calls.append(1)
        return None if len(calls) % 4 == 0 else step(this, *args, **kwargs)

    _around(torch.optim.AdamW, "step", change)


def half_the_batch(_):
    import torch

    def change(loss, x, y, **kwargs):
        return loss(x[: len(x) // 2], y[: len(y) // 2], **kwargs)

    _around(torch.nn.functional, "cross_entropy", change)


def summed_loss(_):
    import torch

    def change(loss, x, y, **kwargs):
        return loss(x, y, reduction="sum")

    _around(torch.nn.functional, "cross_entropy", change)


def gradients_pile_up(_):
    import torch

    torch.optim.Optimizer.zero_grad = lambda this, set_to_none=True: None


def stale_batches(_):
    import torch

    drawn = []

    def change(randn, *size, **kwargs):
        drawn.append(randn(*size, **kwargs))
        return drawn[max(len(drawn) - 2, 0)]

    _around(torch, "randn", change)


def shuffled_labels(_):
    import torch

    def change(loss, x, y, **kwargs):
        return loss(x, y.roll(1), **kwargs)

    _around(torch.nn.functional, "cross_entropy", change)


def evaluation_mode(_):
    import torch

    torch.nn.Dropout.forward = lambda this, x: x


def weights_in_bf16(_):
    import torch

    def change(forward, this, x):
        return torch.nn.functional.linear(
            x.bfloat16(), this.weight.bfloat16(), this.bias.bfloat16()
        ).float()

    _around(torch.nn.Linear, "forward", change)


def a_frozen_layer(_):
    import torch

    def change(init, this, params, **kwargs):
        params = list(params)
        init(this, params[1:], **kwargs)

    _around(torch.optim.AdamW, "__init__", change)


def clipping_left_out(_):
    import torch

    def change(clip, weights, max_norm, *args, **kwargs):
        return clip(weights, float("inf"), *args, **kwargs)

    _around(torch.nn.utils, "clip_grad_norm_", change)


def gradients_scaled(_):
    import torch

    def change(backward, loss, *args, **kwargs):
        return backward(loss, grad_tensors=torch.tensor(1.3))

    _around(torch.autograd, "backward", change)


def gradients_kept_now_and_then(_):
    import torch

    calls = []

    def change(zero_grad, this, set_to_none=True):
        calls.append(1)
        return None if len(calls) % 8 == 0 else zero_grad(this, set_to_none)

    _around(torch.optim.Optimizer, "zero_grad", change)


def last_batch_dropped(_):
    from torch.utils.data import DataLoader

    def change(init, this, *args, **kwargs):
        init(this, *args, **kwargs, drop_last=True)

    _around(DataLoader, "__init__", change)


def a_detached_branch(_):
    import torch

    def change(forward, this, x):
        return forward(this, x.detach() if this.out_features == 1 else x)

    _around(torch.nn.Linear, "forward", change)


def less_dropout(_):
    import torch

    def change(forward, this, x):
        return torch.nn.functional.dropout(x, this.p / 2, this.training)

    _around(torch.nn.Dropout, "forward", change)


def frozen_statistics(_):
    import torch

    def change(init, this, *args, **kwargs):
        init(this, *args, **kwargs)
        this.momentum = 0.0

    _around(torch.nn.BatchNorm1d, "__init__", change)


def gradients_of_half_the_batch(_):
    import torch

    def change(loss, x, y, **kwargs):
        half = len(x) // 2
        return loss(torch.cat([x[:half], x[half:].detach()]), y, **kwargs)

    _around(torch.nn.functional, "cross_entropy", change)


def schedule_a_step_ahead(_):
    import torch

    def change(init, this, *args, **kwargs):
        init(this, *args, **kwargs)
        this.step()

    _around(torch.optim.lr_scheduler.CosineAnnealingLR, "__init__", change)


UNSEEN = (
    clipping_left_out,
    frozen_statistics,
    gradients_scaled,
    gradients_kept_now_and_then,
    last_batch_dropped,
    a_detached_branch,
    less_dropout,
    gradients_of_half_the_batch,
    schedule_a_step_ahead,
)
"""The first losses are nearly those of the program."""
WRONG = (
    every_fourth_step_is_left_out,
    half_the_batch,
    summed_loss,
    gradients_pile_up,
    a_frozen_layer,
    stale_batches,
    shuffled_labels,
    evaluation_mode,
    half_the_learning_rate,
    weights_in_bf16,
)


def crash(_):
    raise RuntimeError("CUDA error: no kernel image is available")


def kill(_):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(_):
    time.sleep(600)


def out_of_memory(_):
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def nothing(_):
    pass
