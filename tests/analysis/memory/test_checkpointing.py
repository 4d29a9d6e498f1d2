"""How often the block runs that is checkpointed, from how often its lines allocate."""

from __future__ import annotations

import numpy as np
import pytest

from traceanalyzer.analysis.memory.checkpointing import _number_of_blocks


@pytest.mark.parametrize(
    ("counts", "weight", "blocks"),
    [
        ([8, 8, 16], [4, 3, 2], 8),
        ([16, 16, 32], [4, 3, 2], 16),
        ([22, 8, 32, 24], [0.6, 4, 3, 3], 8),  # the first block's norm keeps one tensor of three: no gradient before it
        ([8, 8, 2], [4, 3, 0.1], 8),  # and the norm after the blocks keeps its statistics
        ([12, 18], [1, 1], 6),
    ],
)
def test_the_number_of_blocks(counts: list[int], weight: list[float], blocks: int) -> None:
    assert _number_of_blocks(np.array(counts), np.array(weight), 2) == blocks
