"""Switches that are one setting of PyTorch's, or of Python's."""

import functools
import gc
import inspect
from typing import Any

from traceanalyzer.trials.apply.wrap import before_first_call


def matmul_precision(value: Any) -> None:
    """Products of fp32 matrices by TF32."""
    import torch

    torch.set_float32_matmul_precision(value)
    torch.backends.cudnn.allow_tf32 = True


def cudnn_benchmark(_: Any) -> None:
    """cuDNN tries its algorithms for each new shape."""
    import torch

    torch.backends.cudnn.benchmark = True


def cudnn_attention(value: Any) -> None:
    """Whether scaled_dot_product_attention may use cuDNN."""
    import torch

    torch.backends.cuda.enable_cudnn_sdp(bool(value))


def flash_attention(_: Any) -> None:
    """The flash kernel alone, where it can; the written-out one elsewhere."""
    import torch

    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def keep_cache(_: Any) -> None:
    """`torch.cuda.empty_cache()` does nothing: freed memory stays PyTorch's."""
    import torch

    torch.cuda.empty_cache = lambda: None


def no_anomaly_detection(_: Any) -> None:
    """Autograd does not look for the operator behind a NaN."""
    import torch

    enable = torch.set_anomaly_enabled

    @functools.wraps(enable)
    def off(mode: bool, check_nan: bool = True) -> None:
        enable(False, False)

    torch.set_anomaly_enabled = off
    off(False)


def no_gradients(_: Any) -> None:
    """Nothing is kept for a backward pass."""
    import torch

    torch.set_grad_enabled(False)


def no_recompute(_: Any) -> None:
    """What `torch.utils.checkpoint` would compute again in backward is kept from forward."""
    from torch.utils import checkpoint as module

    own = set(inspect.signature(module.checkpoint).parameters) - {"function", "args", "kwargs"}
    # documented among `kwargs`, and not the function's
    own.add("preserve_rng_state")

    @functools.wraps(module.checkpoint)
    def kept(function: Any, *args: Any, **kwargs: Any) -> Any:
        passed = {name: value for name, value in kwargs.items() if name not in own}
        return function(*args, **passed)

    module.checkpoint = kept


def threads(value: Any) -> None:
    """Threads of operators on the CPU."""
    import torch

    torch.set_num_threads(int(value))


def freeze_garbage(_: Any) -> None:
    """What lives when training begins is left out of Python's collections from then on."""

    def freeze(module: Any) -> None:
        gc.collect()
        gc.freeze()

    before_first_call(freeze)
