"""Kernels that better operators replace (layouts, sizes, batched products), and the step in a CUDA
graph."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.groups import layout, products
from traceanalyzer.analysis.groups.ops import OpsGroup
from traceanalyzer.analysis.time.launch_queue import UNEXPLAINED_NS
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.syncs.syncs import syncs_removed
from traceanalyzer.replay.changes.warmup import OWN_WORK_NS, prepared_before
from traceanalyzer.replay.patterns.named import kernels_named, launched_within
from traceanalyzer.replay.patterns.operators import JOINING, Operator, operators
from traceanalyzer.replay.patterns.repeats import after_each, every
from traceanalyzer.replay.patterns.small_products import every_small_product
from traceanalyzer.replay.patterns.tokens import tokens_turned
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I64, Bool

CHANNELS_APART = regex(
    r"^(?!.*channels_last).*batch_norm_(backward|collect_statistics|transform_input)\w*_kernel"
)
"""PyTorch's batch norm: with channels apart it has a block a channel."""
RESIZED_APART = regex(r"\bupsample_bilinear2d_out_frame\b")
"""PyTorch's resize of planes with channels apart: a thread for each place of a plane, which goes
through all channels and pictures one by one."""
RESIZED_TOGETHER = 16
"""From so many channels on PyTorch has a kernel for channels that lie next to each other, with a
thread for each number."""
LINE = 1
PLANE = 2
SPACE = 3
"""Dimensions that a convolution goes along. PyTorch has channels-last for planes and space only."""
NORM_EFFICIENCY = 0.4
"""Share of the memory's bandwidth that its kernels for channels-last tensors reach (0.13 to 0.62,
0.37 of all on an H200)."""
NORM_EFFICIENCY_IN_SPACE = 0.11
NORM_BACKWARD_EFFICIENCY_IN_SPACE = 0.33
"""Of space PyTorch 2.11 has such kernels for a part of the backward pass alone; forward it copies,
adds up and scales with kernels for any tensor. Of a U-Net with 14 norms on an H200."""
SPLIT = regex(
    r"splitK", re.IGNORECASE
)  # kernels that add up the parts of a product that was calculated in parts
MOSTLY = 0.5
"""Share of small products of which one advice has to be true."""

GRAPH_GAP_NS = 300
"""Pause between dependent kernels of one CUDA graph: 0.26, 0.26 and 0.45 us in graphs recorded on
an H200, 0.26 on an H100."""
GRAPH_CALL_NS = 15_000
"""What the host takes to launch a graph of up to a thousand kernels, at most. On an H200 with
driver 580 a chain of kernels takes 2.0 us (1 to 10 nodes), 2.6 (100), 2.7 to 5.4 (1,000) and 8 to
37 (5,000); the host sees the first run 3.2 us later; the first launch takes 25 us and 1.3 us a
node (docs/guides/server-is-slow.md)."""
GRAPH_NODE_NS = 580
"""And for each of its nodes where drivers do not launch in constant time: 15 us and 0.58 us a node
were published (ocannl#488, CUDA 12)."""


def _all(timed: Timed) -> Bool:
    return np.ones(len(timed.trace.device_ops), bool)


def channels_last(tape: Tape) -> Tape | None:
    """Convolutions without the kernels that change the layout around them, norms and resizing over
    channels that lie next to each other, and tokens of pictures that lie in rows from the beginning;
    None without the first or the last."""
    changing = (changes_layout(tape) & (dimensions(tape) != LINE)) | tokens_turned(tape)
    if not changing.any():
        return None
    rated = tape.source
    row = tape.row
    rate = rated.linked.limit("bandwidth")[row] * _norm_efficiency(tape)
    moved = rated.roofline.expected[row] / rate * NS_PER_S
    apart = kernels_named(tape, CHANNELS_APART) | _resized_apart(tape)
    faster = apart & (moved < tape.duration)
    return tape.retimed(np.where(faster, moved, tape.duration)).without_calls(changing)


def _resized_apart(tape: Tape) -> Bool:
    """Kernels that resize planes of enough channels, with these apart."""
    named = kernels_named(tape, RESIZED_APART)
    if not named.any():
        return named

    def channels(launcher: Operator) -> int:
        return launcher.first[1] if len(launcher.first) == PLANE + 2 else 0

    return named & (_of_launchers(tape, channels) >= RESIZED_TOGETHER)


def _of_launchers(tape: Tape, number: Callable[[Operator], int]) -> I64:
    """This number of the operator that launches each op."""
    operator = tape.of_launches(tape.source.linked.tree.operator)
    return np.array(operators(tape.source.linked).tell(operator, number), np.int64)


def _norm_efficiency(tape: Tape) -> F64:
    """For each op the share of the memory's bandwidth that a norm in its place reaches."""
    of_space = np.where(
        tape.in_backward, NORM_BACKWARD_EFFICIENCY_IN_SPACE, NORM_EFFICIENCY_IN_SPACE
    )
    return np.where(dimensions(tape) == SPACE, of_space, NORM_EFFICIENCY)


def changes_layout(tape: Tape) -> Bool:
    """Ops that change the layout around a library's convolutions."""
    return tape.source.timed.memo(_channel_kernels)[tape.row]


def _channel_kernels(timed: Timed) -> Bool:
    found = layout.channel_kernels(timed, _all(timed))
    return ~_all(timed) if found is None else found.rows


def dimensions(tape: Tape) -> I64:
    """For each op how many dimensions of space the operator that launches it works on, by its first
    operand; -1 where that was not recorded."""

    def of_one(launcher: Operator) -> int:
        line = (
            len(launcher.first) == PLANE + 2 and launcher.first[2] == 1
        )  # comes as one row of a plane to cuDNN
        return LINE if line else max(len(launcher.first) - 2, -1)

    return _of_launchers(tape, of_one)


def padded(tape: Tape) -> Tape | None:
    """Products of odd sizes as fast as aligned ones, and no mostly empty last wave; None without
    either."""
    waves = products.last_waves(tape.source, _all(tape.source.timed))
    return odd_padded(tape, [] if waves is None else [(waves.kernels, waves.lost_ms)])


def odd_padded(tape: Tape, others: Sequence[tuple[OpsGroup, float]] = ()) -> Tape | None:
    """Products of odd sizes as fast as aligned ones, and other kernels without what they lose a
    step, ms; None without any."""
    odd = products.odd_products(tape.source, _all(tape.source.timed))
    losses = [*([] if odd is None else [(odd.kernels, odd.saved_ms)]), *others]
    duration = tape.duration.astype(np.float64)
    for kernels, lost_ms in losses:
        left = max(1.0 - lost_ms / kernels.total_ms, 0.0)
        duration = np.where(kernels.rows[tape.row], duration * left, duration)
    return tape.retimed(duration) if losses else None


def products_batched(tape: Tape) -> Tape | None:
    """Runs of small products of one shape as one batched product each, whose operands nobody takes
    apart and whose results nobody puts together, and what they give rise to in the backward pass;
    None without any."""
    runs = tape.source.memo(every_small_product)
    if runs is None:
        return None
    small = runs.kernels.rows[tape.row]
    back = _backward_of(tape, small)
    rows = small & ~back
    first = rows & every(rows, max(round(runs.in_a_row), 1))
    after = after_each(rows) & ~rows
    kept = first | (back & _backward_of(tape, first))
    times = np.where(
        kept,
        tape.duration * runs.in_a_row * runs.batched_ms / runs.kernels.total_ms,
        tape.duration,
    )
    joining = after & launched_within(tape, JOINING)
    gone = (rows | joining | (after & kernels_named(tape, SPLIT)) | back) & ~kept
    left = tape.retimed(times).without_launches(gone)
    left = left.without_work(tape.events_of(back & gone) & tape.events_of_only(gone))
    usual = int(tape.usual_dispatch_ns(rows))
    if (rows | joining)[-1:].any():
        left = replace(left, tail=left.tail._replace(dispatch=min(left.tail.dispatch, usual)))
    return left.dispatch_at_most(tape.events_of(first), usual)


def makes_heads(tape: Tape) -> bool:
    """Whether most such products are layers that make queries, keys and values."""
    runs = tape.source.memo(every_small_product)
    return runs is not None and runs.turned_share > MOSTLY


def _backward_of(tape: Tape, ops: Bool) -> Bool:
    """The ops that the operators of these give rise to in the backward pass."""
    outer = tape.source.linked.tree.outer_operator
    operators = np.zeros(len(outer) + 1, bool)
    operators[tape.of_launches(outer)[ops & ~tape.in_backward]] = True
    operators[-1] = False
    return tape.backward_of(operators[outer])


def in_graph(gap: I64) -> I64:
    """Pauses between kernels of one CUDA graph; an op that waited for what is not recorded waits in
    a graph, too."""
    return np.where(gap >= UNEXPLAINED_NS, gap, np.minimum(gap, GRAPH_GAP_NS))


def captured(tape: Tape) -> Tape:
    """Each step's launches are one CUDA graph: no dispatch, and none of the host's work between
    them; what follows a value that is read is launched for itself."""
    after_read = np.append(False, (tape.waits & tape.reads)[:-1])
    first = where_changed(tape.step_of_event) | after_read
    tail = tape.tail._replace(dispatch=0)
    work = np.where(first | tape.waits | (tape.work > OWN_WORK_NS), tape.work, 0)
    latency = np.where(first[tape.event], tape.latency, 0)
    graph = replace(tape, work=work, tail=tail, latency=latency, gap=in_graph(tape.gap))
    return graph.with_dispatch(np.where(first, GRAPH_CALL_NS, 0))


@parametric
def captured_once_prepared(tape: Tape, pattern: str) -> Tape | None:
    """The tape as captured, where no operator with such a name (regular expression) meets a new
    shape, as with a cache of a fixed size."""
    return captured(prepared_before(pattern)(tape) or tape)


def captured_but_work(tape: Tape) -> Tape:
    """The tape as captured, where the host's own work stays between the launches."""
    return replace(captured(tape), work=tape.work)


def captured_after_reads(tape: Tape) -> Tape | None:
    """The step without waits, in a CUDA graph."""
    found = syncs_removed(Reading.TYPICAL)(tape)
    return found and captured(found)
