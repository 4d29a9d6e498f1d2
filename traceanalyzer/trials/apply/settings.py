"""Switches that are one setting of PyTorch's, or of Python's."""

import gc
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
