"""Time steps of recurrent layers, told by the cells' own kernels where no operators were recorded.

In the forward pass products alone stand between two cells: what goes on from its own output has
other kernels there, and cannot be one call. In the backward pass a cell's kernel is followed by
what it gives rise to."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.patterns.repeats import split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, Bool

CELL_FORWARD = regex(r"\b(lstm|gru)_cell_forward\b")
CELL_BACKWARD = regex(r"\b(lstm|gru)_cell_backward\b")
OF_BACKWARD = ("gemm", "elementwise", "reduction", "layout", "memset")
"""Classes of kernels that a cell's backward pass has: products, and sums of their results."""
FEWEST_IN_A_ROW = 4  # as many cells follow each other at least, or they are no sequence
MOST_OF_A_CELL = 40  # ops of a time step at most


class CellKernels(NamedTuple):
    """The time steps of recurrent layers on a tape."""

    cell: I32  # for each op the op that is its forward cell, -1 without
    backward: Bool  # which ops are of the backward pass of cells


def cell_kernels(tape: Tape) -> CellKernels:
    """The cells of a tape whose recording has no operators."""
    cell = np.full(len(tape.row), -1, np.int32)
    products = tape.of_classes("gemm", "memset")
    others = np.cumsum(~products)
    cells = np.flatnonzero(kernels_named(tape, CELL_FORWARD))
    step = tape.step_of_op
    apart = (np.diff(others[cells]) > 1) | (np.diff(step[cells]) != 0)
    for run in split_where(cells, apart):
        if len(run) < FEWEST_IN_A_ROW:
            continue
        length = int(np.median(np.diff(run)))
        first = max(int(run[0]) - length + 1, 0)
        within = np.arange(first, int(run[-1]) + 1)
        within = within[products[within] | np.isin(within, run)]
        cell[within] = run[np.searchsorted(run, within)]
    return CellKernels(cell, _backward(tape) if (cell >= 0).any() else np.zeros(len(cell), bool))


def _backward(tape: Tape) -> Bool:
    """Which ops follow a cell's backward kernel as its own do."""
    result = np.zeros(len(tape.row), bool)
    begins = np.flatnonzero(kernels_named(tape, CELL_BACKWARD))
    if len(begins) < FEWEST_IN_A_ROW:
        return result
    usual = int(min(np.median(np.diff(begins)), MOST_OF_A_CELL))
    own = tape.of_classes(*OF_BACKWARD)
    step = tape.step_of_op
    for begin, end in zip(begins, np.append(begins[1:], len(own)), strict=True):
        following = slice(int(begin) + 1, min(int(end), int(begin) + usual))
        goes_on = own[following] & (step[following] == step[begin])
        result[begin] = True
        result[following] = np.logical_and.accumulate(goes_on)
    return result
