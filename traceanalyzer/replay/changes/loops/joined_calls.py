"""Calls that need nothing of each other, as one call.

Lookups in many tables: a lookup takes whole numbers and gives vectors, so one can never need what
another found. Small networks of one shape (an ensemble), as batched products: what a member begins
with is not what one ends with, and within a member each operator takes what the one before it
gives; layers repeat alike, too, but each needs what the one before it found. And a model that is
called several times in a row, each on inputs of its own (`patterns.independent`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.loops.repetition import (
    FEWEST_CALLS,
    between,
    joined,
    mostly_small,
)
from traceanalyzer.replay.patterns import repeats
from traceanalyzer.replay.patterns.ensemble_members import is_member, share_weights
from traceanalyzer.replay.patterns.independent import (
    LOOKUP,
    has_weights,
    of_other_size,
    put_together,
    share_weights_only,
)
from traceanalyzer.replay.patterns.named import (
    are_named,
    kernels_named,
    launched_within,
    operators_named,
)
from traceanalyzer.replay.patterns.operators import JOINING, Operator, is_chain, operators
from traceanalyzer.replay.patterns.passes_again import passes_again
from traceanalyzer.replay.patterns.repeats import Launching, Loop, Repeat, after_each, codes
from traceanalyzer.replay.tape import Tape, within_optimizer
from traceanalyzer.trace import F64, I32, I64, Bool, distinct

LOOKUP_KERNEL = regex(
    r"vectorized_gather_kernel<|(indexSelect(Small|Large)Index|scatter_gather_internal_kernel)<"
    r"(\(bool\)0, |false, )?(at::native::OpaqueType<(\(int\))?[124]>|float|c10::Half|c10::BFloat16)"
)
"""Kernels of lookups, for recordings without operators: of rows, or of numbers too short to be the
place that another lookup looks at."""
PICK = regex(r"^aten::(index|index_select)$")
VECTORS = 2  # dimensions of a table of vectors at least
PREPARING = ("elementwise", "layout", "fill")
"""Classes of kernels that prepare a lookup."""
MOST_KERNELS_BETWEEN = 3  # between two lookups, that prepare the next one: offsets, a cast, a shift


LONGEST_MEMBER_OPERATORS = 64  # of a member at most: longer ones are models of their own
MOST_ENSEMBLES = 64  # in a step at most: those of an agent are a handful
ENSEMBLE = Loop(
    fewest=FEWEST_CALLS,
    longest=LONGEST_MEMBER_OPERATORS,
    is_turn=lambda turn: is_chain(turn) or is_member(turn),
)
OPTIMIZER_STEP_NS = 300_000
"""What a step of an optimizer costs the host however few tensors it has, with what zeroes their
gradients: the fused AdamW of 7 and of 25 tensors took 0.45 and 0.33 ms on an H200's host."""
MOST_CALLS = 4  # more calls in a row may be time steps, of which each needs the one before it
SHORTEST_CALL = 24  # launching operators of a call: shorter ones may be blocks of a model
LONGEST_CALL = 1000
MOST_PERIODS_TRIED = 100  # lengths of calls, the commonest of what they may be
FEWEST_WEIGHTS = 6  # operators with weights of a call at least


def lookups_joined(tape: Tape) -> Tape | None:
    """Lookups that follow each other are one call, and so is what they give rise to in the backward
    pass; None where fewer than a handful do."""
    if not tape.source.linked.tree.has_operators:
        return _lookup_kernels_joined(tape)
    return _lookups_as_one(tape, _lookups_of_items(tape))


def _lookups_of_items(tape: Tape) -> Bool:
    """Nodes that are lookups, but for those of places in a text: ids that all texts share."""
    lookups = operators_named(tape.source.linked, LOOKUP)
    nodes = np.flatnonzero(lookups)
    ids = operators(tape.source.linked).tell(nodes, _ids_of)
    several = {shape for shape in ids if len(shape) > 1 and shape[0] > 1}
    items = {shape[1:] for shape in several}
    lookups[nodes] = [_without_first_of_one(shape) not in items for shape in ids]
    return lookups


def _without_first_of_one(shape: Shape) -> Shape:
    return shape[1:] if shape[:1] == (1,) else shape


def _ids_of(lookup: Operator) -> Shape:
    return lookup.shapes[1] if len(lookup.shapes) > 1 else ()


def rows_joined(tape: Tape) -> Tape | None:
    """Picks of rows from tables of one shape that follow each other, as many rows each, are one
    call, and so is what they give rise to in the backward pass; None where fewer than a handful
    do. What one gives has another shape than these tables: it cannot be what the next one picks
    from."""
    outer = tape.forward_operators
    if not are_named(tape.source.linked, outer, PICK).any():
        return None
    run_of = operators(tape.source.linked).of_nodes(outer)
    picks = np.zeros(len(tape.source.linked.tree.start), bool)
    following = Operator("")
    for node, operator in zip(outer[::-1].tolist(), reversed(run_of), strict=True):
        if operator.named(PICK):
            picks[node] = _picks_few(operator.first, following)
        else:
            following = operator
    return _lookups_as_one(tape, picks, alike=True) if picks.any() else None


def _picks_few(table: Shape, following: Operator) -> bool:
    """Whether what is picked from a table of vectors, as the first operator after picks takes it
    (the list of numbers itself is not recorded), has fewer rows than the table."""
    picked = following.first or next(iter(following.listed), ())
    if len(table) < VECTORS or picked[1:] != table[1:]:
        return False
    return 0 < picked[0] < table[0]


def passes_joined(tape: Tape) -> Tape | None:
    """Backward passes through one graph are one pass over all that they begin with; None without
    any."""
    found = passes_again(tape)
    if found is None:
        return None
    gone = between(tape, found.again)
    left = joined(tape, found.first, found.again, found.count.astype(np.float64))
    return left.without_dispatch(gone).without_work(gone)


def _lookups_as_one(tape: Tape, lookups: Bool, *, alike: bool = False) -> Tape | None:
    """Runs of these nodes of the host tree as one call each, those of one shape if they have to be
    `alike`."""
    tree = tape.source.linked.tree
    outer = tree.outermost(lookups & ~tape.source.joined.in_backward)
    call = tape.of_launches(outer)
    kinds = tape.of_operators(call, tape.source.trace.host_ranges.shapes)
    forward = _runs(tape, call, kinds.astype(np.int64) if alike else None)
    if not forward[1].any():
        return None
    place = np.cumsum(np.diff(tape.nodes[tape.event], prepend=-1) != 0)
    backward_ops = tape.backward_of(outer >= 0) & (call < 0)
    backward = _runs(tape, np.where(backward_ops, place, -1))
    kept = forward[0] | backward[0]
    gone = forward[1] | backward[1]
    gone |= after_each(gone) & launched_within(tape, JOINING) & ~kept
    return joined(tape, kept, gone, np.maximum(forward[2], backward[2]))


def _lookup_kernels_joined(tape: Tape) -> Tape | None:
    """Lookups told by their kernels, as one call; what they give rise to stays, and so do lookups
    between which there is more than what prepares the next one."""
    lookup = kernels_named(tape, LOOKUP_KERNEL)
    work: I64 = np.cumsum(~(lookup | tape.of_classes(*PREPARING)))
    call = np.where(lookup, np.arange(len(tape.row)), -1)
    kept, gone, count = _runs(tape, call, work)
    return joined(tape, kept, gone, count.astype(np.float64)) if gone.any() else None


def _runs(tape: Tape, call: I32 | I64, work: I64 | None = None) -> tuple[Bool, Bool, I64]:
    """Of runs of calls (numbers, one for each op, -1: none) in a step: the ops of the first, those
    from there to the end of the last, and for each op how many calls its run has. A run ends where
    the number that `work` has for each op changes."""
    kept = np.zeros(len(call), bool)
    gone = np.zeros(len(call), bool)
    count = np.ones(len(call), np.int64)
    rows = np.flatnonzero(call >= 0)
    step = tape.step_of_op
    apart = (np.diff(rows) > MOST_KERNELS_BETWEEN + 1) | (np.diff(step[rows]) != 0)
    if work is not None:
        apart |= np.diff(work[rows]) != 0
    for run in repeats.split_where(rows, apart):
        calls = len(distinct(call[run]))
        if calls >= FEWEST_CALLS:
            first = run[call[run] == call[run[0]]]
            kept[first] = True
            count[first] = calls
            gone[first[-1] + 1 : run[-1] + 1] = True
    return kept, gone & ~kept, count


class Members(NamedTuple):
    """The ensembles of the steps of a tape whose members have weights of their own, or share
    them."""

    first: Bool  # nodes of the host tree that are operators of the first member of each
    others: Bool  # those of the others
    number: float  # members of each, in the mean


class Ensembles(NamedTuple):
    """All ensembles of the steps of a tape; None without any."""

    own_weights: Members | None
    """Or such of which nothing tells whose the weights are."""
    shared_weights: Members | None
    """Calls of one network."""


def ensembles_joined(tape: Tape) -> Tape | None:
    """Each ensemble is one network with batched products, forward and backward; None without
    any."""
    found = _members_joined(tape, tape.memo(ensembles_of).own_weights)
    if found is None:
        return None
    # The optimizer goes through the weights of one member instead of all, as far as these are the
    # model's.
    matrix = tape.source.linked.is_matrix[tape.row]
    of_members = float((matrix & found.ops).sum() / max(matrix.sum(), 1))
    fewer = of_members * (1.0 - 1.0 / found.number)
    return _with_less_of_host(found.left, _left_of_optimizer(found.left, fewer))


class _MembersJoined(NamedTuple):
    """A tape on which the members of each ensemble are one."""

    left: Tape
    ops: Bool  # of the tape as it was: those of members, forward and backward
    number: float  # members of each, in the mean


def _members_joined(tape: Tape, ensembles: Members | None) -> _MembersJoined | None:
    if ensembles is None:
        return None
    of_outer = (
        np.append(some, False)[tape.source.linked.tree.outer_operator]
        for some in (ensembles.first, ensembles.others)
    )
    kept, gone = (tape.of_launches(inside) | tape.backward_of(inside) for inside in of_outer)
    if not mostly_small(tape, gone):
        return None
    gone |= after_each(gone) & launched_within(tape, JOINING)
    left = joined(tape, kept & ~gone, gone, ensembles.number, first_is_usual=True)
    first = tape.events_of(kept & ~gone)
    usual = np.where(first, _usual_of_first(tape, first, gone, ensembles.number), 1.0)
    return _MembersJoined(_with_less_of_host(left, usual), kept | gone, ensembles.number)


def _with_less_of_host(tape: Tape, share: F64) -> Tape:
    """The tape with this share of the host's time for each event."""
    work = np.rint(tape.work * share).astype(np.int64)
    return replace(tape, work=work).with_dispatch(tape.dispatch * share)


def _usual_of_first(tape: Tape, first: Bool, gone: Bool, number: float) -> float:
    """What the host spends on one of the other members (which launch what is gone), over what it
    spends on the first one, with which a step begins; at most 1."""
    each = tape.dispatch[tape.events_of_only(gone)].sum() / (number - 1.0)
    return min(float(each / max(tape.dispatch[first].sum(), 1)), 1.0)


def _left_of_optimizer(tape: Tape, fewer: float) -> F64:
    """For each event what is left of the host's time, where an optimizer has this share fewer
    tensors to go through: some of a step of it does not depend on their number."""
    stepping = tape.events_of(tape.in_optimizer)
    spent = int((tape.dispatch + tape.work)[stepping].sum())
    least = min(OPTIMIZER_STEP_NS * tape.steps / max(spent, 1), 1.0)
    return np.where(stepping, max(1.0 - fewer, least), 1.0)


def ensembles_of(tape: Tape) -> Ensembles:
    """The ensembles of the steps on a tape: at least a handful of members of the same operators and
    shapes in a row. Where gradients tell that all of them share their weights they are calls of one
    network."""
    tree = tape.source.linked.tree
    steps = tape.source.timed.steps
    ranges = tape.source.trace.host_ranges
    outer = tape.forward_operators
    known = operators(tape.source.linked)
    found: dict[bool, list[tuple[I64, Repeat]]] = {False: [], True: []}
    code = codes(ranges.name[tree.row[outer]], ranges.shapes[tree.row[outer]])
    for step in distinct(steps.of_op[tape.row]).tolist():
        begin = steps.host_start[step]
        end = steps.host_end[step]
        in_step = np.flatnonzero((tree.start[outer] >= begin) & (tree.start[outer] < end))
        nodes = outer[in_step]
        for run in ENSEMBLE.find(tape, nodes, code[in_step])[:MOST_ENSEMBLES]:
            turn = known.of_nodes(nodes[run.first : run.first + run.period])
            found[share_weights(tape, turn, run.times)].append((nodes, run))
    return Ensembles(*(_members_of(tape, found[shared]) for shared in (False, True)))


def _members_of(tape: Tape, runs: Sequence[tuple[I64, Repeat]]) -> Members | None:
    """The members of these runs of operators; None without any."""
    if not runs:
        return None
    first, others = np.zeros((2, len(tape.source.linked.tree.start)), bool)
    for nodes, run in runs:
        first[nodes[run.first : run.first + run.period]] = True
        others[nodes[run.first + run.period : run.stop]] = True
    return Members(first, others, float(np.mean([run.times for _, run in runs])))


def calls_joined(tape: Tape) -> Tape | None:
    """Calls of a model that follow each other are one, for so many times the data; else those of a
    small network; None without any."""
    calls = tape.memo(repeats.launching)
    consecutive = _consecutive(tape, calls, calls.forward)
    if consecutive:
        return _consecutive_joined(tape, calls, consecutive)
    of_small = _members_joined(tape, tape.memo(ensembles_of).shared_weights)
    return None if of_small is None else of_small.left


def _consecutive_joined(tape: Tape, calls: Launching, consecutive: list[Repeat]) -> Tape | None:
    """The calls of each of these runs as one."""
    ops = len(tape.row)
    first, others = np.zeros((2, len(calls.node)), bool)
    count = np.ones(len(calls.node), np.int64)
    for run in consecutive:
        in_run = calls.forward[run.first : run.stop]
        first[in_run[: run.period]] = True
        others[in_run[run.period :]] = True
        count[in_run] = run.times
    kept, learned = _with_backward(tape, calls, first)
    gone = np.logical_or(*_with_backward(tape, calls, others)) & ~kept
    if not mostly_small(tape, gone):
        return None
    of_forward = calls.of_ops(count, ops)
    many = np.where(learned & ~kept, count.max(), of_forward).astype(np.float64)
    left = joined(tape, (kept | learned) & ~gone, gone, many, first_is_usual=True)
    dispatch = left.dispatch.astype(np.float64)
    dispatch[tape.event] *= calls.of_ops(_usual_share(tape, calls, consecutive), ops)
    return left.with_dispatch(dispatch)


def _usual_share(tape: Tape, calls: Launching, runs: list[Repeat]) -> F64:
    """For each operator of a run's first call the dispatch of those in its place in the later calls
    over its own; 1 for others, and at most 1."""
    event, at = np.unique(tape.event, return_index=True)
    entry = calls.of_ops(np.arange(len(calls.node)), len(tape.row))[at]
    spent = np.bincount(entry, tape.dispatch[event], len(calls.node)).astype(np.int64)
    usual = spent.copy()
    for run in runs:
        in_run = calls.forward[run.first : run.stop]
        later = spent[in_run].reshape(run.times, run.period)[1:]
        usual[in_run[: run.period]] = np.median(later, axis=0)
    return np.minimum(usual / np.maximum(spent, 1), 1.0)


def _with_backward(tape: Tape, calls: Launching, chosen: Bool) -> tuple[Bool, Bool]:
    """The ops of these operators, and those that they give rise to in the backward pass."""
    tree = tape.source.linked.tree
    outer = tape.forward_operators
    launches = np.sort(calls.node[calls.forward])
    # Those right before them that launch nothing are views, whose backward pass may launch
    # something.
    place = np.searchsorted(launches, outer)
    following = launches[np.minimum(place, len(launches) - 1)]
    nodes_of = np.zeros(len(tree.start) + 1, bool)
    before_chosen = (place < len(launches)) & np.isin(following, calls.node[chosen])
    nodes_of[outer[before_chosen]] = True
    return calls.of_ops(chosen, len(tape.row)), tape.backward_of(nodes_of[tree.outer_operator])


def _consecutive(tape: Tape, calls: Launching, rows: I64) -> list[Repeat]:
    """Runs of calls, each on inputs of its own, among these operators: a few calls that were
    recorded alike, else any number of those with operators alike that share only their weights."""
    run_of = operators(tape.source.linked).of_nodes(calls.node[rows])
    step = calls.step[rows]
    weights = np.cumsum([0, *(has_weights(one) for one in run_of)])
    # A call after a backward pass, or an update, may be of weights that the call before led to.
    updating = tape.source.linked.memo(within_optimizer)[calls.node] | calls.backward
    updates = np.cumsum(updating)[rows]

    def repeated(code: I64) -> list[Repeat]:
        runs = repeats.by_distance(code, SHORTEST_CALL, LONGEST_CALL, MOST_PERIODS_TRIED)
        return [
            run
            for run in runs
            if weights[run.first + run.period] - weights[run.first] >= FEWEST_WEIGHTS
            and updates[run.stop - 1] == updates[run.first]
        ]

    code = codes(calls.name[rows], calls.shapes[rows], step)
    few = [run for run in repeated(code) if run.times <= MOST_CALLS]
    inside = sum(int(weights[run.stop] - weights[run.first]) for run in few)
    alone = not calls.backward.any() and inside == int(weights[-1])
    found = _accepted(
        code, few, lambda run: of_other_size(run_of, run) or (alone and put_together(run_of, run))
    )
    if found:
        return found
    name = codes(calls.name[rows], step)
    return _accepted(name, repeated(name), lambda run: share_weights_only(run_of, step, run))


def _accepted(
    code: I64,
    runs: list[Repeat],
    test: Callable[[Repeat], bool],
) -> list[Repeat]:
    """The runs that pass the test, from where they do."""
    places = (dict.fromkeys((run, repeats.latest(code, run))) for run in runs)
    placed = (next(filter(test, found), None) for found in places)
    return [run for run in placed if run is not None]
