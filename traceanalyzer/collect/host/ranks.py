"""Which rank this process is, and the files that are its own."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""torchrun, Slurm, Open MPI, MPICH: the first that is set."""

SIZE_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""The same launchers' number of ranks."""

STEMS = ("trace", "light", "timings", "unprofiled", "memory")
"""Files that a process writes of its own steps."""


def current_rank() -> int:
    """The process's rank: torch.distributed's where it is initialised, else the launcher's, else 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    for name in RANK_VARIABLES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def several_ranks() -> bool:
    """Whether other ranks run beside this process."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return bool(distributed.get_world_size() > 1)
    sizes = (os.environ.get(name, "") for name in SIZE_VARIABLES)
    return next((int(size) for size in sizes if size.isdigit()), 1) > 1


@functools.cache
def _claim(folder: Path, rank: int, pid: int) -> str:
    """The middle of this process's file names: the rank alone, unless another process has used it."""
    taken = any(True for stem in STEMS for _ in folder.glob(f"{stem}.rank{rank}.*"))
    return f"rank{rank}.pid{pid}" if taken else f"rank{rank}"


def own_file(folder: Path, stem: str, suffix: str, part: int = 1) -> Path:
    """`stem.rank{N}suffix` in the folder; a second process of the rank gets `.pid{P}` in the names of its files."""
    claimed = _claim(folder, current_rank(), os.getpid())
    return folder / f"{stem}.{claimed}{f'.part{part}' if part > 1 else ''}{suffix}"
