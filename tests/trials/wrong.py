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


def zeroed_outputs(_):
    import torch

    _around(torch.nn.Sequential, "forward", lambda forward, this, x: forward(this, x) * 0)


def no_activation(_):
    import torch

    torch.nn.ReLU.forward = lambda this, x: x


def a_frozen_layer(_):
    import torch

    def change(init, this, params, **kwargs):
        params = list(params)
        init(this, params[1:], **kwargs)

    _around(torch.optim.AdamW, "__init__", change)


def other_data(_):
    import torch

    def change(randn, *size, **kwargs):
        return randn(*size, **kwargs) * 1.5

    _around(torch, "randn", change)


def a_loss_that_is_no_number(_):
    import torch

    def change(loss, x, y, **kwargs):
        return loss(x, y, **kwargs) * float("nan")

    _around(torch.nn.functional, "cross_entropy", change)


WRONG = (
    half_the_learning_rate,
    every_fourth_step_is_left_out,
    half_the_batch,
    summed_loss,
    gradients_pile_up,
    zeroed_outputs,
    no_activation,
    a_frozen_layer,
    other_data,
    a_loss_that_is_no_number,
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
