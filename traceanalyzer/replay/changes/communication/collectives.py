"""Changes of communication, one for each remedy: what is reduced or gathered, how often, when, in
how many bytes."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import measure, subtract, union
from traceanalyzer.analysis.names.collectives import KINDS, WIDE
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.precision import in_16_bits_already
from traceanalyzer.replay.patterns.named import launched_within, nodes_named, texts
from traceanalyzer.replay.patterns.repeats import after_each, codes, each_step
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I32, I64, Bool

REDUCTIONS = ("all_reduce", "reduce_scatter")
IN_LAYERS = (*REDUCTIONS, "all_gather", "all_to_all")
"""How the layers of a model that is spread over ranks exchange their results."""
OVERLAP_COST = 0.5
"""Share of a collective's time by which computation beside it becomes longer: it holds
multiprocessors and bandwidth (0.2 to 0.7 in recordings of two GPUs; with 24 of 132 multiprocessors
gone a product of 128 blocks has two waves)."""
MOST_OVERLAP_COST = 0.75  # the same by the pessimistic reading
BUCKETING = regex(r"ddp\.reducer|torch::distributed::reducer")
"""What DDP calls its copies of gradients into buckets and back."""
SHARDING = regex(
    r"^FSDP::"
)  # what FSDP calls all that it does around the modules whose parameters it shards
CASTS = regex(r"^aten::(to|_to_copy)$")
"""Operators that change the number format."""
IN_FP32 = regex(rf"^({'|'.join(WIDE)})$")
FORWARD_SHARE = 0.25
"""With less of them in the forward pass, reductions are of gradients, and some of losses."""
CAST_PASSES = 5.0
"""How often a message's bytes pass the GPU's memory when it is reduced in half of them: the cast
reads all and writes half, the mean reads and writes half, the cast back reads half and writes all,
and none of them reaches the limit."""
LAST_BUCKET = 25 * 2**20
"""Bytes of the last bucket, whose gradients are there only when the backward pass is over: DDP's
usual size."""


GATHERING = regex(r"^FSDP::(all_gather|backward_prefetch)")
"""What FSDP calls its gathers, the copies into and out of their messages, and those made early."""
UNIT = regex(r"^FSDP::all_gather(_copy_out)? \(.+\)$")
"""A range that names the module whose parameters are gathered."""


def kinds(tape: Tape) -> I64:
    """For each op its kind of collective (index in `KINDS`), -1 for other ops."""
    return _of_calls(tape, tape.source.timed.collective_calls.kind)


def sizes(tape: Tape) -> I64:
    """For each op the bytes of its message, -1 for others and where it is not known."""
    return _of_calls(tape, tape.source.timed.collective_calls.bytes)


def _of_calls(tape: Tape, values: I32 | I64) -> I64:
    """For each op the value of the collective that it is, -1 for other ops."""
    if not tape.communication.any():
        return np.full(len(tape.row), -1, np.int64)
    result = np.full(len(tape.source.trace.device_ops), -1, np.int64)
    result[tape.source.timed.collective_calls.row] = values
    return result[tape.row]


def of_kind(tape: Tape, *names: str) -> Bool:
    """Ops that are collectives of these kinds."""
    return np.isin(kinds(tape), [KINDS.index(name) for name in names])


def transfers(tape: Tape) -> I64:
    """For each op how much of its time may be transfer: all where ranks meet, for then waiting is
    known; else no more than the quickest of its kind and size took."""
    alone = tape.communication & (tape.meeting < 0)
    index = codes(kinds(tape)[alone], sizes(tape)[alone])
    count = int(index.max(initial=-1)) + 1
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, index, tape.duration[alone])
    result = tape.duration.copy()
    result[alone] = least[index]
    return result


def removed(tape: Tape, ops: Bool) -> Tape | None:
    """Without these collectives: computation beside them is as fast as without; None without
    any."""
    if not ops.any():
        return None
    index = np.arange(len(ops))
    last_gone = np.maximum.accumulate(np.where(ops, index, -1))
    last_staying = np.maximum.accumulate(np.where(tape.communication & ~ops, index, -1))
    duration = np.where(last_gone > last_staying, tape.alone, tape.duration)
    return replace(
        tape, duration=duration, meeting=np.where(ops, -1, tape.meeting)
    ).without_launches(ops)


def accumulated_without_sync(tape: Tape) -> Tape | None:
    """Gradients are reduced with the last of several backward passes of a step; None where each has
    its own step."""
    gone = repeated_reductions(tape)
    left = removed(tape, gone)
    if left is None:
        return None
    # What fills and empties their buckets goes with them.
    return left.without_launches(launched_within(tape, BUCKETING) & tape.up_to_last(gone))


def repeated_reductions(tape: Tape) -> Bool:
    """Reductions whose bytes are reduced again later in the same step: all but the last round of
    equal messages. Rounds are told apart by the backward passes of the step; a model whose layers
    reduce alike has one round."""
    size = sizes(tape)
    step = tape.step_of_op
    pass_ = backward_passes(tape)
    result = np.zeros(len(size), bool)
    for rows in each_step(step, of_kind(tape, *REDUCTIONS) & (size > 0)):
        rounds = [
            rows[pass_[rows] == number]
            for number in range(int(pass_[step == step[rows[0]]].max()) + 1)
        ]
        messages = [np.sort(size[mine]).tolist() for mine in rounds if len(mine)]
        if len(messages) == len(rounds) > 1 and all(some == messages[-1] for some in messages):
            result[np.concatenate(rounds[:-1])] = True
    return result


def backward_passes(tape: Tape) -> I64:
    """For each op the number of the backward pass of its step that it belongs to, or that was the
    last before it; -1 before the first."""
    step = tape.step_of_op
    backward = tape.in_backward | tape.communication
    begins = backward & ~after_each(backward) & ~tape.communication
    begins |= backward & (np.diff(step, prepend=-2) != 0)
    count = np.cumsum(begins)
    first = (
        np.searchsorted(step, step, side="left")
        if (np.diff(step) >= 0).all()
        else np.zeros(len(step), np.int64)
    )
    return count - np.append(0, count)[first] - 1


def compressed(tape: Tape) -> Tape | None:
    """Reductions of gradients move half as many bytes; casts before and after run among the
    computation. None without any."""
    chosen = of_kind(tape, *REDUCTIONS)
    if not chosen.any():
        return None
    reduced = np.where(chosen, np.maximum(sizes(tape), 0), 0)
    casts = float(tape.moving_ns(reduced, CAST_PASSES).sum())
    slower = 1.0 + casts / max(float(tape.duration[tape.compute].sum()), 1.0)
    times = np.where(tape.compute, tape.duration * slower, tape.duration)
    return tape.retimed(np.where(chosen, tape.duration - 0.5 * transfers(tape), times))


@parametric
def overlapped(tape: Tape, cost: float) -> Tape | None:
    """Reductions begin with the backward pass and run beside it, which becomes longer by this share
    of theirs; the last bucket stays behind it. None without such reductions."""
    chosen = late_reductions(tape)
    size = sizes(tape)
    if not chosen.any():
        return None
    last = np.zeros(len(size), bool)
    last[[rows[-1] for rows in each_step(tape.step_of_op, chosen)]] = True
    # One message of everything would be cut into buckets, of which the last stays.
    left = np.where(
        last & (size > LAST_BUCKET), LAST_BUCKET / np.maximum(size, 1), np.where(last, 1.0, 0.0)
    )
    beside = transfers(tape) * np.where(chosen, 1.0 - left, 0.0)
    return tape.retimed(
        np.where(tape.compute, tape.duration * _slower(tape, beside, cost), tape.duration - beside)
    )


def _slower(tape: Tape, beside: F64 | I64, cost: float) -> float:
    """How many times longer computation takes with so much communication beside it."""
    busy = float(tape.duration[tape.compute].sum())
    return 1.0 + cost * min(float(beside.sum()), busy) / max(busy, 1.0)


@parametric
def on_own_stream_each(tape: Tape, cost: float) -> Tape:
    """Collectives run on streams of their own once what they wait for is done, computation becomes
    longer by this share of what of them was exposed, and only the end of the step waits for
    them."""
    ops = tape.source.trace.device_ops
    gone = tape.communication
    start = ops.start[tape.row]
    end = ops.end[tape.row]
    communicating = union(start[gone], end[gone])
    others = union(start[~gone], end[~gone])
    exposed = measure(subtract(communicating, others), start, end)
    slower = _slower(tape, np.where(gone, np.minimum(exposed, transfers(tape)), 0), cost)
    left = tape.on_own_stream(gone, at_once=False)
    return replace(
        left,
        duration=np.where(tape.compute, tape.duration * slower, tape.duration).astype(np.int64),
    )


@parametric
def overlapped_by_halves(tape: Tape, cost: float) -> Tape | None:
    """A model that is spread over ranks works on two halves of its batch in turn: one computes,
    longer by this share of the time that collectives run beside it, while those of the other run;
    the host launches twice as much. None without collectives that the forward pass waits for."""
    chosen = of_kind(tape, *IN_LAYERS) & ~late_reductions(tape)
    if (chosen & ~tape.in_backward).sum() <= FORWARD_SHARE * chosen.sum():
        return None
    moved = transfers(tape) * chosen
    busy = float(tape.duration[tape.compute].sum())
    moving = float(moved.sum())
    slower = _slower(tape, moved, cost)
    left = max(moving - slower * busy, 0.0) / max(moving, 1.0)
    times = np.where(tape.compute, tape.duration * slower, tape.duration - moved * (1.0 - left))
    tail = tape.tail._replace(dispatch=2 * tape.tail.dispatch)
    return replace(tape, tail=tail).with_dispatch(2 * tape.dispatch).retimed(times)


def late_reductions(tape: Tape) -> Bool:
    """Reductions after which, in their step, no matrix kernel runs: the backward pass is over when
    they begin."""
    return of_kind(tape, *REDUCTIONS) & ~tape.up_to_last(tape.source.linked.is_matrix[tape.row])


@parametric
def smaller_messages(tape: Tape, left: float, computation: float) -> Tape | None:
    """Exchanges between all ranks move this share of their bytes, without the casts around those in
    fp32 of a program that computes in 16 bits, and what computes between two of them takes this
    share of its time; sums of wide results move half of theirs. None without any."""
    exchanges = of_kind(tape, "all_to_all")
    wide = tape.memo(wide_sums)
    if not (exchanges | wide).any():
        return None
    # Ops after an odd number of exchanges work on what the last one brought, and the next takes it
    # back; none where a step has an odd number of them.
    step = tape.step_of_op
    between = np.zeros(len(exchanges), bool)
    for rows in each_step(step, exchanges):
        in_step = np.flatnonzero(step == step[rows[0]])
        if len(rows) % 2 == 0:
            between[in_step] = np.cumsum(exchanges[in_step]) % 2 == 1
    times = np.where(between & tape.compute, tape.duration * computation, tape.duration)
    spared = np.where(exchanges, 1.0 - left, np.where(wide, 0.5, 0.0))
    return tape.retimed(times - spared * transfers(tape)).without_launches(
        casts_for_exchanges(tape)
    )


def casts_for_exchanges(tape: Tape) -> Bool:
    """Casts right before and after exchanges in fp32, where the model computes in 16 bits."""
    exchanges = of_kind(tape, "all_to_all") & _in_fp32(tape)
    if not exchanges.any() or not in_16_bits_already(tape):
        return np.zeros(len(tape.row), bool)
    beside = np.zeros(len(tape.row), bool)
    beside[:-1] |= exchanges[1:]
    beside[1:] |= exchanges[:-1]
    return beside & tape.compute & launched_within(tape, CASTS)


def wide_sums(tape: Tape) -> Bool:
    """Sums over ranks of fp32 results, where a model that is spread over them multiplies in 16
    bits: it needs them in its forward pass, too, which tells them from gradients."""
    chosen = of_kind(tape, *REDUCTIONS) & _in_fp32(tape) & ~late_reductions(tape)
    forward = chosen & ~tape.in_backward
    return chosen & (in_16_bits_already(tape) and forward.sum() > FORWARD_SHARE * chosen.sum())


def _in_fp32(tape: Tape) -> Bool:
    """Which ops are collectives of fp32 numbers."""
    table = tape.source.trace.collectives
    calls = tape.source.timed.collective_calls
    of_table = np.append(texts(tape.source.linked, IN_FP32)[table.dtype], False)
    return _of_calls(tape, of_table[calls.metadata].astype(np.int64)) > 0


def parameters_kept(tape: Tape) -> Tape | None:
    """Parameters gathered once stay for the rest of the step, and what the host and the device do
    to gather them again is not done; where nothing is learnt they stay for good. None where none
    are gathered again."""
    again = gathered_again(tape)
    left = removed(tape, again)
    if left is None or (of_kind(tape, "all_gather") & tape.in_backward & ~again).any():
        return left
    # Ranges of gathers, and of the copies around them, that are of the backward pass, or of modules
    # gathered before.
    source = tape.source
    ranges = tape.source.trace.host_ranges
    tree = tape.source.linked.tree
    gone = np.zeros(len(ranges), bool)
    gone[tree.row[~tree.is_call]] = source.joined.in_backward[~tree.is_call]
    gone &= texts(source.linked, GATHERING)[ranges.name]
    rows = np.flatnonzero(texts(source.linked, UNIT)[ranges.name])
    rows = rows[np.argsort(ranges.start[rows], kind="stable")]
    step = np.searchsorted(source.timed.steps.host_start, ranges.start[rows], side="right")
    gone[rows] |= _again(tape, step, ranges.name[rows])
    left = left.without_launches(tape.of_launches(tree.innermost(tree.of_ranges(gone, False)) >= 0))
    return left.with_dispatch(left.dispatch * (1.0 - tape.share_within_ranges(gone)))


def gathered_again(tape: Tape) -> Bool:
    """Gathers of a module's parameters that its step has gathered before; where modules are not
    named those within the backward pass of messages as large as some of the forward pass."""
    size = sizes(tape)
    step = tape.step_of_op
    gathering = of_kind(tape, "all_gather") & (size > 0)
    tree = tape.source.linked.tree
    nearest = tree.innermost(nodes_named(tape.source.linked, UNIT))
    names = tree.names(np.maximum(nearest, 0))
    unit = tape.of_launches(np.where(nearest >= 0, names, -1).astype(np.int64))
    result = np.zeros(len(size), bool)
    if gathering.any() and (unit[gathering] >= 0).all():
        result[gathering] = _again(tape, step[gathering], unit[gathering])
        return result
    backward = tape.in_backward
    for rows in each_step(step, gathering):
        forward = size[rows[~backward[rows]]]
        result[rows] = backward[rows] & np.isin(size[rows], forward)
    return result


def _again(tape: Tape, step: I32 | I64, unit: I32 | I64) -> Bool:
    """Which of these, in order, are not the first of their step and unit; all, where nothing is
    learnt."""
    result = np.ones(len(step), bool)
    if of_kind(tape, *REDUCTIONS).any() or tape.in_backward.any():
        _, first = np.unique(np.stack((step, unit)), axis=1, return_index=True)
        result[first] = False
    return result


def prefetched(tape: Tape) -> Tape | None:
    """Parameters are gathered one layer ahead, on a stream of their own: nothing waits for them but
    the order of their stream; None without gathers."""
    gathering = of_kind(tape, "all_gather")
    return tape.on_own_stream(gathering) if gathering.any() else None
