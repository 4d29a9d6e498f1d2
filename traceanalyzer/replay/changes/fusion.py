"""Fewer passes: runs of kernels that work on the same data as one kernel each.

A fused kernel moves what its run reads from outside and leaves (`crossing`), at the best rate that
any of them reached, and still has all of their arithmetic to issue. A reduction's row is read once
more, mostly from cache."""

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.groups.passes import (
    ASIDE,
    bytes_written,
    crossing,
    largest_operands,
    split_by_size,
)
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.patterns.growing_joins import growing_joins
from traceanalyzer.replay.patterns.named import kernels_named, launched_within
from traceanalyzer.replay.patterns.repeats import period_of, split_where
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I32, I64, Bool

ELEMENTWISE = ("elementwise",)
REDUCING = (
    "normalisation",
    "softmax",
    "reduction",
    "loss",
)  # those that need all of a row before they can go on
WRITTEN_OUT = ("elementwise", "reduction", "layout", "fill")
"""Kernels of operators that do one small thing each: norms, softmax, losses and dropout of a
library are whole."""
COMPILED = regex(r"^triton_")  # kernels of torch.compile: what could be merged has been
RANDOM_NUMBERS = regex(r"\bdistribution_(elementwise|nullary)_")
"""Random numbers that a program draws (not dropout): some 60 instructions each, as many in a fused
kernel. Merged into what follows a step of 80 draws was promised at 0.36 ms compiled, of which the
draws alone took 0.99, and took 3.04."""
REREAD_SHARE = 0.75
"""Share of a reduction's time that is left in a fused kernel: its row is read once more, from cache
(half of the time) where it fits, else from memory (all of it)."""
REREAD_OF_LONGEST = 0.5
"""Share that is left where the reduction takes longest in its run: what it moves is what the run
moves (a compiled network of norms over channels gained 20.5 % of its step; with 0.5 19.0 % is
promised, with nothing 25.8 %)."""
SLOTS_PER_OPERATION = 2.2
"""Issue slots that one elementwise operation takes for an element in a fused kernel, where loads,
stores and indices are shared; a GELU of 54 of them and 6 tanh was measured at 207 on two GPUs."""
FUNCTION = regex(r"^aten::_?(a?(sin|cos|tan)h?|erf\w*|exp\w*|log\d?\w*|r?sqrt|pow|reciprocal)_?$")
ACTIVATION = regex(r"^aten::(gelu|mish|sigmoid|silu|softplus|elu)_?$")
SLOTS_OF_FUNCTION = 15.0
SLOTS_OF_ACTIVATION = 5.0
"""Slots of each operation: tanh takes 15 slots for an element, exp 11, sqrt 12, log 27, erf and
sin 33, sigmoid (of 3 operations) 17, GELU (of 8) 38; slopes of the time over the length of chains
compiled for an H100."""
KEPT_SHARE = 0.5
"""A fused kernel moves at least this share of what the largest of its run moves: what it hands on
within the run is wanted elsewhere, too."""
PAIR = 2  # kernels of the shortest run: what a compiler merges
LEAST_KERNEL_NS = 1_500  # a kernel takes at least this long, whatever it does


class Reading(Enum):
    """How much fusing brings."""

    OPTIMISTIC = 0
    TYPICAL = 1
    # a fused kernel takes as long as the longest of its run, and what reductions among the others
    # take
    PESSIMISTIC = 2


class Runs(NamedTuple):
    """Ops that follow each other on a stream, to be one kernel each: for each op of a tape its
    run."""

    number: I64  # -1 outside of all; numbered by their first op
    first: I64  # index of each run's first op, which stays


@parametric
def fusing(
    tape: Tape,
    classes: tuple[str, ...],
    reading: Reading,
    least: int = PAIR,
    *,
    library: bool = False,
) -> Tape | None:
    """Each run of at least so many kernels of these classes on the same data is one kernel; None
    without any. A library's operator begins with the first reduction of a run: a single op before
    it takes as long as it does."""
    return runs_fused(tape, find_runs(tape, classes, least), reading, library=library)


def runs_fused(tape: Tape, runs: Runs, reading: Reading, *, library: bool = False) -> Tape | None:
    """These runs, fused: each is its first op, and the others and their launches are gone."""
    if not len(runs.first):
        return None
    gone = runs.number >= 0
    gone[runs.first] = False
    left = tape.without_launches(gone)
    total = _per_run(np.add, runs, tape.duration)
    duration = left.duration.copy()
    alone = left.alone.copy()
    time = np.rint(np.minimum(_fused_times(tape, runs, reading, library=library), total)).astype(
        np.int64
    )
    duration[runs.first] = alone[runs.first] = time
    return replace(left, duration=duration, alone=alone)


def find_runs(
    tape: Tape, classes: tuple[str, ...], least: int = PAIR, chosen: Bool | None = None
) -> Runs:
    """Runs of at least so many ops of these classes (and chosen): launched one after the other in
    the same step and on the same stream, without a wait or other work of the host between them,
    waiting for nothing else, on operands of one size."""
    source = tape.source
    event = tape.event
    wanted = tape.of_classes(*classes)
    wanted &= ~kernels_named(tape, COMPILED) & ~kernels_named(tape, RANDOM_NUMBERS)
    # A cache that grows has to be copied, however it is compiled.
    wanted &= ~np.isfinite(tape.memo(growing_joins))
    wanted &= chosen is None or chosen
    # Of kernels of CUDA graphs neither operators nor data are recorded, nor which are the
    # optimizer's.
    from_graphs = (source.linked.api_kind[tape.call] == ApiKind.GRAPH_LAUNCH)[event]
    wanted &= ~tape.in_optimizer & ~tape.beside_matrices & ~from_graphs
    follows = wanted & (np.diff(event, prepend=-2) <= 1) & ~tape.waits[event]
    follows &= (tape.work[event] == 0) & (tape.loading[event] == 0)
    follows &= ~where_changed(tape.stream) & ~where_changed(tape.step_of_op)
    follows &= (tape.dependencies.awaited < 0) & (tape.dependencies.also_awaited < 0)
    follows[1:] &= wanted[:-1]
    number = np.where(wanted, np.cumsum(wanted & ~follows) - 1, -1)
    number = _split_by_period(
        tape, split_by_size(number, source.memo(largest_operands)[tape.row])[0]
    )
    # Runs of fewer ops are none.
    count = np.bincount(number[number >= 0], minlength=1)
    inside = np.flatnonzero((number >= 0) & (np.append(count, 0)[number] >= least))
    result = np.full(len(number), -1, np.int64)
    _, first, result[inside] = np.unique(number[inside], return_index=True, return_inverse=True)
    return Runs(result, inside[first])


def _split_by_period(tape: Tape, number: I32) -> I64:
    """The runs, each part of one that repeats itself and holds a reduction a run of its own: a norm
    that follows a norm begins when the rows of the first are finished."""
    name = tape.source.trace.device_ops.name[tape.row]
    reducing = tape.of_classes(*REDUCING) & (number >= 0)
    inside = np.flatnonzero(np.isin(number, number[reducing]))
    cuts = np.zeros(len(number), np.int64)
    known: dict[bytes, int] = {}
    for rows in split_where(inside, np.diff(number[inside]) != 0):
        names = name[rows]
        key = names.tobytes()
        if key not in known:
            known[key] = period_of(names)
        period = known[key]
        cuts[rows[period::period]] = 1
    return np.where(number >= 0, number + np.cumsum(cuts), -1)


def _fused_times(tape: Tape, runs: Runs, reading: Reading, *, library: bool = False) -> F64:
    """What each run takes as one kernel, ns; as a library's operator with what comes before it."""
    rated = tape.source
    time = tape.duration.astype(np.float64)
    reducing = tape.of_classes(*REDUCING)
    before = _before_statistics(runs, reducing) & library
    stays = _per_run(np.add, runs, np.where(before, time, 0.0))
    time = np.where(before, 0.0, time)
    longest = _per_run(np.maximum, runs, time)
    is_longest = (runs.number >= 0) & (time == longest[runs.number])
    traffic = np.where(before, 0.0, np.nan_to_num(rated.roofline.expected[tape.row]))
    reread = reducing & _wide_after(runs, traffic)
    again = _per_run(np.add, runs, np.where(reread & ~is_longest, time * REREAD_SHARE, 0.0))
    arithmetic = _arithmetic_ns(tape, runs)
    most = np.maximum(longest + again, arithmetic)
    if reading is Reading.PESSIMISTIC:
        return most + stays
    moved = _moved(tape, runs, traffic, time, kept=reading is Reading.TYPICAL)
    once = np.maximum(np.where(np.isfinite(moved), moved, longest), arithmetic)
    if reading is Reading.TYPICAL:
        again += _per_run(
            np.add, runs, np.where(reread & is_longest, time * REREAD_OF_LONGEST, 0.0)
        )
        once = np.minimum(once + again, most)
    return np.maximum(once, LEAST_KERNEL_NS) + stays


def _arithmetic_ns(tape: Tape, runs: Runs) -> F64:
    """Least time to issue the instructions of each run, 0 where the GPU or the work is not
    known."""
    each = np.where(launched_within(tape, FUNCTION), SLOTS_OF_FUNCTION, SLOTS_PER_OPERATION)
    each = np.where(launched_within(tape, ACTIVATION), SLOTS_OF_ACTIVATION, each)
    operations = np.nan_to_num(tape.source.roofline.flops[tape.row])
    slots = _per_run(np.add, runs, operations * each)
    rate = tape.source.linked.limit("issue_rate")[tape.row[runs.first]]
    return np.nan_to_num(slots / rate * NS_PER_S)


def _moved(tape: Tape, runs: Runs, traffic: F64, time: F64, *, kept: bool) -> F64:
    """What each run takes to move what crosses its border (or it keeps for others) at its best
    rate, ns, else NaN."""
    out = np.zeros(len(traffic))
    moving = np.flatnonzero(traffic > 0)
    out[moving] = bytes_written(tape.source, tape.row[moving])
    crosses = _per_run(
        np.add, runs, crossing(runs.number, traffic, out, tape.of_classes(*REDUCING))
    )
    if kept:
        crosses = np.maximum(crosses, KEPT_SHARE * _per_run(np.fmax, runs, traffic))
    rate_of_op = np.where(traffic > 0, traffic / np.maximum(time, 1), 0.0)
    rate = _per_run(np.fmax, runs, rate_of_op)
    known = (rate > 0) & (crosses > 0)
    return np.divide(crosses, rate, out=np.full(len(rate), np.nan), where=known)


def _before_statistics(runs: Runs, reducing: Bool) -> Bool:
    """Single ops (a bias, a residual) before the first reduction of their run: what are several is
    an operator, too."""
    index = np.arange(len(reducing))
    first = _per_run(np.fmin, runs, np.where(reducing, index, np.inf))
    first_of_run = first[runs.number]
    before = (runs.number >= 0) & np.isfinite(first_of_run) & (index < first_of_run)
    return before & (_per_run(np.add, runs, before.astype(np.int64)) == 1)[runs.number]


def _wide_after(runs: Runs, traffic: F64) -> Bool:
    """Which ops of runs have one after them that goes over all of the data, too: what is reduced
    last is not read again. All where the traffic is not known."""
    wide = traffic * ASIDE >= np.append(_per_run(np.fmax, runs, traffic), 0.0)[runs.number]
    index = np.arange(len(traffic))
    last = _per_run(np.fmax, runs, np.where(wide, index, -1))
    result: Bool = index < np.append(last, -1.0)[runs.number]
    return result | (traffic <= 0.0)


def _per_run(over: np.ufunc, runs: Runs, values: F64 | I64) -> F64:
    """A figure of each run from those of its ops."""
    inside = np.flatnonzero(runs.number >= 0)
    order = inside[np.argsort(runs.number[inside], kind="stable")]
    starts = np.searchsorted(runs.number[order], np.arange(len(runs.first)))
    return over.reduceat(values[order].astype(np.float64), starts)
