"""Which rank this process is, and the files that are its own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""torchrun, Slurm, Open MPI, MPICH: the first that is set."""


def current_rank() -> int:
    """The process's rank: torch.distributed's where it is initialised, else the launcher's, else 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    for name in RANK_VARIABLES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def own_file(folder: Path, stem: str, suffix: str, part: int = 1) -> Path:
    """`stem.rank{N}suffix` in the folder; another process's file of that name is left alone."""
    name = f"{stem}.rank{current_rank()}" + (f".part{part}" if part > 1 else "")
    path = folder / f"{name}{suffix}"
    return folder / f"{name}.pid{os.getpid()}{suffix}" if path.exists() else path
