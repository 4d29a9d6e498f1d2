"""Kernels and copies of XLA's recordings: how they were launched, as text of one stat each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from traceanalyzer.ingest.kineto.names import copy_kind
from traceanalyzer.trace import I64, CopyKind, MemoryKind
from traceanalyzer.trace.distinct import ranked

_Read = Callable[[dict[str, str]], dict[str, int]]
_DETAIL = re.compile(r"\b(\w{1,40}):([\w,.]{1,60})")
MOST_REGISTERS = 512
"""Of a thread: AMD's have as many, NVIDIA's half. ROCm's recorder has written addresses in their place."""
MOST_BLOCKS = 2**62
_LONGEST = 19
"""Digits of a number that 64 bits hold, and one more."""
_MEMORY = {
    "pageable": MemoryKind.PAGEABLE,
    "pinned": MemoryKind.PINNED,
    "device": MemoryKind.DEVICE,
    "device_static": MemoryKind.DEVICE,
    "array": MemoryKind.ARRAY,
    "managed": MemoryKind.MANAGED,
    "managed_static": MemoryKind.MANAGED,
}


def kernel_columns(codes: I64, strings: list[str]) -> dict[str, I64]:
    """Launch configuration from `kernel_details` (codes); -1 where it is not recorded."""
    return _columns(codes, strings, _kernel, ("blocks", "threads", "registers", "shared_bytes", "occupancy"), -1)


def copy_columns(codes: I64, names: I64, strings: list[str]) -> dict[str, I64]:
    """Size and ends from `memcpy_details` or `memset_details` (codes); the direction from the names of the copies."""
    columns = _columns(codes, strings, _copy, ("bytes", "source_memory", "target_memory"), 0)
    columns["bytes"] = np.where(codes < 0, -1, columns["bytes"])
    known, place = ranked(names)
    kinds = [copy_kind(strings[code]) if code >= 0 else CopyKind.UNKNOWN for code in known.tolist()]
    columns["copy_kind"] = np.where(codes < 0, 0, np.array(kinds, np.int64)[place])
    return columns


def _columns(codes: I64, strings: list[str], read: _Read, names: tuple[str, ...], fill: int) -> dict[str, I64]:
    """A column a name; each distinct text is read once."""
    known, place = ranked(codes)
    rows = [read(dict(_DETAIL.findall(strings[code]))) if code >= 0 else {} for code in known.tolist()]
    return {name: np.array([row.get(name, fill) for row in rows], np.int64)[place] for name in names}


def _kernel(details: dict[str, str]) -> dict[str, int]:
    registers = _whole(details.get("regs"))
    found = {"blocks": _product(details.get("grid")), "threads": _product(details.get("block"))}
    if registers > MOST_REGISTERS:  # the sizes of shared memory beside it are of the same damaged record
        return found
    shared = [
        size for name in ("static_shared", "dynamic_shared", "group_mem") if (size := _whole(details.get(name))) >= 0
    ]
    occupancy = details.get("occ_pct", "").partition(".")[0]
    return {
        **found,
        "registers": registers or -1,
        "shared_bytes": sum(shared) if shared else -1,
        "occupancy": _whole(occupancy) or -1,
    }


def _copy(details: dict[str, str]) -> dict[str, int]:
    return {
        "bytes": _whole(details.get("size")),
        "source_memory": _MEMORY.get(details.get("kind_src", "").lower(), MemoryKind.UNKNOWN),
        "target_memory": _MEMORY.get(details.get("kind_dst", "").lower(), MemoryKind.UNKNOWN),
    }


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < _LONGEST else -1


def _product(text: str | None) -> int:
    sizes = [_whole(part) for part in (text or "").split(",")]
    size = math.prod(sizes)
    return size if min(sizes) >= 0 and size <= MOST_BLOCKS else -1
