"""The message of an allocation that failed (PyTorch's `OutOfMemoryError`, JAX's
`RESOURCE_EXHAUSTED`)."""

import re
from pathlib import Path

from traceanalyzer.ingest.texts.figures import SIZE, size_of, sized
from traceanalyzer.trace import Told

_ASKED = re.compile(rf"(?:Tried to allocate|trying to allocate|failed to allocate) {SIZE}", re.I)
_FREE = re.compile(rf"of which {SIZE} is free|{SIZE} free[;,.]", re.I)
_TOTAL = re.compile(rf"total capac(?:i?ty) of {SIZE}|{SIZE} total capacity", re.I)
_ALLOCATED = re.compile(rf"{SIZE} is allocated by PyTorch|{SIZE} already allocated", re.I)
_UNUSED = re.compile(rf"{SIZE} is reserved by PyTorch but unallocated", re.I)
_RESERVED = re.compile(rf"{SIZE} reserved in total", re.I)
_OTHER = re.compile(rf"(?<!this )\bProcess \d{{1,18}} has {SIZE} memory in use", re.I)
_THIS = re.compile(rf"this process has {SIZE} memory in use", re.I)
_MESSAGE = re.compile(r"OutOfMemoryError|out of memory|RESOURCE_EXHAUSTED", re.I)
MUCH_SHARE = 0.05
"""Memory of other processes above this share of the GPU is worth a word: a context takes 0.5 GiB."""
RECORD = (
    "To see what is allocated at the peak: `traceanalyzer collect torch --memory-snapshot -- python "
    "train.py`, or torch.cuda.memory._record_memory_history() before the run and "
    "torch.cuda.memory._dump_snapshot() after the error."
)


def holds(text: str) -> bool:
    """Whether a text has such a message."""
    return _MESSAGE.search(text) is not None and _ASKED.search(text) is not None


def told(text: str, path: Path) -> Told | None:
    """What the last such message says."""
    asked = None
    at = 0
    for found in _ASKED.finditer(text):
        asked = size_of(found[1], found[2])
        at = found.end()
    if asked is None:
        return None
    message = text[at : at + 4_000]
    free = _size(_FREE, message)
    total = _size(_TOTAL, message)
    parts = [f"{sized(asked)} were asked for"]
    if free is not None:
        of_total = f" of {sized(total)}" if total else ""
        parts.append(f"{sized(free)}{of_total} were free")
    return Told(
        what="The message of an allocation that found no memory",
        tells=f"{', '.join(parts)}. {_why(message, asked, total)}".strip(),
        record=RECORD,
        notes=tuple(_notes(message, total)),
    )


def _why(message: str, asked: float, total: float | None) -> str:
    """Why it failed."""
    allocated = _size(_ALLOCATED, message)
    reserved = _size(_RESERVED, message)
    unused = _size(_UNUSED, message)
    if unused is None and reserved is not None and allocated is not None:
        unused = max(reserved - allocated, 0.0)
    if unused is not None and unused >= asked:
        return (
            f"PyTorch holds {sized(unused)} that nothing uses: its free blocks are too small "
            "(fragmentation). PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True mends most of it."
        )
    others = sum(size_of(*found) for found in _OTHER.findall(message))
    if total and others > MUCH_SHARE * total:
        return f"Other processes hold {sized(others)} of the GPU: end them, or take another GPU."
    if allocated is not None:
        return f"Tensors take {sized(allocated)}: the program needs less at a time."
    return "Why it was full, the message does not say."


def _notes(message: str, total: float | None) -> list[str]:
    used = _size(_THIS, message)
    unused = _size(_UNUSED, message)
    notes = []
    if used is not None and total:
        notes.append(f"This process uses {sized(used)}, {used / total:.0%} of the GPU.")
    if unused is not None:
        notes.append(f"Reserved by PyTorch and not in use: {sized(unused)}.")
    return notes


def _size(pattern: re.Pattern[str], message: str) -> float | None:
    found = pattern.search(message)
    if found is None:
        return None
    groups = [group for group in found.groups() if group is not None]
    return size_of(groups[0], groups[1])
