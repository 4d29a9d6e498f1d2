"""Tiles of matrix kernels, from their names: a product of few rows reads its weights for little arithmetic."""

import re

FEW_ROWS = 32
"""A tile this narrow does at most 32 multiply-adds for each weight that it reads: a few tens of FLOP a byte in 16 bits,
where tensor cores take hundreds of FLOP a byte to be the limit."""

_TILE = re.compile(r"(?<![\d.])(?<!bf)(?<!f)(\d{1,3})x(\d{1,3})(?!\d)")
_ORDINARY_CORES = re.compile(r"sgemm|dgemm|simt|f64|fp64|ffma", re.IGNORECASE)
"""Products on the ordinary cores are limited by arithmetic from a few rows on."""


def streams_weights(kernel: str) -> bool:
    """Whether a matrix kernel's tile is so narrow that memory limits it on any GPU."""
    if _ORDINARY_CORES.search(kernel):
        return False
    tile = _TILE.search(kernel)
    return tile is not None and min(int(tile[1]), int(tile[2])) <= FEW_ROWS
