"""What names mean: API calls, collectives, kernels. Text in, vocabulary out. This file is loaded
without numpy."""

import enum


class Framework(enum.Enum):
    """What a program is written in, as far as advice depends on it."""

    PYTORCH = "PyTorch"
    JAX = "JAX"
    CUDA = "CUDA"  # no framework to be seen: CUDA's own words
