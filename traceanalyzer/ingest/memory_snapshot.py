"""A CUDA memory snapshot beside a trace, as conditions: what PyTorch's allocator held, and at most while recorded.

The file is a pickle, which may run anything when it is read; here it may hold nothing but lists, dictionaries, numbers
and text, which is all that PyTorch writes
(https://docs.pytorch.org/docs/stable/torch_cuda_memory.html#snapshot-api-reference).
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn

from traceanalyzer.trace import Condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAX_BYTES = 256 << 20
"""Larger files are left to the viewer: read as a whole they take many times their size."""

_MIB = 1 << 20
_CHANGE = {"alloc": 1, "free_completed": -1}
"""Actions of the allocator's history that change how much is allocated."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} in a memory snapshot")


def memory_conditions(path: Path) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    """A condition for each GPU of a snapshot, and notes on what is wrong with the file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return (), (
                f"{path.name} is larger than {MAX_BYTES // _MIB} MiB and was not read; PyTorch's viewer shows it.",
            )
        with path.open("rb") as file:
            return tuple(_conditions(_PlainUnpickler(file).load())), ()
    # a pickle that is no snapshot can fail in any of these ways
    except (OSError, EOFError, pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError):
        return (), (f"{path.name} is not a CUDA memory snapshot that can be read safely: it was left out.",)


def _conditions(snapshot: dict[str, Any]) -> Iterator[Condition]:
    segments: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for segment in snapshot["segments"]:
        segments[segment["device"]].append(segment)
    for device, mine in sorted(segments.items()):
        reserved = sum(segment["total_size"] for segment in mine)
        allocated = sum(segment["allocated_size"] for segment in mine)
        said = f"{_mib(reserved)} reserved in {len(mine)} segments, {_mib(allocated)} allocated at the end"
        history = snapshot["device_traces"][device]
        if history:
            said += f", {_mib(_peak(allocated, history))} at most while recorded"
        yield Condition(f"GPU {device} allocator", said)


def _peak(allocated: int, history: Iterable[dict[str, Any]]) -> int:
    """Most bytes allocated at any time of the history, which ended with `allocated`."""
    changes = [_CHANGE.get(entry["action"], 0) * int(entry["size"]) for entry in history]
    return max(accumulate((-change for change in reversed(changes)), initial=allocated))


def _mib(size: int) -> str:
    return f"{size / _MIB:,.0f} MiB"
