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
