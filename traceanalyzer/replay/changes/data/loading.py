"""Input that workers load, copies that run ahead or bring the same in every step, memory that is
not allocated."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra import isin_few, join, measure, union, where_changed
from traceanalyzer.analysis.groups.input_loading import which_small
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.roofline.op_models.tensors import Shape, without_ones
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS
from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.changes.data.offloaded import brought_back_next
from traceanalyzer.replay.changes.warmup import no_work_of_its_own
from traceanalyzer.replay.patterns.named import Outermost, movers, operators_named
from traceanalyzer.replay.patterns.operators import JOIN, Operator, is_shared
from traceanalyzer.replay.patterns.repeats import after_each, each_step
from traceanalyzer.replay.recorded import after_waiting
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import Bool, CopyKind, MemoryKind

BATCH_QUEUE_NS = 150_000  # taking a finished batch from the workers' queue
WORKER_EFFICIENCY = 0.7
"""Share of its time that a worker loads: the rest it starts, pickles and waits for the others'
cores."""
MAX_WORKERS = 8  # a host seldom has cores for more of them beside each of its GPUs
PINNED_SHARE = 0.85  # share of the link's rate that a copy from pinned memory reaches
PINNED_BYTES_PER_NS = 25.0
"""What it reaches where neither the link's rate nor such a copy was recorded: PCIe 4."""
LEAST_COPY_NS = 2_000  # a copy takes at least this long, however little it brings
LEAST_SENT_NS = 100_000
"""Results whose copy takes less are read at once, not sent: a buffer for them is not worth it."""
LEAST_AWAY_NS = 100_000
"""The host works on data for at least this long where it calculates with them."""
BETWEEN_RESULTS = 2
"""Ops between two copies of results, such as a cast, that belong to the second."""
ROUND_TRIP_BYTES = 4096  # copies of fewer bytes are scalars
COPIES = regex(r"^aten::(to|_to_copy|copy_|cpu)$")


TABLE = regex(r"^aten::(index|embedding|index_select|gather|take)$")
"""Operators whose first operand is looked up in."""
MOST_LOOKED_UP = 0.5
"""Of a table of one dimension a step looks at no more than this share: input of one dimension
(sound, labels) is used up."""
WRITTEN_BYTES_PER_NS = 40.0
"""What a host can write at most, by several threads: what is more than it had the time for was
there before."""
PRODUCT = regex(r"^aten::(linear|matmul|mm)$")
"""Operators whose second operand is a weight where it has two dimensions."""
SPREAD = regex(r"^aten::(add_?|sub_?|mul_?|div_?|where|masked_fill_?)$")
"""Operators that spread a smaller operand over a larger one: positions, masks, scales."""
ATTENTION = regex(r"^aten::(scaled_dot_product_attention|_scaled_dot_product_\w+)$")
MASK = 3
"""Attention, and the place of its mask or bias among its operands."""
CONVOLUTION = regex(r"^aten::conv(\dd|olution)$")  # operators whose second operand is a weight
PARAMETERS = regex(
    r"^aten::(linear|addmm|conv(\dd|olution)|(layer|batch|group|instance|rms)_norm)$"
)
"""Operators that take parameters of a layer, of whatever size, after what they work on."""
TURNS = regex(r"^aten::(t|numpy_T|transpose|permute|movedim)$")
"""Operators that give the same data with its dimensions in another order."""
PASSES_ON = regex(
    r"^aten::(unsqueeze|squeeze|view|reshape|expand|contiguous|detach|alias|type_as|half|float)$"
)
"""Operators that give the same data, as they are or in another format."""
MOVES = regex(r"^aten::(to|_to_copy|copy_|cuda)$")
GIVES_THE_SAME = (MOVES, PASSES_ON)
ASKS = regex(r"^aten::_has_compatible_shallow_copy_type$")
"""What `weight.data = copied` asks about both; it takes neither."""
EXPAND = regex(r"^aten::expand$")
USE_OPERATORS = 8  # those after a copy, other copies left out, among which its use is looked for
USE_OPERATORS_OF_BLOCK = 32
"""As far for what comes together with a weight: the other parameters of a block of layers."""
FARTHEST_OPERATORS = 256  # so many operators are looked at at most, copies included


def loaded_by_workers(tape: Tape) -> Tape | None:
    """Batches are ready when they are asked for, and only taken from a queue; None where nothing is
    loaded."""
    if not tape.loading.any():
        return None
    fetches = (tape.loading > 0).sum() / tape.steps
    ratio = min(BATCH_QUEUE_NS * fetches / max(loading_ns(tape), 1.0), 1.0)
    return replace(
        tape,
        loading=np.rint(tape.loading * ratio).astype(np.int64),
        tail=tape.tail._replace(loading=0),
    )


@parametric
def waited_less(tape: Tape, less_ns: float) -> Tape | None:
    """Each step waits for its batches for so much less, ns; None where nothing is loaded."""
    ready = loaded_by_workers(tape)
    if ready is None:
        return None
    share = max(1.0 - less_ns / max(loading_ns(tape), 1.0), 0.0)
    left = np.maximum(np.rint(tape.loading * share).astype(np.int64), ready.loading)
    return replace(
        ready, loading=left, tail=tape.tail._replace(loading=round(tape.tail.loading * share))
    )


def loading_ns(tape: Tape) -> float:
    """Host time on input data, ns a step."""
    return float(tape.loading.sum() + tape.tail.loading) / tape.steps


def not_faster_than(limit_ns: float) -> Callable[[Sequence[float]], float]:
    """A step that also cannot be shorter than this."""
    return lambda times: max(*times, limit_ns)


def no_allocations(tape: Tape) -> Tape | None:
    """No memory of the device or pinned memory is allocated or freed; None where the host never
    does."""
    states = tape.source.timed.timeline.states
    allocating = join(states[HostState.ALLOCATE], tape.source.joined.memo(after_waiting))
    time = np.minimum(tape.before_events(allocating), tape.work)
    time_after = min(tape.after_events(allocating), tape.tail.work)
    calls = isin_few(tape.source.linked.api_kind[tape.call], (ApiKind.ALLOCATE, ApiKind.FREE))
    if not time.any() and not time_after and not (calls & tape.waits).any():
        return None
    left = replace(tape, tail=tape.tail._replace(work=tape.tail.work - time_after))
    return replace(left, work=tape.work - time).without_dispatch(calls)


def large_copies(tape: Tape, kind: CopyKind) -> Bool:
    """Copies in this direction that carry data, not scalars."""
    return tape.copies_of(kind) & (tape.source.trace.device_ops.bytes[tape.row] >= ROUND_TRIP_BYTES)


def copied_together(tape: Tape) -> Tape | None:
    """The tape where only the first of each step's small copies from the host stays; None where no
    step has two."""
    gone = which_small(tape.source.joined)[tape.row]
    gone[[rows[0] for rows in each_step(tape.step_of_op, gone)]] = False
    return tape.without_launches(gone) if gone.any() else None


def pinned(tape: Tape) -> Tape | None:
    """Copies of input and of results go from and to pinned memory; for results the host waits as
    before. None where no memory is pageable."""
    back = results_to_pages(tape)
    found = _input_pinned(tape)
    if not back.any():
        return found
    return _at_the_link(found or tape, CopyKind.DEVICE_TO_HOST, back)


def _input_pinned(tape: Tape) -> Tape | None:
    """Copies of input come from pinned memory, and nobody waits for them; None without any from
    pageable memory."""
    slow = input_from_pages(tape)
    if not slow.any():
        return None
    found = _at_the_link(tape, CopyKind.HOST_TO_DEVICE, slow)
    return replace(found, waits=tape.waits & ~waiting_for(tape, slow))


def input_from_pages(tape: Tape) -> Bool:
    """Copies from pageable memory that carry data."""
    memory = tape.source.trace.device_ops.source_memory[tape.row]
    return large_copies(tape, CopyKind.HOST_TO_DEVICE) & (memory == MemoryKind.PAGEABLE)


def results_to_pages(tape: Tape) -> Bool:
    """Copies of results to pageable memory that take long."""
    memory = tape.source.trace.device_ops.target_memory[tape.row]
    long = tape.duration >= LEAST_SENT_NS
    return tape.memo(results_sent) & (memory == MemoryKind.PAGEABLE) & long


def _at_the_link(tape: Tape, kind: CopyKind, slow: Bool) -> Tape:
    """These copies in this direction are as fast as the fastest recorded one with pinned memory,
    else as the link, and no part of them first goes through a buffer of the driver's."""
    ops = tape.source.trace.device_ops
    memory = ops.source_memory if kind == CopyKind.HOST_TO_DEVICE else ops.target_memory
    bytes_ = ops.bytes[tape.row]
    link = tape.source.linked.limit("host")[tape.row]
    recorded = large_copies(tape, kind) & (memory[tape.row] == MemoryKind.PINNED)
    # Bytes a nanosecond.
    rate = link[np.isfinite(link)].max(initial=0.0) * PINNED_SHARE / NS_PER_S or PINNED_BYTES_PER_NS
    if recorded.any():
        rate = (bytes_[recorded] / np.maximum(tape.duration[recorded], 1)).max()
    fast = np.minimum(tape.duration, np.maximum(bytes_ / rate, LEAST_COPY_NS))
    found = tape.retimed(np.where(slow, fast, tape.duration))
    latency = np.where(slow, np.minimum(tape.latency, QUEUED_LATENCY_NS), tape.latency)
    return replace(found, latency=latency)


def waiting_for(tape: Tape, copies: Bool) -> Bool:
    """Events that wait for these copies: those that launch them, and calls right after that only
    wait."""
    copying = tape.events_of(copies)
    return copying | (after_each(copying) & ~tape.launching_events)


def copied_ahead(tape: Tape) -> Tape | None:
    """Input is copied from pinned memory on a stream of its own while the step before computes: the
    step takes the longer of its copies and the rest; None without copies of input."""
    ahead = input_copies(tape)
    if not ahead.any():
        return None
    found = _input_pinned(tape) or tape
    return replace(found.on_own_stream(ahead), waits=found.waits & ~waiting_for(tape, ahead))


def input_copies(tape: Tape) -> Bool:
    """Copies to the device that carry data; not those that bring the same in every step, which need
    not be made."""
    large = large_copies(tape, CopyKind.HOST_TO_DEVICE)
    return large & ~constants(tape, large)


def kept_on_device(tape: Tape) -> Tape | None:
    """What is copied to the host and back in the same step, and what each step brings alike (a
    table, a weight, a mask), stays on the device; None where nothing is."""
    away = tape.memo(away_from_device)
    gone = tape.memo(round_trips) | away | tape.memo(copied_alike)
    return _staying(tape, gone, away) if gone.any() else None


def copied_alike(tape: Tape) -> Bool:
    """Copies of tables, weights and masks to the device, small parameters that come with them
    included; not those that bring back what went to the host."""
    other = ~(tape.memo(round_trips) | tape.memo(away_from_device))
    large = large_copies(tape, CopyKind.HOST_TO_DEVICE)
    all_sizes = tape.copies_of(CopyKind.HOST_TO_DEVICE)
    return constants(tape, large & other, all_sizes & other)


def _staying(tape: Tape, gone: Bool, away: Bool) -> Tape:
    """Without these copies, what lays data out for them, their waits, and the host's work on what
    it brings back."""
    operator = tape.of_launches(
        tape.source.linked.tree.outermost(operators_named(tape.source.linked, COPIES))
    )
    to_host = gone & tape.copies_of(CopyKind.DEVICE_TO_HOST)
    same_operator = to_host & ~where_changed(operator)
    before = np.zeros(len(gone), bool)
    before[:-1] = same_operator[1:]
    left = tape.without_launches(gone | (before & (operator >= 0) & tape.compute))
    left = left.without_work(tape.events_of_only(away))
    return left.without_dispatch(waiting_for(tape, gone) & ~tape.events_of(~gone))


def away_from_device(tape: Tape) -> Bool:
    """Copies to the host whose data the host works on, and those that bring back what it made of
    them: no more bytes, in the same step, or the same tensors in the next."""
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    step = tape.step_of_op
    worked = np.cumsum(tape.work)[tape.event]
    out = large_copies(tape, CopyKind.DEVICE_TO_HOST)
    result = brought_back_next(tape, out)
    for gone in each_step(step, out):
        back = tape.copies_of(CopyKind.HOST_TO_DEVICE) & (step == step[gone[0]])
        came = np.flatnonzero(back & (np.arange(len(step)) > gone[0]))
        if not len(came) or bytes_[came].sum() > bytes_[gone].sum():
            continue
        if worked[came[-1]] - worked[gone[0]] >= LEAST_AWAY_NS:
            result[gone[gone < came[-1]]] = result[came] = True
    return result


def round_trips(tape: Tape) -> Bool:
    """Copies to the host that are followed, in the same step, by one of as many bytes back, and
    these. Small ones count where large ones do, but for values that the program reads: what
    autograd saves there has both."""
    ways = (CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE)
    out, back = (large_copies(tape, way) for way in ways)
    large = _there_and_back(tape, out, back)
    small_out, small_back = (
        tape.copies_of(way) & ~(out | back) & ~tape.reads[tape.event] for way in ways
    )
    return large | _there_and_back(tape, small_out, small_back) if large.any() else large


def results_sent(tape: Tape) -> Bool:
    """Large copies to the host of what does not come back."""
    return (
        large_copies(tape, CopyKind.DEVICE_TO_HOST)
        & ~tape.memo(round_trips)
        & ~tape.memo(away_from_device)
    )


def results_kept(tape: Tape) -> Tape | None:
    """Results stay on the GPU: no copy, no launch of it, no wait for it; None where none are
    sent."""
    sent = tape.memo(results_sent)
    left = tape.without_launches(sent)
    return replace(left, waits=left.waits & ~waiting_for(tape, sent)) if sent.any() else None


def _there_and_back(tape: Tape, out: Bool, back: Bool) -> Bool:
    """Which of these copies out have one of these back of as many bytes after them in the same
    step, and these."""
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    step = tape.step_of_op
    result = np.zeros(len(tape.row), bool)
    waiting = defaultdict[tuple[int, int], list[int]](list)
    for i in np.flatnonzero(out | back).tolist():
        key = int(step[i]), int(bytes_[i])
        if out[i]:
            waiting[key].append(i)
        elif waiting[key]:
            result[[i, waiting[key].pop()]] = True
    return result


def constants(tape: Tape, copies: Bool, smaller: Bool | None = None) -> Bool:
    """Which of these copies bring a table, a weight or a mask: data that the program has, not
    input. And which of them, and of `smaller` ones, bring the other parameters of the layers that a
    weight came for: together, with no kernel between. What a step begins with is rather input, and
    then so are copies of as many bytes after it: parts of a table that is searched one by one."""
    result, weights = np.zeros((2, len(tape.row)), bool)
    if not copies.any():
        return result
    kernels = np.cumsum(tape.compute)
    step = tape.step_of_op
    begun = kernels > np.maximum.accumulate(
        np.where(np.diff(step, prepend=-2) != 0, kernels - tape.compute, 0)
    )
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    begun &= ~np.isin(bytes_, bytes_[copies & ~begun])
    outermost = Outermost(tape)
    unwritten = _beyond_writing(tape)
    for i, place in movers(tape, copies):
        result[i], parameter = _first_use(outermost, place, USE_OPERATORS, turned=bool(begun[i]))
        weights[i] = result[i] and parameter
        result[i] |= unwritten[i] and _looked_up_in_part(outermost, place)
    together = (
        np.isin(kernels, kernels[weights])
        & ~result
        & (copies if smaller is None else copies | smaller)
    )
    for i, place in movers(tape, together):
        result[i] = _first_use(outermost, place, USE_OPERATORS_OF_BLOCK, turned=True)[1]
    return result


def _first_use(outermost: Outermost, place: int, uses: int, *, turned: bool) -> tuple[bool, bool]:
    """Whether the first of so many operators that calculate takes what the one at this place moves
    (`turned`: with its dimensions in another order, too) as something that stays, and whether as a
    parameter of a layer."""
    following = outermost.follow(place, FARTHEST_OPERATORS)
    mover = next(following)
    moved = without_ones(mover.first_tensor) if mover.named(MOVES) else ()
    if not moved:
        return False, False
    passes = (TURNS, *GIVES_THE_SAME) if turned else GIVES_THE_SAME
    order: Callable[[Shape], object] = tuple
    expanded = False
    for operator in _until_used(following, uses):
        if expanded and operator.named(JOIN):
            return _is_joined_for_all(operator, moved), False
        sizes = [order(without_ones(shape)) for shape in operator.shapes]
        operand = sizes.index(order(moved)) if order(moved) in sizes else None
        if operand == 0 and operator.named(*passes):
            order = sorted if operator.named(TURNS) else order
            expanded |= operator.named(EXPAND)
        elif operand is not None:
            return _stays(operator, operand), operand > 0 and operator.named(PARAMETERS)
    return False, False


def _until_used(following: Iterable[Operator], uses: int) -> Iterator[Operator]:
    """The operators up to the last of so many that calculate."""
    for operator in following:
        if operator.named(ASKS):
            continue
        yield operator
        if not operator.named(MOVES):
            uses -= 1
        if not uses:
            return


def _looked_up_in_part(outermost: Outermost, place: int) -> bool:
    """Whether what is moved at this place has one dimension, and is looked up in right after: the
    operator after that takes less than half as many numbers."""
    following = list(outermost.follow(place, 3))
    if len(following) < 3:
        return False
    mover, lookup, user = following
    table = without_ones(mover.first_tensor)
    if len(table) != 1 or not lookup.named(TABLE) or without_ones(lookup.first_tensor) != table:
        return False
    return 0 < math.prod(user.first_tensor) <= MOST_LOOKED_UP * table[0]


def _beyond_writing(tape: Tape) -> Bool:
    """Ops that bring more than the host, between its calls, had the time to write in a step."""
    steps = tape.source.timed.steps
    calls = tape.source.trace.api_calls
    called = measure(union(calls.start, calls.end), steps.host_start, steps.host_end)
    own_ns = (steps.host_end - steps.host_start - called)[tape.step_of_op]
    return tape.source.trace.device_ops.bytes[tape.row] > own_ns * WRITTEN_BYTES_PER_NS


def _is_joined_for_all(join: Operator, moved: Shape) -> bool:
    """Whether what was moved stands in a join once for each item of a batch, beside the items' own."""
    return len(join.listed) > 1 and any(tuple(shape[1:]) == moved for shape in join.listed)


def _stays(operator: Operator, place: int) -> bool:
    """Whether an operator takes the operand at this place as something that stays."""
    shapes = operator.shapes
    moved = operator.shapes[place]
    if operator.named(TABLE):
        return place == 0 and len(without_ones(moved)) > 1
    if operator.named(PRODUCT):
        return place == 1 and len(moved) == 2
    if operator.named(ATTENTION):
        return place == MASK and is_shared(moved, shapes[0])
    if operator.named(CONVOLUTION):
        return place == 1
    is_smaller = math.prod(moved) < max(map(math.prod, shapes))
    return place > 0 and operator.named(SPREAD) and is_smaller


def results_worked_on(tape: Tape) -> Bool:
    """Copies of results to the host, which do not come back, after which the host works on before
    it launches anything else, but what brings it more of them: what it makes of them can be made on
    the device."""
    sent = tape.memo(results_sent)
    others = np.flatnonzero(tape.events_of(~sent))
    worked = np.append(0, np.cumsum(tape.work))
    until = np.append(others, len(tape.work) - 1)[np.searchsorted(others, tape.event, side="right")]
    after = worked[until + 1] - worked[tape.event + 1]
    ends = np.searchsorted(others, tape.event, side="right") == len(others)
    worked_on = sent & (np.where(ends, after + tape.tail.work, after) >= LEAST_AWAY_NS)
    rows = np.flatnonzero(sent)
    for row, following in reversed(list(pairwise(rows))):
        near = following - row <= BETWEEN_RESULTS + 1
        same_step = tape.step_of_op[row] == tape.step_of_op[following]
        worked_on[row] |= worked_on[following] and near and same_step
    return worked_on


def done_on_device(tape: Tape) -> Tape | None:
    """What the host does with results of the device, and what else it does of its own, is gone from
    the step, with the copies that only bring it those results. None where no operators were
    recorded: nothing then tells whether the host, or another process, needs the results."""
    if not tape.source.linked.tree.has_operators:
        return None
    results = tape.memo(results_worked_on)
    away = tape.memo(away_from_device)
    if not (results | away).any():
        return None
    left = _staying(tape, results | away, away)
    return no_work_of_its_own(left) or left
