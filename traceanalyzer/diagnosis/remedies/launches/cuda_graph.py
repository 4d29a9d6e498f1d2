"""The step in a CUDA graph, where it can be captured, and what has to go before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.replay.changes.capture import captured, captured_after_reads, captured_but_work
from traceanalyzer.analysis.replay.changes.syncs import follows_pageable_copy, is_read
from traceanalyzer.analysis.replay.on_tape import events_of, step_of_event
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program, reduced_by_hooks, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.diagnosis.remedies.program import Program
    from traceanalyzer.trace import Bool

SCENARIO = Scenario(
    "cuda_graph",
    captured,
    "the step is one CUDA graph: no dispatch, and no short work of the host between its launches (upper end: that work "
    "stays)",
    cautious=captured_but_work,
)
AFTER_SYNCS = Scenario(
    "remove_syncs+cuda_graph",
    captured_after_reads,
    "the syncs are gone, and the step is one CUDA graph",
    missing="the host does not wait for the GPU",
)
INFERENCE = "Capture the step: torch.compile(model, mode='reduce-overhead'), or torch.cuda.graph around fixed inputs."
TRAINING = (
    "Capture the step: torch.cuda.make_graphed_callables(model, sample_args); or the whole step in torch.cuda.graph, "
    "with AdamW(capturable=True) and static inputs."
)
OTHER = "Capture the step in a CUDA graph (cudaStreamBeginCapture, cudaGraphLaunch)."
FIRST = "Remove the syncs first (no graph can hold one), then "


def offer(m: Measurements) -> Offer | None:
    """Where the same kernels are launched every step, nothing shards parameters, and no graph launches them already.
    Gradients that hooks reduce with the backward pass are no part of a graph that a few lines would make."""
    tape, known = tape_of(m), program(m)
    if tape is None or known.in_graphs or known.fsdp or not same_every_step(tape):
        return None
    if tape.communication.any() and reduced_by_hooks(m):
        return None
    if waits_within(tape):
        how = _how(known)
        return Offer(f"{FIRST}{how[0].lower()}{how[1:]}", AFTER_SYNCS, after=("remove_syncs",))
    return Offer(_how(known), SCENARIO)


def _how(known: Program) -> str:
    if not known.pytorch:
        return OTHER
    return TRAINING if known.training else INFERENCE


def waits_within(tape: Tape) -> bool:
    """Whether the host waits for the device between two launches of a step: it needs what a graph cannot give it, or
    brings from pageable memory what a graph cannot hold, other than before the step's first kernel."""
    launching, first = np.unique(tape.event[~tape.reads[tape.event]], return_index=True)
    step = tape.step_of_op[~tape.reads[tape.event]][first]
    waiting = is_read(tape) | (follows_pageable_copy(tape) & tape.waits & _kernels_before(tape))
    position = np.searchsorted(launching, np.flatnonzero(waiting), side="right")
    between = position[(position > 0) & (position < len(launching))]
    return bool((step[between - 1] == step[between]).any())


def _kernels_before(tape: Tape) -> Bool:
    """Which events have a kernel of their step before them."""
    kernels = np.cumsum(events_of(tape, tape.compute))
    first = np.flatnonzero(where_changed(step_of_event(tape)))
    earlier = np.append(0, kernels)[first]
    result: Bool = kernels > np.repeat(earlier, np.diff(first, append=len(kernels)))
    return result


def same_every_step(tape: Tape) -> bool:
    """Whether each step launches the same kernels with the same grids: what a graph holds cannot change."""
    ops, step = tape.source.trace.device_ops, tape.step_of_op
    kernel = tape.compute & tape.source.is_kernel[tape.row]
    launched = [
        (ops.name[rows].tolist(), ops.blocks[rows].tolist())
        for one in distinct(step).tolist()
        for rows in [tape.row[kernel & (step == one)]]
    ]
    return all(one == launched[0] for one in launched)


LEAST_GAIN = 0.05
"""Fixed inputs and a capture are work, and the pauses between queued kernels alone are not worth it."""
REMEDY = Remedy("cuda_graph", "launch", "launch-bound", offer, LEAST_GAIN)
