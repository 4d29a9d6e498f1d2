"""How often the block runs that is checkpointed, from how often its lines allocate."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from traceanalyzer.analysis.memory.checkpointing import _instances, _module_calls, _number_of_blocks


@pytest.mark.parametrize(
    ("counts", "weight", "blocks"),
    [
        ([8, 8, 16], [4, 3, 2], 8),
        ([16, 16, 32], [4, 3, 2], 16),
        (
            [22, 8, 32, 24],
            [0.6, 4, 3, 3],
            8,
        ),  # the first block's norm keeps one tensor of three: no gradient before it
        ([8, 8, 2], [4, 3, 0.1], 8),  # and the norm after the blocks keeps its statistics
        ([12, 18], [1, 1], 6),
    ],
)
def test_the_number_of_blocks(counts: list[int], weight: list[float], blocks: int) -> None:
    assert _number_of_blocks(np.array(counts), np.array(weight), 2) == blocks


@pytest.mark.parametrize(
    ("stacks", "instances"),
    [
        (
            [1, 2, 2, 1, 2, 2],
            [0, 0, 0, 1, 1, 1],
        ),  # what follows the stack of all blocks is of the block it begins
        ([2, 1, 2, 1], [0, 0, 1, 1]),  # what comes before it, of the one it ends
        (
            [2, 1, 2, 1, 2],
            [0, 0, 0, 1, 1],
        ),  # before the first and after the last: it begins a block
    ],
)
def test_the_block_of_each_allocation(stacks: list[int], instances: list[int]) -> None:
    """Stack 1 allocates one time in each of two blocks, stack 2 as often as it likes."""
    lives = SimpleNamespace(born=np.arange(len(stacks)), stack=np.array(stacks))
    assert _instances(lives, np.arange(len(stacks)), np.array([1]), 2).tolist() == instances


def test_what_is_checkpointed_already_is_in_no_block() -> None:
    forward = SimpleNamespace(file="model.py", name="forward")
    call = SimpleNamespace(file="/torch/nn/modules/module.py", name="_call_impl")
    checkpoint = SimpleNamespace(file="/torch/utils/checkpoint.py", name="checkpoint")
    assert _module_calls((forward, call)) == [("model.py", "forward", call)]
    assert _module_calls((forward, call, checkpoint)) == []
