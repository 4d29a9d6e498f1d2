"""What each allocation is of: parameters, gradients, optimizer state, activations, temporaries.

A snapshot does not say. It is inferred, in this order: the stack (`Module.to`, an optimizer's
file), the phase that allocated it against the one that freed it, and, where the history ends first,
sizes that equal a parameter's and what became of earlier allocations of the same line."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.memory import phases
from traceanalyzer.analysis.memory.lives import Lives
from traceanalyzer.analysis.memory.phases import Timeline
from traceanalyzer.trace import distinct
from traceanalyzer.trace.snapshot import I8, Frame, Stack

CATEGORIES = (
    "parameters",
    "gradients",
    "optimizer_state",
    "activations",
    "temporaries",
    "other",
    "before_recording",
)
PARAMETERS, GRADIENTS, STATE, ACTIVATIONS, TEMPORARIES, OTHER, BEFORE = range(7)
UNKNOWN = -1
LEAST_MATCHED = 4096  # sizes below are shared by too many tensors to tell anything (bytes)
MAKES_PARAMETERS = re.compile(
    r"^(_apply|convert|reset_parameters|to_empty|load_state_dict|from_pretrained|_init_weights|register_parameter|"
    r"_load_state_dict_into_meta_model|set_module_tensor_to_device|materialize_meta_module|_init_flat_param\w*)$"
)
OF_MODULES = re.compile(r"torch/nn/|torch/distributed/(fsdp|_composable|tensor)/")
"""Files of modules, and of what shards them."""
BUCKETS = re.compile(r"torch/nn/parallel/distributed\.py$")


SPEAKS: tuple[
    tuple[int, Callable[[Frame], object]], ...
] = (  # of a stack: the first that any frame does counts
    (STATE, lambda frame: frame.name == "_init_group"),
    (ACTIVATIONS, lambda frame: phases.CHECKPOINT_FILE.search(frame.file)),
    (STATE, lambda frame: phases.OPTIMIZER_FILE.search(frame.file)),
    (
        GRADIENTS,
        lambda frame: BUCKETS.search(frame.file) and frame.name in ("__init__", "_ddp_init_helper"),
    ),
    (PARAMETERS, lambda frame: MAKES_PARAMETERS.search(frame.name)),
    (PARAMETERS, lambda frame: frame.name == "__init__" and OF_MODULES.search(frame.file)),
)


def categories_of(lives: Lives, timeline: Timeline, stacks: Sequence[Stack]) -> I8:
    """The category (index into CATEGORIES) of every life."""
    kinds = np.array(
        [next((k for k, speaks in SPEAKS if any(map(speaks, s))), UNKNOWN) for s in stacks], np.int8
    )
    if not lives.n_events:
        kind = kinds[lives.stack]
        return np.where(np.isin(kind, (PARAMETERS, STATE)), kind, np.int8(BEFORE))
    result = np.empty(len(lives), np.int8)
    is_setup = np.empty(len(lives), bool)
    for rows, part in lives.parts():
        result[rows], is_setup[rows] = _by_lifetime(part, timeline, kinds[part.stack])
    phase = phase_of(lives, timeline)
    _resolve_by_line(result, lives, phase)
    # the rest by sizes: gradients are as large as parameters, parameters as gradients
    gradients = lives.requested[result == GRADIENTS]
    of_setup = np.flatnonzero(is_setup & (result == OTHER))
    is_matched = np.isin(lives.requested[of_setup], gradients[gradients >= LEAST_MATCHED])
    result[of_setup[is_matched]] = PARAMETERS
    left = np.flatnonzero(result == UNKNOWN)
    is_backward = phase[left] == phases.BACKWARD
    as_large = np.isin(
        lives.requested[left], np.append(lives.requested[result == PARAMETERS], gradients)
    )
    # what else the backward made and nothing freed is a workspace if older than the last tenth,
    # else in use
    made = np.where(lives.born[left] < 0.9 * lives.n_events, OTHER, TEMPORARIES)
    of_others = np.where(phase[left] == phases.OPTIMIZER, TEMPORARIES, ACTIVATIONS)
    result[left] = np.where(is_backward, np.where(as_large, GRADIENTS, made), of_others)
    return result


def phase_of(lives: Lives, timeline: Timeline) -> I8:
    """The phase that each life began in; of those from before the history, that of its first
    event."""
    return timeline.phase[np.maximum(lives.born, 0)]


def _by_lifetime(lives: Lives, timeline: Timeline, kind: I8) -> tuple[I8, NDArray[np.bool_]]:
    """The category by phase and lifetime, UNKNOWN where the history ends first; what is kept from
    before the steps."""
    n = lives.n_events
    born = np.maximum(lives.born, 0)
    freed = np.minimum(lives.freed, n - 1)
    phase = timeline.phase[born]
    ended = lives.freed >= n
    bounds = timeline.bounds
    run, run_freed = (np.searchsorted(bounds, rows, side="right") for rows in (born, freed))
    step, step_freed, last_step = (
        timeline.steps.of(rows) for rows in (born, freed, np.array(n - 1))
    )
    same_run = ~ended & (run == run_freed)
    same_step = ~ended & (step == step_freed)
    next_step = ~ended & (step_freed - step <= 1)
    open_end = ended & (step >= last_step)
    setup = (step < 0) & (phase != phases.OPTIMIZER)

    result = np.full(len(lives), OTHER, np.int8)
    forward = phase == phases.FORWARD
    backward = phase == phases.BACKWARD
    optimizer = phase == phases.OPTIMIZER
    lasting = next_step if timeline.trains else same_step
    result[forward] = np.where(same_run, TEMPORARIES, np.where(lasting, ACTIVATIONS, OTHER))[
        forward
    ]
    if not timeline.trains:
        result[forward & same_step] = TEMPORARIES
    result[forward & open_end] = UNKNOWN
    result[backward] = np.where(same_run, TEMPORARIES, np.where(ended, UNKNOWN, GRADIENTS))[
        backward
    ]
    result[backward & same_run & (kind == ACTIVATIONS)] = ACTIVATIONS
    result[optimizer] = np.where(same_run, TEMPORARIES, STATE)[optimizer]
    result[optimizer & ended & (run == len(bounds)) & (kind != STATE)] = UNKNOWN
    result[setup & same_step] = TEMPORARIES
    result[(kind == PARAMETERS) & ~same_run] = PARAMETERS
    result[(kind == GRADIENTS) & ~same_run] = GRADIENTS
    result[(kind == STATE) & ~same_run & ~optimizer & setup] = STATE
    result[phase == phases.ZERO_GRAD] = TEMPORARIES
    result[lives.born < 0] = BEFORE
    told = (lives.born < 0) & np.isin(
        kind, (PARAMETERS, STATE)
    )  # the allocator kept the stack, not the history
    result[told] = kind[told]
    return result, setup & ~same_step


def _resolve_by_line(result: I8, lives: Lives, phase: I8) -> None:
    """What the history's end leaves open becomes what most others of the same stack and phase
    were."""
    if not len(open_rows := np.flatnonzero((result == UNKNOWN) & (lives.stack > 0))):
        return
    asked = distinct(lives.stack[open_rows])
    votes: dict[tuple[int, int], Counter[int]] = {}
    for rows, part in lives.parts():
        known = (result[rows] != UNKNOWN) & np.isin(part.stack, asked)
        cells = np.stack((part.stack[known], phase[rows][known], result[rows][known]))
        found, counts = np.unique(cells, axis=1, return_counts=True)
        for (stack, where, category), count in zip(found.T.tolist(), counts.tolist(), strict=True):
            votes.setdefault((stack, where), Counter())[category] += count
    for row in open_rows.tolist():
        if counted := votes.get((int(lives.stack[row]), int(phase[row]))):
            result[row] = counted.most_common(1)[0][0]
