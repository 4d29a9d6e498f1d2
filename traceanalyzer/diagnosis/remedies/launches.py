"""Remedies for launches: the same work of the device with fewer of them, the whole step or model
together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import texts_where, where_changed
from traceanalyzer.analysis.groups.input_loading import small_copies
from traceanalyzer.analysis.tables.shape_rows import shape_changes
from traceanalyzer.base import NS_PER_MS, regex
from traceanalyzer.diagnosis.effort import ONE_LINE
from traceanalyzer.diagnosis.finding import GPU_BUSY, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.host import (
    PREPARED,
    hides_waits,
    waits_in_words,
    without_waits,
)
from traceanalyzer.diagnosis.remedies.program import Program, program, reduced_by_hooks, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, remedy, scenario_of, text, words
from traceanalyzer.replay.changes.communication.collectives import repeated_reductions
from traceanalyzer.replay.changes.compiling import compiled
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.kernels import (
    captured,
    captured_after_reads,
    captured_but_work,
    captured_once_prepared,
)
from traceanalyzer.replay.changes.loops.repetition import (
    GREATER_BATCH,
    enlarged,
    enlarged_at_full_cost,
)
from traceanalyzer.replay.changes.recompute import recomputed
from traceanalyzer.replay.changes.syncs.syncs import follows_pageable_copy, is_read
from traceanalyzer.replay.changes.unsorted_gradients import sorted_gradients
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.larger_batch import larger_batch_scenario
from traceanalyzer.trace import I32, I64, Bool, distinct

CAPTURED = scenario_of("cuda_graph", captured, pessimistic=captured_but_work)
AFTER_SYNCS = scenario_of("remove_syncs+cuda_graph", captured_after_reads, "assumes_after_syncs")


STATIC = scenario_of("cuda_graph", captured_once_prepared(PREPARED), "assumes_static")
LEAST_GROWING = 3
"""Steps that show whether something grows."""
EDGE_SHARE = 0.03
"""Share of a step's launches that may stay outside of its graph, before or after it."""
MOSTLY = 0.5
"""Share of the recorded step."""
LEAST_OF_GRAPH = 0.05
"""Fixed inputs and a capture are work, and the pauses between queued kernels alone are not worth
it."""
COMPILED = scenario_of(
    "compile",
    compiled(Reading.TYPICAL),
    optimistic=compiled(Reading.OPTIMISTIC),
    pessimistic=compiled(Reading.PESSIMISTIC),
    may_cost=True,
)
COMPILED_CODE = regex(r"^Torch-Compiled Region|CompiledFxGraph|CompiledFunction")
"""Names of what runs compiled code, forward and backward."""
MOST_CALLS = 4
"""Calls of models that an iteration makes by turns at most: guidance, a draft and its target, an
actor and its critic."""
LEAST_OF_COMPILE = 0.08
SORTING_SHARE = 0.2
"""Share of the step that gradients of lookups take from which the advice names them."""
PESSIMISTIC_COMPILE = 0.75
"""Compiling takes minutes, and breaks where Python does what it cannot follow; and where little is
fused the rest decides: programs that were promised 0 to 5 % took 3 % less to 2 % more."""
ENLARGED = scenario_of(
    "larger_batch",
    enlarged,
    figures={"times": GREATER_BATCH},
    pessimistic=enlarged_at_full_cost,
    least=1.0 / GREATER_BATCH,
)
DOUBLE = 2
BY_SHAPES = {
    times: larger_batch_scenario(
        times, text("larger_batch", "assumes_by_shapes").format(times=times)
    )
    for times in (GREATER_BATCH, DOUBLE)
}
LEAST_OF_BATCH = 0.05
"""Another batch size changes what is learnt: less is not worth it."""
PESSIMISTIC_BATCH = 0.2
"""Full cost is hardly ever what a larger batch has: of 41 predictions of steps whose pace the GPU
sets, sealed before they were timed, all gained at least half of what was said."""
BUSY_SHARE = 0.75
"""Share of the step that the GPU must work for its own work to be what a larger batch is for: what
the host does with results grows with them."""
LEAST_IDLE = 0.3
"""Share of the step that the GPU must idle for launches: less is not worth another batch size."""


@remedy("cuda_graph", "launch", LEAST_OF_GRAPH)
def cuda_graph(m: Measurements) -> Offer | None:
    """Where the same kernels are launched every step, nothing shards parameters, and no graph
    launches them already. Gradients that hooks reduce with the backward pass are no part of a graph
    that a few lines would make."""
    tape = tape_of(m)
    known = program(m)
    if tape is None or known.in_graphs or known.fsdp:
        return None
    if tape.communication.any() and reduced_by_hooks(m):
        return None
    prepares = shape_changes(m.causes, PREPARED) is not None
    if not known.training and (grows(tape) or (prepares and same_every_step(tape))):
        return _static_first(tape)
    if not same_every_step(tape) or _mostly_sends(m):
        return None
    how = _how_to_capture(known, tape)
    if waits_within(tape):
        first = without_waits(tape)
        return Offer(_preceded(_syncs_first(m), how), AFTER_SYNCS, ("remove_syncs",), first)
    return Offer(how, CAPTURED)


def _how_to_capture(known: Program, tape: Tape) -> Words:
    """How to capture a graph: a line where the model is, or may be, compiled; else somebody has to
    write what is captured."""
    which = "training" if known.training else "inference"
    which = "compiled" if _mostly_compiled(tape) else which
    line = known.pytorch and which != "training"
    return Words(
        text("cuda_graph", which),
        text("cuda_graph", "other"),
        text("cuda_graph", "jax"),
        effort=ONE_LINE if line else None,
    )


def _mostly_compiled(tape: Tape) -> bool:
    """Whether most launches are made by compiled code, not by single functions that are
    compiled."""
    tree = tape.source.linked.tree
    names = texts_where(tape.source.trace.strings, COMPILED_CODE.search)
    around = tree.innermost(tree.named(names))
    inside = around[tape.nodes[tape.launching_events]] >= 0
    return bool(len(inside)) and bool(inside.mean() >= MOSTLY)


def _syncs_first(m: Measurements) -> str:
    """That syncs have to go first; how long they wait where the budget shows none."""
    if not hides_waits(m):
        return text("cuda_graph", "syncs_first")
    return text("cuda_graph", "hidden_first").replace("{waits}", waits_in_words(m))


def _mostly_sends(m: Measurements) -> bool:
    """Whether the host spends most of a step on sending small tensors one by one, which no graph
    takes from it."""
    found = small_copies(m.timed)
    return found is not None and found.host_ms >= MOSTLY * m.mean_step_ms


def _static_first(tape: Tape) -> Offer:
    """A graph of a decode whose cache has a fixed size."""
    how = Words(
        text("cuda_graph", "inference"), text("cuda_graph", "other"), text("cuda_graph", "jax")
    )
    return Offer(_preceded(text("cuda_graph", "static_first"), how), STATIC)


def _preceded(first: str, how: Words) -> Words:
    """The words for PyTorch, for others and for JAX, each after what has to be done first."""
    texts = (how.pytorch, how.cuda or "", how.jax or "")
    following = (f"{one[:1].lower()}{one[1:]}" for one in texts)
    return Words(*(first.format(how=one) for one in following))


def grows(tape: Tape) -> bool:
    """Whether each step launches the same kernels, some with more blocks from step to step: what
    was kept of the steps before becomes longer."""
    launched = _launched(tape)
    if len(launched) < LEAST_GROWING or any(one.names != launched[0].names for one in launched):
        return False
    sizes = np.array([one.blocks for one in launched])
    changes = np.diff(sizes, axis=0)
    return bool((changes >= 0).all() and (changes > 0).any())


def waits_within(tape: Tape) -> bool:
    """Whether the host waits for the device between two launches of a step: it needs what a graph
    cannot give it (but for a loss that is read after the first launches, or before the last), or
    brings from pageable memory what a graph cannot hold, other than before the step's first
    kernel."""
    launching, first = np.unique(tape.event[~tape.reads[tape.event]], return_index=True)
    step = tape.step_of_op[~tape.reads[tape.event]][first]
    kernels = np.cumsum(tape.events_of(tape.compute))
    begins = np.flatnonzero(where_changed(tape.step_of_event))
    events = np.diff(begins, append=len(kernels))
    before_step = np.repeat(np.append(0, kernels)[begins], events)
    copied = follows_pageable_copy(tape) & tape.waits
    reading = is_read(tape)
    waiting = np.flatnonzero(reading | (copied & (kernels > before_step)))
    position = np.searchsorted(launching, waiting, side="right")
    inside = (position > 0) & (position < len(launching))
    between = position[inside]
    at_edge = reading[waiting[inside]] & _at_edge(step, between)
    return bool(((step[between - 1] == step[between]) & ~at_edge).any())


def _at_edge(step: I32, between: I64) -> Bool:
    """Whether before each of these launches, of which the steps are given, few of its step's were
    made, or few are left."""
    begun = np.searchsorted(step, step)[between]
    ended = np.searchsorted(step, step, side="right")[between]
    few = EDGE_SHARE * (ended - begun)
    return np.minimum(between - begun, ended - between) <= few


def same_every_step(tape: Tape) -> bool:
    """Whether each step launches the same kernels with the same grids, or each second, third or
    fourth does (the calls of one iteration by turns): what a graph holds cannot change. The last of
    several may lack its end, where the recording stops within it."""
    launched = _launched(tape)
    return any(_repeats(launched, period) for period in range(1, MOST_CALLS + 1))


class _Kernels(NamedTuple):
    """What a step launches, in order: codes of names, and grids."""

    names: list[int]
    blocks: list[int]

    def begins(self, other: "_Kernels") -> bool:
        """Whether these are most of another step's kernels, from its first one on."""
        length = len(self.names)
        is_most = length >= MOSTLY * len(other.names)
        return is_most and self == _Kernels(other.names[:length], other.blocks[:length])


def _launched(tape: Tape) -> list[_Kernels]:
    """Each step's kernels."""
    ops = tape.source.trace.device_ops
    step = tape.step_of_op
    kernel = tape.compute & tape.source.linked.is_kernel[tape.row]
    chosen = (tape.row[kernel & (step == one)] for one in distinct(step).tolist())
    return [_Kernels(ops.name[rows].tolist(), ops.blocks[rows].tolist()) for rows in chosen]


def _repeats(launched: Sequence[_Kernels], period: int) -> bool:
    """Whether these come again after so many of them, at least once whole."""
    if period > 1 and len(launched) < 2 * period:
        return False
    if not launched:
        return True
    *before_last, last = launched
    if any(one != launched[i % period] for i, one in enumerate(before_last)):
        return False
    usual = launched[len(before_last) % period]
    may_be_cut = len(before_last) >= 2 * period
    return last == usual or (may_be_cut and last.begins(usual))


@remedy(
    "compile",
    "launch",
    LEAST_OF_COMPILE,
    PESSIMISTIC_COMPILE,
    costs_host=True,
)
def compile_model(m: Measurements) -> Offer | None:
    """Where PyTorch runs eagerly and small operators follow each other, unless gradients are
    differentiated again. Not under DDP or FSDP, whose hooks cut the compiled code and stay: of
    three such programs that were timed one became 17 % faster, one 5 %, and one took three quarters
    longer."""
    known = program(m)
    if not known.pytorch or known.compiled or known.in_graphs or known.ddp or known.fsdp:
        return None
    tape = tape_of(m)
    if tape is not None and _mostly_sorts(m, tape):
        return Offer(words("compile", "of_lookups"), COMPILED, against=("gpu-busy", "memory"))
    fewer_passes = m.replay is not None and m.replay.saved_by_kernels(COMPILED)
    return Offer(
        words("compile"), COMPILED, against=("memory-chains", "memory") if fewer_passes else None
    )


def _mostly_sorts(m: Measurements, tape: Tape) -> bool:
    """Whether gradients of lookups, whose indices are sorted, take a good part of the step."""
    sorting = tape.memo(sorted_gradients).ops
    sorting_ns = float(tape.duration[sorting].sum()) / tape.steps
    return sorting_ns >= SORTING_SHARE * m.step.step_ms * NS_PER_MS


@remedy("larger_batch", "launch", LEAST_OF_BATCH, PESSIMISTIC_BATCH)
def larger_batch(m: Measurements) -> Offer | None:
    """Where the GPU is idle because the CPU cannot launch fast enough, or is busy with work of
    which a part is the same for any batch; a model multiplies matrices (else nothing shows that
    there is a batch), and the program has memory to spare as far as the recording shows."""
    tape = tape_of(m)
    if tape is None or not _has_room(m, tape):
        return None
    launches = m.step.idle is not None and m.step.idle.launch >= LEAST_IDLE * m.step.step_ms
    which = "train" if program(m).training else "serve"
    if launches:
        by_shapes = BY_SHAPES[GREATER_BATCH]
        known = by_shapes.change(tape) is not None
        how = words("larger_batch", which, times=GREATER_BATCH)
        return Offer(how, by_shapes if known else ENLARGED, changes_work=True)
    return _twice_the_batch(m, tape, which)


def _has_room(m: Measurements, tape: Tape) -> bool:
    """Whether a model multiplies matrices, and nothing shows that memory is short: no parameters
    are sharded, no activations calculated twice, no gradients added up over parts of a batch."""
    spared = recomputed(tape).any() or repeated_reductions(tape).any()
    multiplies = tape.source.linked.is_matrix[tape.row].any()
    return bool(multiplies) and not program(m).fsdp and not spared


def _twice_the_batch(m: Measurements, tape: Tape, which: str) -> Offer | None:
    """Where the GPU is busy, and shapes tell what its own work takes at another batch."""
    budget = m.step.budget
    double = BY_SHAPES[DOUBLE]
    busy = budget is not None and budget.compute >= BUSY_SHARE * m.step.step_ms
    if not busy or double.change(tape) is None:
        return None
    how = words("larger_batch", f"double_{which}")
    return Offer(how, double, changes_work=True, against=(GPU_BUSY, "compute"))
