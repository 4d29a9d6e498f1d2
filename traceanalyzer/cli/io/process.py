"""How the process of a command is set up: the allocator keeps what is freed, and numpy starts no
threads for linear algebra: products here are small, and each thread waits for work at a tenth of a
second of a core."""

import os
import sys
from contextlib import suppress
from importlib import import_module

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
M_ARENA_MAX = -8
"""Settings of glibc's allocator, by their numbers."""
NEVER_TRIM = 2**31 - 1


def keep_freed_memory() -> None:
    """Have arrays that are let go kept for the next ones instead of being handed to the system,
    which clears all memory that it hands out: of a recording of gigabytes a third of the time went
    there. For processes that end with their command. Without effect where the C library has no such
    setting."""
    import ctypes

    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, NEVER_TRIM)
        library.mallopt(M_ARENA_MAX, 1)  # what a thread frees is there for all others


def load_numpy() -> None:
    """Load it so, unless it is there or the user has said how many threads there are to be. The
    environment stays as it is: programs that commands run are to have their threads."""
    if "numpy" in sys.modules:
        return
    new = {} if "OPENBLAS_NUM_THREADS" in os.environ else {"OPENBLAS_NUM_THREADS": "1"}
    os.environ.update(new)
    try:
        import_module("numpy")
    finally:
        for name in new:
            del os.environ[name]
