"""What the step would take if one thing were different: each scenario is a small change of the
tape."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import contains
from traceanalyzer.base import dataclass
from traceanalyzer.replay.changes.communication.buckets import MB, BucketSize, rebucketed
from traceanalyzer.replay.changes.communication.collectives import (
    BUCKETING,
    MOST_OVERLAP_COST,
    OVERLAP_COST,
    SHARDING,
    on_own_stream_each,
)
from traceanalyzer.replay.changes.compiling import chains_compiled, functions_compiled
from traceanalyzer.replay.changes.fusion import ELEMENTWISE, LEAST_KERNEL_NS, PAIR, Reading, fusing
from traceanalyzer.replay.changes.kernels import in_graph
from traceanalyzer.replay.changes.optimizer import optimizer_by_lists, optimizer_fused
from traceanalyzer.replay.changes.warmup import programs_own
from traceanalyzer.replay.limits import GAIN_SPREAD, OF_KERNELS, Chosen
from traceanalyzer.replay.patterns.named import launched_within, nodes_named, ops_named, texts
from traceanalyzer.replay.recorded import calling
from traceanalyzer.replay.simulate import Begin
from traceanalyzer.replay.tape import Change, Tape, parametric
from traceanalyzer.replay.together import apart

Time = TypeVar("Time", int, float)
COUNTS = re.compile(
    "^aten::nonzero$"
)  # operators that cannot go on before the host has read how much they found
LEAST_SPEEDUP = 1e-3
"""Work that takes longer than a thousand times its own is no question about this step."""


AS_RECORDED = rebucketed(None)


def lower_median(times: Sequence[Time]) -> Time:
    """The middle one, of an even number the lower of the two."""
    return sorted(times)[(len(times) - 1) // 2]


@dataclass(frozen=True)
class Scenario:
    """A change and what it assumes."""

    id: str
    change: Change
    basis: str
    # a more optimistic reading of it, for the lower end of the range
    optimistic: Change | None = None
    # a less optimistic reading of it, for the upper end of the range
    pessimistic: Change | None = None
    # why it is not predicted where `change` says None
    missing: str = "the recording does not say what this needs"
    # the run's step time from those of its ranks
    step_of_run: Callable[[Sequence[float]], float] = max
    begin: Begin = max  # when a collective begins, from when its ranks arrive
    may_cost: bool = False  # whether it can make the step longer
    hides: Chosen | None = None
    """The ops that it hides behind the rest of the step: it cannot lead below the longer of the two
    (`hiding`)."""
    parts: "tuple[Scenario, ...]" = ()  # the scenarios that it combines
    spread: float = GAIN_SPREAD  # share of what it gains by which its prediction may be off
    baseline: Change | None = None
    """The recorded program as the model behind `change` has it: what a prediction gains is its
    difference from that."""
    most_slowed: float = math.inf
    """How many times longer lower clocks can make matrix kernels at most, where the recordings show
    it."""
    least: float = 0.0  # share of the step that is left whatever the change gains


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
    own, at_end = programs_own(tape)
    tail = tape.tail._replace(dispatch=0, work=tape.tail.work if at_end else 0)
    left = tape.with_dispatch(np.zeros_like(tape.dispatch)).without_work(~own)
    return replace(left, tail=tail, latency=np.zeros_like(tape.latency), gap=in_graph(tape.gap))


def input_ready(tape: Tape) -> Tape:
    """Input data is there when it is asked for."""
    return replace(tape, loading=np.zeros_like(tape.loading), tail=tape.tail._replace(loading=0))


def no_host_work(tape: Tape) -> Tape:
    """No long stretches of host work between launches."""
    return replace(tape, work=np.zeros_like(tape.work), tail=tape.tail._replace(work=0))


def copies_hidden(tape: Tape) -> Tape:
    """Copies run beside the compute and nobody waits for them."""
    return replace(tape.without(tape.copy), waits=tape.waits & ~tape.events_of(tape.copy))


def communication_free(tape: Tape) -> Tape:
    """The program without its collectives: nobody waits for another rank, nothing is copied into
    messages and back, compute that ran beside one is no longer slowed, and the host neither calls
    them, nor waits in them, nor shards."""
    gone = tape.communication | launched_within(tape, BUCKETING) | launched_within(tape, SHARDING)
    free = replace(apart(tape), duration=tape.alone).without_launches(gone)
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


def check_speedup(pattern: str, factor: float) -> None:
    """Raises ValueError where it is no question about a step."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if not pattern or not LEAST_SPEEDUP <= factor < math.inf:
        raise ValueError(
            f"{pattern}={factor:g} is not REGEX=N with a finite N of at least {LEAST_SPEEDUP:g}"
        )


def faster(pattern: str, factor: float) -> Scenario:
    """The device work that a name (regular expression, see `ops_named`) stands for takes 1/factor
    of its time. Raises ValueError."""
    check_speedup(pattern, factor)

    def change(tape: Tape) -> Tape | None:
        chosen = ops_named(tape.source.linked, pattern)[tape.row]
        duration = np.where(chosen, tape.duration / factor, tape.duration).astype(np.int64)
        return replace(tape, duration=duration) if chosen.any() else None

    basis = f"device work of {pattern} {factor:g} times faster; the host's part stays as it is"
    missing = "no device work has this name"
    return Scenario(f"{pattern}={factor:g}", change, basis, missing=missing, may_cost=factor < 1.0)


@parametric
def less_compute(tape: Tape, share: float) -> Tape | None:
    """All computation shorter by this share."""
    return replace(
        tape,
        duration=np.where(tape.compute, tape.duration * (1.0 - share), tape.duration).astype(
            np.int64
        ),
    )


def combined(*scenarios: Scenario) -> Scenario:
    """All of them at once."""

    def change(tape: Tape) -> Tape | None:
        changed: Tape | None = tape
        for scenario in scenarios:
            changed = None if changed is None else scenario.change(changed)
        return changed

    name = "+".join(s.id for s in scenarios)
    basis = "; ".join(s.basis for s in scenarios)
    hides = next((s.hides for s in scenarios if s.hides is not None), None)
    return Scenario(name, change, basis, hides=hides, parts=scenarios)


NO_HOST_SYNCS = Scenario(
    "no_host_syncs",
    no_host_syncs,
    "the host never waits for the device, and operators that only read values, or have to (`nonzero`), are gone; what "
    "computes those values stays (`remove_syncs` drops it, and keeps the waits of copies from pageable memory)",
)
LAUNCHES_FREE = Scenario(
    "launches_free",
    launches_free,
    "dispatch and launches cost nothing, as in a CUDA graph; waits stay",
)
NO_HOST_SYNCS_LAUNCHES_FREE = replace(
    combined(NO_HOST_SYNCS, LAUNCHES_FREE),
    basis="no waits, and dispatch and launches cost nothing: a CUDA graph",
)
FUSED_ELEMENTWISE = Scenario(
    "fused_elementwise",
    chains_compiled(Reading.TYPICAL),
    "each run of elementwise kernels on the same data, launched back to back, is one: it moves what the largest of "
    "them moves, and has the arithmetic of all; the host calls one compiled function (upper end: one a run, which "
    "takes as long as its longest kernel)",
    optimistic=fusing(ELEMENTWISE, Reading.OPTIMISTIC),
    pessimistic=functions_compiled(Reading.PESSIMISTIC, PAIR, ELEMENTWISE),
    missing="no elementwise kernels are launched back to back",
)
FUSED_OPTIMIZER = Scenario(
    "fused_optimizer",
    optimizer_fused,
    "Adam reads and writes everything once, in one launch for every few dozen tensors",
    missing="no step of an Adam that is not fused already was recorded",
    spread=OF_KERNELS,
)
FOREACH_OPTIMIZER = Scenario(
    "foreach_optimizer",
    optimizer_by_lists,
    "each of Adam's operators takes a few dozen tensors in one launch",
    missing="no step of an Adam that goes from tensor to tensor was recorded",
)
INPUT_READY = Scenario("input_ready", input_ready, "input data is always ready")
NO_HOST_WORK = Scenario("no_host_work", no_host_work, "no host work between launches but dispatch")
COPIES_HIDDEN = Scenario(
    "copies_hidden",
    copies_hidden,
    (
        "copies run beside the rest and block nobody: the whole takes the longer of its "
        "copies and the rest"
    ),
    hides=lambda tape: tape.copy,
)
COMMUNICATION_FREE = Scenario(
    "communication_free",
    communication_free,
    (
        "collectives are free, with the copies into and out of their messages, and no rank "
        "waits for another"
    ),
)
COMMUNICATION_OVERLAPPED = Scenario(
    "communication_overlapped",
    on_own_stream_each(OVERLAP_COST),
    (
        "collectives run beside the compute as far as that lasts, which becomes longer by "
        "half of their time"
    ),
    optimistic=on_own_stream_each(0.0),
    pessimistic=on_own_stream_each(MOST_OVERLAP_COST),
)


def buckets(name: str, size: BucketSize) -> Scenario:
    """Gradient buckets of another size."""
    return Scenario(
        name,
        rebucketed(size),
        f"gradients are reduced in messages {size}; what one takes is fitted to those recorded, "
        "else as fast as the fastest of them",
        missing="sizes and times of the collectives do not tell what a smaller one would take: a recording with "
        "two bucket sizes, or with short messages (a barrier) in its steps, would",
        may_cost=True,
        baseline=AS_RECORDED,
    )


def buckets_of(megabytes: float) -> Scenario:
    """Gradient buckets of this size (as PyTorch counts megabytes)."""
    return buckets(f"buckets={megabytes:g}MB", BucketSize(bytes=round(megabytes * MB)))


BUCKETS_DOUBLED = buckets("buckets_doubled", BucketSize(factor=2.0))
BUCKETS_HALVED = buckets("buckets_halved", BucketSize(factor=0.5))
NO_STRAGGLER = Scenario(
    "no_straggler",
    lambda tape: tape if (tape.meeting >= 0).any() else None,
    "every rank takes as long as the middle one, and collectives only transfer",
    missing="it takes the recordings of several ranks that share collectives",
    step_of_run=lower_median,
    begin=lower_median,
)
AT_ROOFLINE = Scenario(
    "at_roofline",
    at_roofline,
    "each kernel whose work is known takes no longer than the GPU's limits allow; the others stay",
    missing="the work of the kernels, or the GPU's limits, are not known",
)

SCENARIOS = (
    NO_HOST_SYNCS,
    LAUNCHES_FREE,
    NO_HOST_SYNCS_LAUNCHES_FREE,
    FUSED_ELEMENTWISE,
    FUSED_OPTIMIZER,
    FOREACH_OPTIMIZER,
    INPUT_READY,
    NO_HOST_WORK,
    COPIES_HIDDEN,
    COMMUNICATION_FREE,
    COMMUNICATION_OVERLAPPED,
    BUCKETS_DOUBLED,
    BUCKETS_HALVED,
    NO_STRAGGLER,
    AT_ROOFLINE,
)
"""What `whatif` answers, one list; more are made by `faster`, `less_compute` and `combined`."""
COMBINED = (
    NO_HOST_SYNCS,
    LAUNCHES_FREE,
    FUSED_ELEMENTWISE,
    FUSED_OPTIMIZER,
    INPUT_READY,
    NO_HOST_WORK,
    COPIES_HIDDEN,
    COMMUNICATION_OVERLAPPED,
)
"""Changes to a program that can be made together; the best few are also predicted at once."""
