"""The message of an allocation that failed: PyTorch's `OutOfMemoryError` on CUDA and HIP, JAX's
`RESOURCE_EXHAUSTED`, TensorFlow's `OOM when allocating tensor`, CUDA's own `out of memory`."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.texts.figures import SIZE, size_of, sized
from traceanalyzer.trace import PastedText

_ASKED = regex(
    rf"(?:Tried to allocate|trying to allocate|failed to allocate(?: request for)?) {SIZE}", re.I
)
_TENSOR = regex(r"OOM when allocating tensor with shape\s?\[([\d,]{1,200})\] and type (\w{1,20})")
_FREE = regex(rf"of which {SIZE} is free|{SIZE} free[;,.]", re.I)
_TOTAL = regex(rf"total capac(?:i?ty) of {SIZE}|{SIZE} total capacity", re.I)
_ALLOCATED = regex(rf"{SIZE} is allocated by PyTorch|{SIZE} already allocated", re.I)
_UNUSED = regex(rf"{SIZE} is reserved by PyTorch but unallocated", re.I)
_RESERVED = regex(rf"{SIZE} reserved in total", re.I)
_OTHER = regex(rf"(?<!this )\bProcess \d{{1,18}} has {SIZE} memory in use", re.I)
_THIS = regex(rf"this process has {SIZE} memory in use", re.I)
_BARE = regex(r"(?:CUDA|HIP) error: out of memory|cudaErrorMemoryAllocation|hipErrorOutOfMemory")
_MESSAGE = regex(r"OutOfMemoryError|out of memory|RESOURCE_EXHAUSTED|ResourceExhaustedError", re.I)
_BYTES_OF = {
    **dict.fromkeys(("double", "float64", "int64", "complex64"), 8),
    **dict.fromkeys(("float", "float32", "int32"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
"""Bytes of an element, as TensorFlow names types."""
MUCH_SHARE = 0.05
"""Memory of other processes above this share of the GPU is worth a word: a context takes 0.5 GiB."""
FRAGMENTED_SHARE = 0.05
"""Of what PyTorch holds, so much has to lie unused before the cache is to blame: a full GPU has some."""
OWN_SHARE = 0.75
"""In a container the process does not know its own number and lists itself as another: that one uses
little more than what PyTorch holds, and the GPU has no room for both."""
_PYTORCH = (
    "To see what is allocated at the peak: `traceanalyzer collect torch --memory-snapshot -- python "
    "train.py`, or torch.cuda.memory._record_memory_history() before the run and "
    "torch.cuda.memory._dump_snapshot() after the error."
)
_JAX = (
    "To see what is allocated: jax.profiler.save_device_memory_profile() shortly before the error, or "
    "the buffers that XLA lists below it; XLA takes 75 % of the GPU at the start "
    "(XLA_PYTHON_CLIENT_MEM_FRACTION)."
)
_TENSORFLOW = (
    "To see what is allocated: the list of chunks that the allocator prints above the error, or the "
    "memory profile of TensorBoard's profiler."
)


@dataclass(frozen=True)
class _Message:
    """What a message says, bytes; None for what it does not say."""

    asked: float | None
    free: float | None
    total: float | None
    allocated: float | None
    unused: float | None
    own: float | None  # of this process, also what PyTorch does not know of
    others: float
    setting: str  # the environment variable of the allocator


def recognise(text: str) -> bool:
    """Whether a text has such a message."""
    if _BARE.search(text) or _TENSOR.search(text):
        return True
    return _MESSAGE.search(text) is not None and _ASKED.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """What the last such message says."""
    message = _last(text)
    if message is None:
        return None
    parts = [f"{sized(message.asked)} were asked for"] if message.asked is not None else []
    if message.free is not None:
        of_total = f" of {sized(message.total)}" if message.total else ""
        parts.append(f"{sized(message.free)}{of_total} were free")
    sizes = f"{', '.join(parts)}. " if parts else ""
    return PastedText(
        what="The message of an allocation that found no memory",
        tells=f"{sizes}{_why(message)}",
        record=_record(text),
        notes=tuple(_notes(message)),
    )


def _last(text: str) -> _Message | None:
    matches = list(_ASKED.finditer(text))
    tensors = list(_TENSOR.finditer(text))
    if not matches and not tensors and not _BARE.search(text):
        return None
    asked = _of_tensor(tensors[-1]) if tensors else None
    if matches:
        asked = size_of(matches[-1][1], matches[-1][2])
    at = matches[-1].end() if matches else 0
    message = text[at : at + 4_000]
    allocated = _size(_ALLOCATED, message)
    unused = _unused(message, allocated)
    held = (allocated or 0.0) + (unused or 0.0)
    free = _size(_FREE, message)
    total = _size(_TOTAL, message)
    own = _size(_THIS, message)
    others = [size_of(*size) for size in _OTHER.findall(message)]
    if own is None and _is_own(others, held, (total or math.inf) - (free or 0.0)):
        own = others.pop()
    return _Message(
        asked=asked,
        free=free,
        total=total,
        allocated=allocated,
        unused=unused,
        own=own,
        others=sum(others),
        setting="PYTORCH_HIP_ALLOC_CONF" if "HIP" in text else "PYTORCH_CUDA_ALLOC_CONF",
    )


def _unused(message: str, allocated: float | None) -> float | None:
    """What PyTorch holds and no tensor uses."""
    unused = _size(_UNUSED, message)
    reserved = _size(_RESERVED, message)
    if unused is None and reserved is not None and allocated is not None:
        return max(reserved - allocated, 0.0)
    return unused


def _is_own(others: Sequence[float], held: float, in_use: float) -> bool:
    """Whether the one other process that a message lists is this one itself."""
    return len(others) == 1 and held >= max(OWN_SHARE * others[0], in_use - others[0])


def _of_tensor(found: re.Match[str]) -> float | None:
    """Bytes of a tensor by its shape and type."""
    each = _BYTES_OF.get(found[2])
    sizes = [int(size) for size in found[1].split(",") if size]
    return None if each is None else float(math.prod(sizes) * each)


def _why(message: _Message) -> str:
    """Why it failed."""
    allocated = message.allocated
    unused = message.unused
    held = (allocated or 0.0) + (unused or 0.0)
    asked = message.asked or math.inf
    if unused is not None and unused >= max(asked, FRAGMENTED_SHARE * held):
        return (
            f"PyTorch holds {sized(unused)} that nothing uses: its free blocks are too small "
            f"(fragmentation). {message.setting}=expandable_segments:True mends most of it."
        )
    if message.total and message.others > MUCH_SHARE * message.total:
        return (
            f"Other processes hold {sized(message.others)} of the GPU: end them, or take another "
            "GPU."
        )
    if allocated is not None:
        return f"Tensors take {sized(allocated)}: the program needs less at a time."
    return "Why it was full, the message does not say."


def _record(text: str) -> str:
    if "RESOURCE_EXHAUSTED" in text or "jaxlib" in text:
        return _JAX
    is_tensorflow = "tensorflow" in text or _TENSOR.search(text) is not None
    return _TENSORFLOW if is_tensorflow else _PYTORCH


def _notes(message: _Message) -> list[str]:
    notes = []
    if message.own is not None and message.total:
        share = message.own / message.total
        notes.append(f"This process uses {sized(message.own)}, {share:.0%} of the GPU.")
    if message.unused is not None:
        notes.append(f"Reserved by PyTorch and not in use: {sized(message.unused)}.")
    return notes


def _size(pattern: re.Pattern[str], message: str) -> float | None:
    found = pattern.search(message)
    if found is None:
        return None
    groups = [group for group in found.groups() if group is not None]
    return size_of(groups[0], groups[1])
