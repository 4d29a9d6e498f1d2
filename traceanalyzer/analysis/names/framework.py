"""What a program is written in. It imports nothing, so that `--help` does not load numpy."""

import enum


class Framework(enum.Enum):
    """What a program is written in, as far as advice depends on it."""

    PYTORCH = "PyTorch"
    JAX = "JAX"
    CUDA = "CUDA"
    """No framework to be seen: CUDA's own words."""
