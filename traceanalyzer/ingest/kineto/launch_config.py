"""How kernels are launched, as newer recordings state it: what limits their occupancy, and Triton's own options.

Each distinct text is looked at once; what has another form than expected counts as not recorded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from traceanalyzer.ingest.kineto.events import Args
from traceanalyzer.trace import OccupancyLimit

FACTORS = {
    "WARPS": OccupancyLimit.WARPS,
    "REGS": OccupancyLimit.REGISTERS,
    "SMEM": OccupancyLimit.SHARED_MEMORY,
    "BLOCKS": OccupancyLimit.BLOCKS,
    "BARRIERS": OccupancyLimit.BARRIERS,
}
"""Kineto's names, joined by `|` where several resources reach their limit at once."""
MOST_BLOCKS = 1024
"""No SM holds as many."""
MOST_DISTINCT = 100_000
"""Of more, damage is to be feared rather than kernels: the rest is not kept."""
LONGEST_OPTIONS = 200
_NUMBER = re.compile(rb"\d{1,4}")


class _Limits(Struct, gc=False):
    """The dictionary of a kernel's occupancy."""

    blocks: int = msgspec.field(default=-1, name="activeBlocksPerMultiprocessor")
    factors: str = msgspec.field(default="", name="limitingFactors")


_DECODER = msgspec.json.Decoder(_Limits)


class Occupancy(NamedTuple):
    """Blocks that an SM holds at a time (-1 unknown) and what keeps more from it (0 unknown)."""

    blocks: int
    limits: int


NOT_RECORDED = Occupancy(-1, 0)


class Occupancies(dict[bytes, Occupancy]):
    """Occupancy by its JSON text."""

    def __missing__(self, text: bytes) -> Occupancy:
        found = NOT_RECORDED
        if text:
            try:
                read = _DECODER.decode(text)
            except (msgspec.DecodeError, ValueError):
                read = _Limits()
            flags = sum(FACTORS.get(one.strip(), 0) for one in set(read.factors.split("|")))
            found = Occupancy(read.blocks if 0 <= read.blocks <= MOST_BLOCKS else -1, int(flags))
        if len(self) < MOST_DISTINCT:
            self[text] = found
        return found


def launch_options(a: Args) -> str:
    """`XBLOCK=16, 4 warps, 1 stage`; empty where nothing is stated."""
    parts = [_text(a.kernel_options), _counted(a.warps, "warp"), _counted(a.stages, "stage")]
    return ", ".join(part for part in parts if part)


def _text(raw: Raw) -> str:
    text = bytes(raw).decode("utf-8", "replace").strip('"')
    return ", ".join(text.split(",")) if len(text) <= LONGEST_OPTIONS and text not in ("null", "{}", "[]") else ""


def _counted(raw: Raw, what: str) -> str:
    found = _NUMBER.fullmatch(bytes(raw).strip(b'"'))
    return "" if found is None else f"{int(found[0])} {what}{'' if int(found[0]) == 1 else 's'}"
