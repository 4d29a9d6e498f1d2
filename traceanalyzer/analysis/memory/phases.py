"""The phase and the step of every event of the history, from stacks and annotations.

Stacks are the Python stacks of the thread that allocated. The backward pass runs on a thread of
autograd's, which has none of Python (or begins inside torch/autograd), so that an event without a
stack is of the backward where the program has one."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np

from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I32, Bool
from traceanalyzer.trace.snapshot import CODE, I8, I64, AllocationEvents, Snapshot, Stack

PHASES = ("forward", "backward", "optimizer", "zero_grad", "other")
FORWARD, BACKWARD, OPTIMIZER, ZERO_GRAD, OTHER = range(5)
PROGRAM = 5  # labels of stacks that do not name their phase themselves
NO_STACK = 6
MOST_UPDATES = 4  # updates of a step that are told apart from steps
MIN_STEPS = 3  # a stack that comes back less often is no sign of a step
MOST_PERIODS = 20
"""Counts of stacks that are tried as the number of steps, the smallest first: layers come more
often than steps."""
EVEN_SHARE = 0.9  # share of the allocations that have to come equally often in each step

OPTIMIZER_FILE = regex(
    r"^(?!.*torch/nn/).*(/optim/|/optimizers?/|optimizer\.py|/(fused_)?(adam|lamb|sgd|adagrad|lion|novograd)\w*\.py$)"
)
AUTOGRAD_FILE = regex(r"torch/(autograd|_functorch/_aot_autograd)/|torch/_tensor\.py$")
CHECKPOINT_FILE = regex(r"torch/utils/checkpoint\.py$")
ENGINE = regex(
    r"torch::autograd::(Engine|.*Backward)|PythonEngine|AccumulateGrad|_engine_run_backward"
)
MODULE_FILE = regex(r"torch/nn/modules/module\.py$")
UPDATE_FILE = regex(r"torch/(nn/utils/clip_grad|(cuda/)?amp/grad_scaler)\.py$")
"""Clipping and unscaling of gradients: part of the update, with GradScaler's `scale` left out."""
TORCH_FILE = regex(
    r"/torch/((nn|autograd|utils|distributed|optim|amp|cuda|func|fx|_\w+)/|_\w+\.py$|functional\.py$)"
)
LIBRARY = regex(
    r"site-packages|dist-packages|/lib/python\d|^<|^\?\?$|^$|\.(cpp|cc|h|cu)$|/torchinductor_\w+/|"
    + TORCH_FILE.pattern
)
OPERATOR = regex(r"\b((?=\w*?Backward)\w++|AccumulateGrad)::|\bat::_ops::(\w+)::")
"""What a frame of C++ says of the operator: the node of autograd, or the operator itself."""
ALLOCATING = regex(
    r"torch::unwind|CapturedTraceback|CachingAllocator|^c10::(cuda|hip|xpu)::|^(at|c10)::\w*[Aa]lloc"
)
"""Frames of the recorder and of the allocator, innermost in stacks of stacks='all'."""


@dataclass(frozen=True)
class HistorySteps:
    """`ends[k]` is the row of the history where step k ends and the next begins; the first one
    begins at `start`."""

    start: int
    ends: tuple[int, ...]
    source: str  # what told the steps: annotation, optimizer, zero_grad, backward, stacks, none

    def of(self, rows: I64) -> I64:
        """The step of each row; -1 before the first, the number of steps after the last."""
        return np.where(
            rows < self.start,
            -1,
            np.searchsorted(np.array(self.ends, np.int64), rows, side="right"),
        )


@dataclass(frozen=True)
class HistoryTimeline:
    """Phase of every event (index into PHASES) and the steps. `known` is False where nothing told a
    phase."""

    phase: I8
    steps: HistorySteps
    trains: bool
    known: bool
    quiet: tuple[
        tuple[int, int], ...
    ] = ()  # (row, phase) of annotated phases that allocated nothing

    @cached_property
    def bounds(self) -> I64:
        """Rows at which another phase or another step begins; 0 is none."""
        changes = np.flatnonzero(self.phase[1:] != self.phase[:-1]) + 1
        steps = np.array((self.steps.start, *self.steps.ends), np.int64)
        return np.union1d(changes, steps[(steps > 0) & (steps < len(self.phase))])


ANY = regex("")
SIGNS = (  # functions and files, the first that a frame has, and the phase that it is of
    (regex(r"^_?zero_grad$"), ANY, ZERO_GRAD),
    (regex(r"^(__init__|add_param_group)$"), OPTIMIZER_FILE, OTHER),
    (ANY, OPTIMIZER_FILE, OPTIMIZER),
    (regex(r"^scale$"), UPDATE_FILE, PROGRAM),
    (ANY, UPDATE_FILE, OPTIMIZER),
    (ENGINE, ANY, BACKWARD),
    (regex(r"^backward$"), AUTOGRAD_FILE, BACKWARD),
)
DECIDES = (ZERO_GRAD, BACKWARD)  # phases that one frame of a stack tells, whatever the others are


@lru_cache(maxsize=1 << 16)
def _sign(name: str, file: str) -> tuple[int, bool]:
    """The phase that a frame is of, and whether it says so though one inside of it says another."""
    for function, place, label in SIGNS:
        if function.search(name) and place.search(file):
            return label, place is not OPTIMIZER_FILE
    return PROGRAM, False


def label_of(stack: Stack) -> int:
    """The phase that a stack is of, as far as it tells."""
    found = PROGRAM
    for frame in stack:
        label, overrides = _sign(frame.name, frame.file)
        if label in DECIDES:
            return label
        if overrides or found == PROGRAM:
            found = label
    if found != PROGRAM:
        return found
    if stack and stack[-1].name != "<module>" and TORCH_FILE.search(stack[-1].file):
        return BACKWARD  # a thread of autograd's begins so
    return (
        PROGRAM
        if any(frame.file.endswith(".py") and "::" not in frame.name for frame in stack)
        else NO_STACK
    )


def timeline_of(events: AllocationEvents, snapshot: Snapshot, device: int) -> HistoryTimeline:
    """Phases and steps of one GPU's history."""
    labels = np.array([label_of(stack) for stack in snapshot.stacks], np.int8)
    raw = labels[events.stack] if len(events) else np.empty(0, np.int8)
    quiet = []
    for name, annotated in (("Optimizer.step#", OPTIMIZER), ("Optimizer.zero_grad#", ZERO_GRAD)):
        for start_us, end_us in _ranges(snapshot, device, name):
            lo = events.row_at(start_us)
            hi = events.row_at(end_us, "right")
            raw[lo:hi] = annotated
            if lo == hi and 0 < lo < len(events):
                quiet.append((lo, annotated))
    trains = bool(np.isin(raw, (BACKWARD, OPTIMIZER, ZERO_GRAD)).any())
    named = bool((raw < NO_STACK).any())
    phase = np.where(raw == NO_STACK, BACKWARD if trains and named else OTHER, raw)
    steps = steps_of(events, snapshot, device, raw)
    phase = _of_program(phase, events, steps)
    before = phase[: steps.start]
    before[before == FORWARD] = OTHER
    return HistoryTimeline(phase, steps, trains, named, tuple(quiet))


def _of_program(phase: I8, events: AllocationEvents, steps: HistorySteps) -> I8:
    """The program's own code is the forward pass, but for what follows the backward and comes
    before the update, or the update and before zero_grad. What it frees before it allocates (the
    loss) belongs to what is before it."""
    result = _after_frees(phase, events, steps)
    starts = _starts(result)
    labels = result[starts].tolist()
    ends = [*starts[1:].tolist(), len(result)]
    around = (None, *labels, None, None)
    for i, label in enumerate(labels):
        if label == PROGRAM:
            before, _, after, later = around[i : i + 4]
            idles = (before, after) == (BACKWARD, OPTIMIZER)
            idles |= (before, after) == (OPTIMIZER, ZERO_GRAD) and later not in (BACKWARD, None)
            result[starts[i] : ends[i]] = OTHER if idles else FORWARD
    return result


def _starts(labels: I8) -> I64:
    if not len(labels):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.append(True, np.diff(labels) != 0))


def _after_frees(phase: I8, events: AllocationEvents, steps: HistorySteps) -> I8:
    """The labels, the program's events before its next allocation with the one before, or between
    steps with OTHER."""
    result = phase.copy()
    starts = _starts(phase)
    rows = np.flatnonzero(events.action == CODE["alloc"]).astype(np.int32)
    allocates = np.append(rows, np.int32(len(phase)))
    step_ends = np.append(steps.ends, len(phase)).astype(np.int64)
    ends = np.append(starts[1:], len(phase))
    until = np.minimum(allocates[np.searchsorted(allocates, starts)], ends)
    cuts = np.minimum(step_ends[np.searchsorted(step_ends, starts)], until)
    stretches = np.stack((starts, cuts, until), axis=1)
    for at, cut, end in stretches[1:].tolist():
        if phase[at] == PROGRAM:
            result[at:cut] = result[at - 1]
            result[cut:end] = OTHER
    return result


def _ranges(snapshot: Snapshot, device: int, name: str) -> list[tuple[int, int]]:
    begun: dict[str, list[int]] = {}
    ranges = []
    for a in snapshot.annotations:
        if not a.name.startswith(name) or a.device not in (device, -1):
            continue
        if a.is_start:
            begun.setdefault(a.name, []).append(a.time_us)
        elif begun.get(a.name):
            ranges.append((begun[a.name].pop(), a.time_us))
    return sorted(ranges)


def steps_of(events: AllocationEvents, snapshot: Snapshot, device: int, labels: I8) -> HistorySteps:
    """The steps, by the best evidence that there is."""
    profiled = _ranges(snapshot, device, "ProfilerStep#")
    if len(profiled) >= MIN_STEPS:
        ends = tuple(events.row_at(end, "right") for _, end in profiled)
        return HistorySteps(events.row_at(profiled[0][0]), ends, "annotation")
    annotated = _ranges(snapshot, device, "Optimizer.step#")
    updated = [events.row_at(end, "right") for _, end in annotated]
    if len(updated) > 1:  # the gradients that are freed right after it are of the step
        is_other = ~np.isin(labels, (OPTIMIZER, ZERO_GRAD))
        others = np.append(np.flatnonzero(is_other), len(labels))
        after = others[np.searchsorted(others, updated)].tolist()
        return _with_start(events, after, labels, "annotation")
    updates = np.array(_runs(labels, (OPTIMIZER, ZERO_GRAD)), np.int64)
    # zero_grad right before the backward is in the middle of a step
    inside = np.isin(np.append(labels, OTHER)[updates], (BACKWARD, NO_STACK)) & (
        labels[updates - 1] != OPTIMIZER
    )
    runs = {"optimizer": updates[~inside].tolist(), "zero_grad": _runs(labels, (ZERO_GRAD,))}
    if OPTIMIZER in labels:
        source = max(runs, key=lambda name: len(runs[name]))
        if len(runs[source]) > 1 or not len(_runs(labels, (BACKWARD, NO_STACK))) > 1:
            return _with_start(events, runs[source], labels, source)
    if len(runs["zero_grad"]) > 1:
        return _with_start(events, runs["zero_grad"], labels, "zero_grad")
    if BACKWARD in labels:
        return _with_start(events, _runs(labels, (BACKWARD, NO_STACK)), labels, "backward")
    return periodic_steps(events, labels, snapshot.stacks)


def _runs(labels: I8, wanted: tuple[int, ...]) -> list[int]:
    """The ends of runs of these labels; what lies between two runs allocates in another phase."""
    inside = np.append(np.isin(labels, wanted), False)
    return (np.flatnonzero(inside[:-1] & ~inside[1:]) + 1).tolist()


def _with_start(events: AllocationEvents, ends: list[int], labels: I8, source: str) -> HistorySteps:
    """Ends without doubles, runs joined that no allocation lies between, and the first step's
    beginning."""
    allocates = np.flatnonzero(
        (events.action == CODE["alloc"]) & (labels != ZERO_GRAD) & (labels != OPTIMIZER)
    )
    kept: list[int] = []
    for end in ends:
        if not kept or np.searchsorted(allocates, end) > np.searchsorted(allocates, kept[-1]):
            kept.append(end)
        else:
            kept[-1] = end
    if not kept:
        return HistorySteps(0, (), "none")
    start = 0
    kept = _whole_steps(events, kept)
    if len(kept) > 1:  # the first step begins at the stack that the later ones begin with
        is_allocation = events.action[kept[0] : kept[1]] == CODE["alloc"]
        later = np.flatnonzero(is_allocation)[:20]
        stacks = events.stack[kept[0] + later]
        alike = (np.flatnonzero(events.stack[: kept[0]] == stack) for stack in stacks)
        start = next((int(rows[0]) for rows in alike if len(rows)), 0)
    return HistorySteps(start, tuple(kept), source)


def _whole_steps(events: AllocationEvents, ends: list[int]) -> list[int]:
    """Ends without those inside of a step: of updates that take turns (GAN, averaged weights), the
    last one's."""
    last = events.stack[np.array(ends) - 1]

    def repeat(stacks: I32, period: int) -> bool:
        return np.array_equal(stacks[period:], stacks[:-period])

    for updates in range(1, MOST_UPDATES + 1):
        tail = last[updates:]  # the first step makes what stays
        if len(tail) >= MIN_STEPS * updates and repeat(tail, updates):
            in_turn = len(set(tail[:updates].tolist())) == updates
            return ends[updates - 1 :: updates] if in_turn else ends
    return ends


def periodic_steps(
    events: AllocationEvents, labels: I8, stacks: Sequence[Stack] = ()
) -> HistorySteps:
    """Steps of a program without a backward, from allocations whose stacks come back in turn."""
    rows = np.flatnonzero((events.action == CODE["alloc"]) & (labels == PROGRAM))
    kinds, kind, counts = np.unique(events.stack[rows], return_inverse=True, return_counts=True)
    often = counts >= MIN_STEPS
    if stacks:
        often &= ~_of_layers([stacks[one] for one in kinds.tolist()], counts)
    if not often.any():
        return HistorySteps(0, (), "none")
    count = _steps_counted(kind, counts, often)
    anchors = [np.flatnonzero(kind == one) for one in np.flatnonzero(counts == count)]
    starts = rows[min(anchors, key=lambda at: int(at[0]))]
    # what follows the last step takes the program down
    last = int(starts[-1]) + int(np.median(np.diff(starts)))
    ends = (*starts[1:].tolist(), min(last, len(events)))
    return HistorySteps(int(starts[0]), ends, "stacks")


def _steps_counted(kind: I64, counts: I64, often: Bool) -> int:
    """How often stacks come that come with the steps: as those between which all others come
    equally often, else as most do."""
    times, votes = np.unique(counts[often], return_counts=True)
    usual = int(times[np.argmax(votes)])
    tried = times[times > MIN_STEPS][:MOST_PERIODS].tolist()
    return next((time for time in tried if _is_period(kind, counts, time)), usual)


def _of_layers(stacks: Sequence[Stack], counts: I64) -> Bool:
    """Which stacks may come back with the layers of a model instead of its steps: those within a
    module of the model, and within a model that does something else less often."""
    calls = [module_frames(stack) for stack in stacks]
    pairs = zip(stacks, calls, strict=True)
    model = [stack[at[-1] :] if at else None for stack, at in pairs]
    least: dict[Stack | None, int] = {}
    for of_model, count in zip(model, counts.tolist(), strict=True):
        least[of_model] = min(least.get(of_model, count), count)
    is_rarer = [least[one] < count for one, count in zip(model, counts.tolist(), strict=True)]
    rows = zip(calls, is_rarer, strict=True)
    return np.array([bool(at) and (len(at) > 1 or rarer) for at, rarer in rows], bool)


def _is_period(stacks: I64, counts: I64, count: int) -> bool:
    """Whether a stack that comes `count` times begins steps: between two of it, the others come
    equally often."""
    anchor = np.flatnonzero(stacks == np.flatnonzero(counts == count)[0])
    inside = np.arange(anchor[1], anchor[-1])
    if len(inside) < len(stacks[anchor[1] :]) // 2:
        return False  # a part of the program that is over soon
    step = np.searchsorted(anchor, inside, side="right")
    pairs = np.stack((stacks[inside], step))
    cells, number = np.unique(pairs, axis=1, return_counts=True)
    of_kind = np.bincount(cells[0], minlength=len(counts))
    most = np.zeros(len(counts), np.int64)
    least = np.full(len(counts), len(stacks))
    np.maximum.at(most, cells[0], number)
    np.minimum.at(least, cells[0], number)
    even = (most == least) & (of_kind == count - 2)
    return bool(even[stacks[inside]].mean() >= EVEN_SHARE)


def allocation_site(stack: Stack) -> str:
    """The line of the program that a stack is of: its innermost frame outside of libraries; without
    one the operator that frames of C++ name."""
    python = frames_of_python(stack)
    program = next((frame for frame in python if not LIBRARY.search(frame.file)), None)
    if program is not None:
        return line_of(program.file, program.line, program.name)
    operator = operator_of(stack)
    if operator:
        return operator
    native = (frame for frame in stack if not ALLOCATING.search(frame.name))
    found = next(chain(python, native, stack), None)
    return line_of(found.file, found.line, found.name) if found else ""


def frames_of_python(stack: Stack) -> Stack:
    """The frames of Python: stacks='all' has those of C++ and of the interpreter between them."""
    return tuple(frame for frame in stack if frame.file.endswith(".py") and "::" not in frame.name)


def operator_of(stack: Stack) -> str:
    """The operator that frames of C++ name, the outermost first where it is autograd's."""
    matches = (OPERATOR.search(frame.name) for frame in stack)
    found = [named for named in matches if named is not None]
    backward = next((named[1] for named in reversed(found) if named[1]), "")
    return backward or next((f"aten::{named[2]}" for named in found if named[2]), "")


def module_frames(stack: Stack) -> list[int]:
    """The places of the frames that call a module, the innermost first."""
    return [
        at
        for at, frame in enumerate(stack)
        if frame.name == "_call_impl" and MODULE_FILE.search(frame.file)
    ]


def line_of(file: str, line: int, name: str) -> str:
    """A line of a program in few characters."""
    return f"{file.rsplit('/', 1)[-1]}:{line} {name}"
