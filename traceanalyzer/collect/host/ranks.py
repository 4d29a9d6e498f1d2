"""Which rank this process is, and the files that are its own."""

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

RANK_VARIABLES = (
    "RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
)  # of launchers: the first

SIZE_VARIABLES = (
    "WORLD_SIZE",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
)  # numbers of ranks

STEMS = (
    "trace",
    "light",
    "timings",
    "unprofiled",
    "memory",
)  # files that a process writes of its own steps


def current_rank() -> int:
    """The process's rank: torch.distributed's where it is initialised, else the launcher's, else
    0."""
    distributed = _initialised()
    return _of_launcher(RANK_VARIABLES, 0) if distributed is None else int(distributed.get_rank())


def several_ranks() -> bool:
    """Whether other ranks run beside this process, by the same sources."""
    distributed = _initialised()
    return (
        _of_launcher(SIZE_VARIABLES, 1)
        if distributed is None
        else int(distributed.get_world_size())
    ) > 1


def _initialised() -> ModuleType | None:
    distributed = sys.modules.get("torch.distributed")
    ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if ready else None


def _of_launcher(names: Sequence[str], otherwise: int) -> int:
    """The first of these variables that is a number."""
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdigit()), otherwise)


@functools.cache
def _claim(folder: Path, rank: int, pid: int) -> str:
    """The middle of this process's file names: the rank alone, unless another process has used
    it."""
    taken = any(True for stem in STEMS for _ in folder.glob(f"{stem}.rank{rank}.*"))
    return f"rank{rank}.pid{pid}" if taken else f"rank{rank}"


def own_file(folder: Path, stem: str, suffix: str, part: int = 1) -> Path:
    """`stem.rank{N}suffix` in the folder; a second process of the rank gets `.pid{P}` in the names
    of its files."""
    claimed = _claim(folder, current_rank(), os.getpid())
    return folder / f"{stem}.{claimed}{f'.part{part}' if part > 1 else ''}{suffix}"
