"""Changes of a tape that no program can make as such: one thing costs nothing, or is as fast as the
GPU's limits allow. What they gain bounds what a remedy can."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import contains
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.communication.collectives import (
    BUCKETING,
    SHARDING,
)
from traceanalyzer.replay.changes.fusion import LEAST_KERNEL_NS
from traceanalyzer.replay.changes.kernels import in_graph
from traceanalyzer.replay.changes.warmup import user_host_work
from traceanalyzer.replay.patterns.named import launched_within, nodes_named, texts
from traceanalyzer.replay.recorded import calling, unlaunched_share
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.replay.together import without_meetings

COUNTS = regex(
    "^aten::nonzero$"
)  # operators that cannot go on before the host has read how much they found


UNREPLAYED_SHARE = 0.01
"""Share of the steps. Less host work that is not on a tape does not change what is predicted."""


def no_host_syncs(tape: Tape) -> Tape:
    """No wait for the device, and no operator whose only purpose is to read a value, or that has
    to: `nonzero`."""
    counting = (
        tape.source.linked.tree.innermost(nodes_named(tape.source.linked, COUNTS))[tape.nodes] >= 0
    )
    left = tape.without(counting[tape.event]).without_reads().without_dispatch(counting)
    return replace(left, waits=np.zeros_like(tape.waits))


def launches_free(tape: Tape) -> Tape:
    """Dispatch, launch calls and the framework's own pauses cost the host nothing, as in a CUDA
    graph; waits and the program's work stay."""
    own, at_end = user_host_work(tape)
    tail = tape.tail._replace(dispatch=0, work=tape.tail.work if at_end else 0)
    left = tape.with_dispatch(np.zeros_like(tape.dispatch)).without_work(~own)
    return replace(left, tail=tail, latency=np.zeros_like(tape.latency), gap=in_graph(tape.gap))


def input_ready(tape: Tape) -> Tape:
    """Input data is there when it is asked for."""
    return replace(tape, loading=np.zeros_like(tape.loading), tail=tape.tail._replace(loading=0))


def no_host_work(tape: Tape) -> Tape | None:
    """No long stretches of host work between launches; None where much of it lies before work that
    no call launched, which is not on the tape."""
    if tape.source.memo(unlaunched_share) > UNREPLAYED_SHARE:
        return None
    return replace(tape, work=np.zeros_like(tape.work), tail=tape.tail._replace(work=0))


def copies_hidden(tape: Tape) -> Tape:
    """Copies run beside the compute and nobody waits for them."""
    return replace(tape.without(tape.copy), waits=tape.waits & ~tape.events_of(tape.copy))


def communication_free(tape: Tape) -> Tape:
    """The program without its collectives: nobody waits for another rank, nothing is copied into
    messages and back, compute that ran beside one is no longer slowed, and the host neither calls
    them, nor waits in them, nor shards."""
    gone = tape.communication | launched_within(tape, BUCKETING) | launched_within(tape, SHARDING)
    free = replace(without_meetings(tape), duration=tape.alone).without_launches(gone)
    inside = contains(
        tape.source.linked.memo(calling), tape.source.trace.api_calls.start[tape.call]
    )
    left = 1.0 - tape.share_within_ranges(
        texts(tape.source.linked, SHARDING)[tape.source.trace.host_ranges.name]
    )
    work = np.rint(free.work * left).astype(np.int64)
    free = replace(free, waits=free.waits & ~inside, work=work)
    return free.with_dispatch(np.maximum(free.dispatch - tape.sending, 0) * left)


def at_roofline(tape: Tape) -> Tape | None:
    """Each kernel takes the time that its work needs at the GPU's limits; None where no kernel's is
    known."""
    attainable = tape.source.roofline.attainable[tape.row]
    known = np.isfinite(attainable) & tape.compute
    reached = np.minimum(tape.duration, np.maximum(np.nan_to_num(attainable), LEAST_KERNEL_NS))
    return (
        replace(tape, duration=np.where(known, reached, tape.duration).astype(np.int64))
        if known.any()
        else None
    )


@parametric
def less_compute(tape: Tape, share: float) -> Tape | None:
    """All computation shorter by this share."""
    return replace(
        tape,
        duration=np.where(tape.compute, tape.duration * (1.0 - share), tape.duration).astype(
            np.int64
        ),
    )
