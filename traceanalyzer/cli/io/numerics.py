"""numpy without the threads of its linear algebra: products here are small, and each thread waits for work at a tenth
of a second of a core."""

from __future__ import annotations

import os
import sys
from importlib import import_module

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


def load_numpy() -> None:
    """Load it so, unless it is there or the user has said how many threads there are to be. The environment stays as it
    is: programs that commands run are to have their threads."""
    if "numpy" in sys.modules:
        return
    new = {name: value for name, value in ONE_THREAD.items() if name not in os.environ}
    os.environ.update(new)
    try:
        import_module("numpy")
    finally:
        for name in new:
            del os.environ[name]
