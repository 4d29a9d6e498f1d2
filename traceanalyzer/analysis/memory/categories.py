"""What each allocation is of: parameters, gradients, optimizer state, activations, temporaries.

A snapshot does not say. It is inferred, in this order: the stack (`Module.to`, an optimizer's
file), the phase that allocated it against the one that freed it, and, where the history ends first,
sizes that equal a parameter's and what became of earlier allocations of the same line."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from traceanalyzer.analysis.memory import phases
from traceanalyzer.analysis.memory.lives import Allocations
from traceanalyzer.analysis.memory.phases import HistoryTimeline
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import Bool, distinct
from traceanalyzer.trace.snapshot import I8, I64, Frame, Stack

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
MAKES_PARAMETERS = regex(
    r"^(_apply|convert|reset_parameters|to_empty|load_state_dict|from_pretrained|_init_weights|register_parameter|"
    r"_load_state_dict_into_meta_model|set_module_tensor_to_device|materialize_meta_module|_init_flat_param\w*)$"
)
OF_MODULES = regex(r"torch/nn/|torch/distributed/(fsdp|_composable|tensor)/")
"""Files of modules, and of what shards them."""
BUCKETS = regex(r"torch/nn/parallel/distributed\.py$")


STACK_RULES: tuple[tuple[int, Callable[[Frame], object]], ...] = (
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
"""A category, and the frames that give it away. The first rule that any frame of a stack fits
decides."""


@dataclass(frozen=True, eq=False)
class _Facts:
    """What the history tells of each life: the stack's category, the phase that it was born in, and
    how long it lasts, by the runs of one phase and by the steps."""

    kind: I8  # the category of its stack
    phase: I8
    trains: bool
    before: Bool  # born before the history
    of_setup: Bool  # born before the steps, by no optimizer
    same_run: Bool  # freed in the run of its phase that it was born in
    same_step: Bool
    in_time: (
        Bool  # freed in the next step at the latest; in its own where the program does not train
    )
    live_at_end: Bool
    of_last_step: Bool  # born in it, and live at the end
    of_last_run: Bool  # born in it, and live at the end

    @property
    def forward(self) -> Bool:
        return self.phase == phases.FORWARD

    @property
    def backward(self) -> Bool:
        return self.phase == phases.BACKWARD

    @property
    def optimizer(self) -> Bool:
        return self.phase == phases.OPTIMIZER


LIFE_RULES: tuple[tuple[int, Callable[[_Facts], Bool]], ...] = (
    (ACTIVATIONS, lambda f: f.forward & f.in_time),
    (TEMPORARIES, lambda f: f.forward & f.same_run),
    (TEMPORARIES, lambda f: f.forward & f.same_step & (not f.trains)),
    (UNKNOWN, lambda f: f.forward & f.of_last_step),
    (GRADIENTS, lambda f: f.backward),
    (UNKNOWN, lambda f: f.backward & f.live_at_end),
    (TEMPORARIES, lambda f: f.backward & f.same_run),
    (ACTIVATIONS, lambda f: f.backward & f.same_run & (f.kind == ACTIVATIONS)),
    (STATE, lambda f: f.optimizer),
    (TEMPORARIES, lambda f: f.optimizer & f.same_run),
    (UNKNOWN, lambda f: f.optimizer & f.of_last_run & (f.kind != STATE)),
    (TEMPORARIES, lambda f: f.of_setup & f.same_step),
    (PARAMETERS, lambda f: (f.kind == PARAMETERS) & ~f.same_run),
    (GRADIENTS, lambda f: (f.kind == GRADIENTS) & ~f.same_run),
    (STATE, lambda f: (f.kind == STATE) & ~f.same_run & f.of_setup),
    (TEMPORARIES, lambda f: f.phase == phases.ZERO_GRAD),
    (BEFORE, lambda f: f.before),
    # the allocator kept the stack, not the history
    (PARAMETERS, lambda f: f.before & (f.kind == PARAMETERS)),
    (STATE, lambda f: f.before & (f.kind == STATE)),
)
"""A category, and the lives that are of it; UNKNOWN where the history ends too early to tell. The
last rule that fits decides."""


def categories_of(lives: Allocations, timeline: HistoryTimeline, stacks: Sequence[Stack]) -> I8:
    """The category (index into CATEGORIES) of every life."""
    kinds = np.array([*map(_category_of_stack, stacks)], np.int8)
    if not lives.n_events:
        return _before_history(kinds[lives.stack])
    result = np.empty(len(lives), np.int8)
    is_setup = np.empty(len(lives), bool)
    for rows, part in lives.parts():
        facts = _facts(part, timeline, kinds[part.stack])
        result[rows] = _by_lifetime(facts)
        is_setup[rows] = facts.of_setup & ~facts.same_step
    phase = phase_of(lives, timeline)
    _resolve_by_line(result, lives, phase)
    _resolve_by_size(result, lives, phase, is_setup)
    return result


def _resolve_by_size(result: I8, lives: Allocations, phase: I8, is_setup: Bool) -> None:
    """Give the rest a category by sizes: gradients are as large as parameters, parameters as
    gradients."""
    gradients = lives.requested[result == GRADIENTS]
    of_setup = np.flatnonzero(is_setup & (result == OTHER))
    is_matched = np.isin(lives.requested[of_setup], gradients[gradients >= LEAST_MATCHED])
    result[of_setup[is_matched]] = PARAMETERS
    left = np.flatnonzero(result == UNKNOWN)
    known = np.append(lives.requested[result == PARAMETERS], gradients)
    as_large = np.isin(lives.requested[left], known)
    # what else the backward made and nothing freed is a workspace if older than the last tenth,
    # else in use
    otherwise = np.where(lives.born[left] < 0.9 * lives.n_events, OTHER, TEMPORARIES)
    of_backward = np.where(as_large, GRADIENTS, otherwise)
    of_others = np.where(phase[left] == phases.OPTIMIZER, TEMPORARIES, ACTIVATIONS)
    result[left] = np.where(phase[left] == phases.BACKWARD, of_backward, of_others)


def _before_history(kind: I8) -> I8:
    """The category of lives from before the history, of which only the stack is known."""
    return np.where(np.isin(kind, (PARAMETERS, STATE)), kind, np.int8(BEFORE))


def _category_of_stack(stack: Stack) -> int:
    """The category that a function on the stack gives away; UNKNOWN for most stacks."""
    return next((kind for kind, fits in STACK_RULES if any(map(fits, stack))), UNKNOWN)


def phase_of(lives: Allocations, timeline: HistoryTimeline) -> I8:
    """The phase that each life began in; of those from before the history, that of its first
    event."""
    return timeline.phase[np.maximum(lives.born, 0)]


def _by_lifetime(facts: _Facts) -> I8:
    """The category by phase and lifetime."""
    result = np.full(len(facts.phase), OTHER, np.int8)
    for category, is_of in LIFE_RULES:
        result[is_of(facts)] = category
    return result


def _facts(lives: Allocations, timeline: HistoryTimeline, kind: I8) -> _Facts:
    phase = phase_of(lives, timeline)
    last_row = lives.n_events - 1
    born = np.maximum(lives.born, 0)
    freed = np.minimum(lives.freed, last_row)
    live_at_end = lives.freed >= lives.n_events
    run = np.searchsorted(timeline.bounds, born, side="right")
    run_freed = np.searchsorted(timeline.bounds, freed, side="right")
    step = timeline.steps.of(born)
    step_freed = timeline.steps.of(freed)
    same_step = ~live_at_end & (step == step_freed)
    next_step = ~live_at_end & (step_freed - step <= 1)
    return _Facts(
        kind=kind,
        phase=phase,
        trains=timeline.trains,
        before=lives.born < 0,
        of_setup=(step < 0) & (phase != phases.OPTIMIZER),
        same_run=~live_at_end & (run == run_freed),
        same_step=same_step,
        in_time=next_step if timeline.trains else same_step,
        live_at_end=live_at_end,
        of_last_step=live_at_end & (step >= timeline.steps.of(np.array(last_row))),
        of_last_run=live_at_end & (run == len(timeline.bounds)),
    )


def _resolve_by_line(result: I8, lives: Allocations, phase: I8) -> None:
    """Give each life that the history's end leaves open the category of most others of its stack
    and phase."""
    open_rows = np.flatnonzero((result == UNKNOWN) & (lives.stack > 0))
    if not len(open_rows):
        return
    asked = distinct(lives.stack[open_rows])
    votes: dict[tuple[int, int], Counter[int]] = {}
    for rows, part in lives.parts():
        known = (result[rows] != UNKNOWN) & np.isin(part.stack, asked)
        cells = np.stack((part.stack[known], phase[rows][known], result[rows][known]))
        for (stack, where, category), count in _counted(cells):
            votes.setdefault((stack, where), Counter())[category] += count
    for row in open_rows.tolist():
        counted = votes.get((int(lives.stack[row]), int(phase[row])))
        if counted:
            result[row] = counted.most_common(1)[0][0]


def _counted(cells: I64) -> Iterable[tuple[list[int], int]]:
    """The distinct columns, each with how often it is there."""
    found, counts = np.unique(cells, axis=1, return_counts=True)
    return zip(found.T.tolist(), counts.tolist(), strict=True)
