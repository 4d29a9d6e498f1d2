"""Activation checkpointing of the block that repeats: what would be alive, replayed on the
lives."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.memory.categories import ACTIVATIONS, phase_of
from traceanalyzer.analysis.memory.lives import Allocations, Piece
from traceanalyzer.analysis.memory.phases import (
    CHECKPOINT_FILE,
    EVEN_SHARE,
    FORWARD,
    MODULE_FILE,
    HistoryTimeline,
    frames_of_python,
    line_of,
)
from traceanalyzer.trace import distinct
from traceanalyzer.trace.snapshot import I8, I16, I32, I64, Stack

MOST_NODES = 60  # module calls that are looked at, the ones with the most activations first
LEAST_BLOCKS = 2  # a module that runs once a step has no earlier block whose activations wait


class RepeatedModule(NamedTuple):
    """A module that runs several times a step. `lives` are its activations, `instance` the run each
    is of."""

    site: str
    lives: I64
    instance: I64
    instances_per_step: float
    bytes_per_step: float


def repeated_block(
    lives: Allocations, timeline: HistoryTimeline, categories: I8, stacks: Sequence[Stack]
) -> RepeatedModule | None:
    """The repeated module with the most activations; None where no module repeats."""
    n_steps = max(len(timeline.steps.ends), 1)
    if not lives.n_events:
        return None
    is_whole = (lives.born >= 0) & (lives.freed < lives.n_events)
    is_kept = (categories == ACTIVATIONS) & is_whole
    rows = np.flatnonzero(is_kept & (phase_of(lives, timeline) == FORWARD))
    if not len(rows):
        return None
    weight = np.bincount(lives.stack[rows], lives.size[rows]).tolist()
    nodes: dict[tuple[object, ...], set[int]] = {}
    for stack in dict.fromkeys(lives.stack[rows].tolist()):
        for node in _module_calls(stacks[stack]):
            nodes.setdefault(node, set()).add(stack)
    weights = {node: sum(weight[stack] for stack in nodes[node]) for node in nodes}
    heaviest = sorted(nodes, key=lambda node: -weights[node])[:MOST_NODES]
    found = [_block(node, nodes[node], lives, rows, n_steps) for node in heaviest]
    blocks = [block for block in found if block is not None]
    # all but one block's own are saved at most: its input is not yet taken off
    return max(
        blocks, key=lambda b: b.bytes_per_step * (1 - 1 / b.instances_per_step), default=None
    )


def _module_calls(stack: Stack) -> list[tuple[object, ...]]:
    """The module calls that a stack is inside of, each by its forward and where it is called
    from."""
    if any(CHECKPOINT_FILE.search(frame.file) for frame in stack):
        return []
    found = []
    python = frames_of_python(stack)
    for at, frame in enumerate(python[:-1]):
        outer = python[at + 1]
        if (
            frame.name != outer.name
            and outer.name == "_call_impl"
            and MODULE_FILE.search(outer.file)
        ):
            found.append((frame.file, frame.name, *python[at + 1 :]))
    return found


def _block(
    node: tuple[object, ...], members: set[int], lives: Allocations, rows: I64, n_steps: int
) -> RepeatedModule | None:
    """The block of a node: its runs lie one after another, each with nearly the same
    allocations."""
    members_of = rows[np.isin(lives.stack[rows], list(members))]
    members_of = members_of[np.argsort(lives.born[members_of], kind="stable")]
    found, counts = np.unique(lives.stack[members_of], return_counts=True)
    if (counts < LEAST_BLOCKS * n_steps).any():
        return None  # it holds what repeats, and more: the blocks are inside
    place = np.searchsorted(found, lives.stack[members_of])
    weight = np.bincount(place, lives.size[members_of]).astype(np.float64)
    blocks = _number_of_blocks(counts, weight, LEAST_BLOCKS * n_steps)
    if (counts < blocks / 2).any():
        # it holds what comes in few of the blocks: embeddings, norms and heads around them
        return None
    if (counts % blocks).any():
        instance = _instances(lives, members_of, found[counts % blocks == 0], blocks)
    else:
        instance = np.arange(len(members_of)) // (len(members_of) // blocks)
    site = line_of(str(node[0]), 0, str(node[1])).replace(":0", "")
    return RepeatedModule(
        site, members_of, instance, blocks / n_steps, float(lives.size[members_of].sum()) / n_steps
    )


def _number_of_blocks(counts: I64, weight: NDArray[np.float64], least: int) -> int:
    """The most runs with nearly all bytes of stacks equally often in each: the first or last block
    may lack some."""
    tried = distinct(np.append(counts, np.gcd.reduce(counts)))
    for blocks in tried[tried >= least][::-1].tolist():
        if weight[counts % blocks == 0].sum() >= EVEN_SHARE * weight.sum():
            return int(blocks)
    return int(counts.min())


def _instances(lives: Allocations, chosen: I64, even: I32 | I16, blocks: int) -> I64:
    """The block that each life is of, from the stacks that come equally often in all of them.

    What lies between the last of these in one block and the first of them in the next is of the one
    after, if such comes before the first block and not after the last one; else of the one
    before."""
    born = lives.born[chosen]
    starts = ends = np.empty(0, np.int64)
    for stack in even.tolist():
        rows = born[lives.stack[chosen] == stack]
        each = len(rows) // blocks
        first = rows[::each]
        last = rows[each - 1 :: each]
        starts = first if not len(starts) or first[0] < starts[0] else starts
        ends = last if not len(ends) or last[0] > ends[0] else ends
    if born[0] < starts[0] and born[-1] <= ends[-1]:
        return np.searchsorted(ends, born)
    return np.maximum(np.searchsorted(starts, born, side="right") - 1, 0)


def checkpointed(lives: Allocations, block: RepeatedModule) -> tuple[Piece, Piece]:
    """Pieces of the lives if each run of the block kept its output alone and made the rest again in
    the backward."""
    n = int(block.instance.max()) + 1
    born = lives.born[block.lives]
    freed = lives.freed[block.lives]
    last_born = np.full(n, -1, np.int64)
    np.maximum.at(last_born, block.instance, born)
    first_freed = np.full(n, lives.n_events, np.int64)
    after = freed > last_born[block.instance]
    np.minimum.at(first_freed, block.instance[after], freed[after])
    is_output = born == last_born[block.instance]
    again = np.maximum(first_freed[block.instance] - 1, last_born[block.instance] + 1)
    moves = ~is_output & after & (again < freed)
    moved = block.lives[moves]
    ends = lives.freed.copy()
    ends[moved] = last_born[block.instance[moves]] + 1
    recomputed = (again[moves], lives.freed[moved], lives.size[moved])
    return (lives.born, ends, lives.size), recomputed
