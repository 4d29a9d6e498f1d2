"""Predicted peaks: the lives with one thing changed, added up again."""

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from traceanalyzer.analysis.memory import categories as by_kind
from traceanalyzer.analysis.memory.categories import (
    ACTIVATIONS,
    GRADIENTS,
    OTHER,
    PARAMETERS,
    STATE,
    TEMPORARIES,
)
from traceanalyzer.analysis.memory.checkpointing import checkpointed, repeated_block
from traceanalyzer.analysis.memory.lives import Allocations, highest
from traceanalyzer.analysis.memory.phases import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    HistoryTimeline,
    allocation_site,
)
from traceanalyzer.base import MEMORY, binary, dataclass, metric, ratio, regex
from traceanalyzer.trace import distinct
from traceanalyzer.trace.snapshot import I8, I64, DeviceMemory, Stack

CHUNKS = 8
"""Pieces of the loss: the rows of one are then an eighth, and more would save little more."""
LARGE_LOSS = 0.05  # share of the peak from which the loss's largest tensor is worth cutting up
MOSTLY = 0.5  # share of the gradients' bytes; where less outlives a step, they are set to None
BATCHES = (0.5, 2.0)
BATCH_IDS = tuple(
    f"batch-x{times:g}" for times in BATCHES
)  # kept where they change nothing: that is the answer
FOR_EACH = 0.9
"""Share of the weights' bytes that must have a tensor of their size in each step, for those to be
theirs."""
UNCLEAR_SHARE = 0.02
"""Share of the peak in caches and kept results from which nothing is said of other batches."""
WORKSPACE = (
    40 << 20
)  # cuBLAS keeps up to 33 MiB for each stream and thread, the same for every batch
BEFORE_SHARE = 0.5
"""Share of the peak from before the recording from which nothing is said of other batches."""
FOREACH = regex(r"_multi_tensor|_foreach")
LOSS = regex(r"cross_entropy|nll_loss|log_softmax|^softmax$|kl_div|ctc_loss|logits")
WEIGHTED = regex(r"torch/nn/modules/(linear|conv|rnn|sparse)\.py$")
RESERVED_ROUNDING = 2 << 20  # expandable segments grow by pages of this size


@dataclass(frozen=True)
class Scenario:
    """One change and the peak that it would lead to."""

    id: str = metric("name of the scenario", text="own")
    remedy: str = metric("the change of the program")
    change: str = metric("what is different")
    peak_bytes: int = metric("predicted most bytes allocated", MEMORY)
    basis: str = metric("what the prediction assumes", text="sentence")
    extra_forward_share: float = metric(
        "part of the forward pass that runs a second time: what the memory costs in time",
        default=0.0,
    )
    reserved_bytes: int | None = metric(
        "predicted most bytes reserved; null where that is not known", MEMORY, default=None
    )


@dataclass(frozen=True)
class Subject:
    """What scenarios are made of."""

    memory: DeviceMemory
    lives: Allocations
    timeline: HistoryTimeline
    categories: I8
    stacks: Sequence[Stack]
    moment: int  # the peak, as an element of the level
    ranks: int = 8
    # bytes of optimizer state for which there was no room; None where that is not known
    unmade: int | None = 0

    @cached_property
    def phase(self) -> I8:
        """The phase that each life began in; -1 before the history."""
        if not self.lives.n_events:
            return np.full(len(self.lives), -1, np.int8)
        return np.where(
            self.lives.born >= 0, by_kind.phase_of(self.lives, self.timeline), np.int8(-1)
        )

    def peak(self, size: I64) -> int:
        """The peak with other sizes."""
        return highest((self.lives.born, self.lives.freed, size))


def scaling_with_batch(subject: Subject) -> I64:
    """Lives whose size goes with the batch: activations and temporaries, without casts and
    gradients of weights."""
    categories = subject.categories
    weights = _weights(subject)
    of_batch = np.isin(categories, (ACTIVATIONS, TEMPORARIES)) & np.isin(
        subject.phase, (FORWARD, BACKWARD)
    )
    for phase, part in ((FORWARD, 2), (BACKWARD, 1), (BACKWARD, 2)):
        of_batch[
            _of_weights(
                subject, np.flatnonzero(of_batch & (subject.phase == phase)), weights // part
            )
        ] = False
    return np.flatnonzero(of_batch)


def _weights(subject: Subject) -> I64:
    """The size of each parameter, of gradients where parameters are not known."""
    lives = subject.lives
    categories = subject.categories
    for category in (PARAMETERS, GRADIENTS):
        alive = (
            (categories == category)
            & (lives.freed >= lives.n_events)
            & (lives.requested >= by_kind.LEAST_MATCHED)
        )
        if alive.any():
            return lives.requested[alive]
    return distinct(
        lives.requested[(categories == GRADIENTS) & (lives.requested >= by_kind.LEAST_MATCHED)]
    )


def _of_weights(subject: Subject, rows: I64, sizes: I64) -> I64:
    """The rows that come with each weight in each step: casts for autocast, gradients to
    be added.

    An activation may be as large as some weight: only where nearly all weights have theirs are any
    the weights', and then as many of a size as there are weights of it, the first in modules that
    have weights."""
    lives = subject.lives
    steps = subject.timeline.steps
    kinds, weights = np.unique(sizes, return_counts=True)
    rows = rows[np.isin(lives.requested[rows], kinds)]
    if not len(rows):
        return rows
    kind = np.searchsorted(kinds, lives.requested[rows])
    expected = weights * max(len(steps.ends), 1)
    times = np.bincount(kind, minlength=len(kinds)) / expected
    is_made = times >= FOR_EACH
    total = kinds * weights
    if float(total[is_made].sum()) < FOR_EACH * float(total.sum()):
        return rows[:0]
    passes = max(round(float(times[is_made].min())), 1)
    has_weights = np.array([*map(_has_weights, subject.stacks)], bool)
    step = steps.of(np.maximum(lives.born[rows], 0))
    order = np.lexsort((lives.born[rows], ~has_weights[lives.stack[rows]], kind, step))
    rank = _place_in_run(kind[order] + step[order] * len(kinds))
    return rows[order[rank < passes * weights[kind[order]]]]


def _place_in_run(values: I64) -> I64:
    """For each value how many equal ones are right before it."""
    place = np.arange(len(values))
    is_first = np.append(True, np.diff(values) != 0)
    return place - np.maximum.accumulate(np.where(is_first, place, 0))


def _has_weights(stack: Stack) -> bool:
    """Whether a module that has weights is on the stack."""
    return any(WEIGHTED.search(frame.file) for frame in stack)


def batch_unknown(subject: Subject, peak: int) -> str | None:
    """Why it cannot be told what a batch of another size takes; None where it can."""
    lives = subject.lives
    if not len(scaling_with_batch(subject)):
        return "no activations are known: their allocations have no stacks, or none was recorded"
    alive = lives.alive(subject.moment)
    first_end = subject.timeline.steps.ends[0] if subject.timeline.steps.ends else lives.n_events
    is_small = lives.size <= WORKSPACE
    is_workspace = (lives.freed >= lives.n_events) & (lives.born < first_end) & is_small
    category = subject.categories[alive]
    is_unclear = (category == OTHER) & ~is_workspace[alive]
    unclear = int(lives.size[alive[is_unclear]].sum())
    if unclear >= UNCLEAR_SHARE * peak:
        return (
            f"{unclear / peak:.0%} of the peak is kept from step to step (a cache, results); whether it "
            "grows with the batch is not known"
        )
    before = int(lives.size[alive[category == by_kind.BEFORE]].sum())
    if before >= BEFORE_SHARE * peak:
        return (
            f"{before / peak:.0%} of the peak was allocated before the recording; what it holds is not "
            "known"
        )
    return None


def scenarios_of(subject: Subject, peak: int, reserved: int) -> tuple[Scenario, ...]:
    """Every scenario that the recording has the means for, the lowest peak first; those without
    effect left out."""
    found = [
        make(subject, peak)
        for make in (_fused_optimizer, _set_to_none, _chunked_loss, _bf16_states, _checkpoint)
    ]
    found += [*_sharded(subject), *_batches(subject, peak)]
    known = [scenario for scenario in found if scenario is not None]
    kept = [one for one in known if one.peak_bytes != peak or one.id in BATCH_IDS]
    kept.sort(key=lambda scenario: scenario.peak_bytes)
    expandable = _expandable(subject, peak, reserved)
    return tuple(kept) if expandable is None else (*kept, expandable)


def _fused_optimizer(subject: Subject, _: int) -> Scenario | None:
    foreach = np.array([_names(FOREACH, stack) for stack in subject.stacks])
    of_optimizer = (subject.categories == TEMPORARIES) & (subject.phase == OPTIMIZER)
    gone = of_optimizer & foreach[subject.lives.stack]
    if not gone.any():
        return None
    peak = subject.peak(np.where(gone, 0, subject.lives.size))
    return Scenario(
        "fused-optimizer",
        "fused_optimizer",
        "Use the fused optimizer: fused=True",
        peak,
        "the temporaries of the foreach optimizer left out of the replay",
    )


def _names(pattern: re.Pattern[str], stack: Stack) -> bool:
    """Whether a function on the stack has such a name."""
    return any(pattern.search(frame.name) for frame in stack)


def _bf16_states(subject: Subject, _: int) -> Scenario | None:
    state = subject.categories == STATE
    if not state.any() or subject.unmade is None:
        return None
    return Scenario(
        "bf16-states",
        "low_precision",
        "Keep the optimizer's state in bf16 in place of fp32",
        subject.peak(np.where(state, subject.lives.size // 2, subject.lives.size))
        + subject.unmade // 2,
        "optimizer state at half its size" + _all_of_it(subject),
    )


def unmade_state(lives: Allocations, categories: I8) -> int | None:
    """Bytes of state an optimizer had yet to allocate, line by line through the parameters in
    order; None: unclear."""
    state = np.flatnonzero(categories == STATE)
    parameters = np.flatnonzero(categories == PARAMETERS)
    lines = distinct(lives.stack[state])
    for line in lines.tolist():
        sizes = lives.requested[state[lives.stack[state] == line]]
        if not np.array_equal(sizes, lives.requested[parameters][: len(sizes)]):
            return None
    in_all = len(lines) * int(lives.size[parameters].sum())
    return max(in_all - int(lives.size[state].sum()), 0)


def _all_of_it(subject: Subject) -> str:
    return (
        f", the {binary(subject.unmade)} included for which there was no room"
        if subject.unmade
        else ""
    )


def _sharded(subject: Subject) -> list[Scenario]:
    """ZeRO's three stages: state, then gradients, then parameters over the ranks."""
    stages = (
        ("shard-optimizer", (STATE,), "optimizer state"),
        ("shard-gradients", (STATE, GRADIENTS), "optimizer state and gradients"),
        (
            "shard-parameters",
            (STATE, GRADIENTS, PARAMETERS),
            "optimizer state, gradients and parameters",
        ),
    )
    result = []
    size = subject.lives.size
    ranks = subject.ranks
    if not (subject.categories == STATE).any() or subject.unmade is None:
        return []
    for id_, parts, what in stages:
        is_sharded = np.isin(subject.categories, parts)
        peak = subject.peak(np.where(is_sharded, -(-size // ranks), size))
        peak += -(-subject.unmade // ranks)
        basis = f"{what} at 1/{ranks}"
        if PARAMETERS in parts:
            gathered = int(size[subject.categories == PARAMETERS].max(initial=0))
            peak += gathered
            basis += ", the largest parameter gathered" if gathered else ""
        basis += _all_of_it(subject)
        result.append(
            Scenario(f"{id_}-{ranks}", "shard", f"Shard {what} over {ranks} ranks", peak, basis)
        )
    return result


def _batches(subject: Subject, peak: int) -> list[Scenario]:
    if batch_unknown(subject, peak) is not None:
        return []
    rows = scaling_with_batch(subject)
    lives = subject.lives
    steps = subject.timeline.steps
    result = []
    for factor in BATCHES:
        size = lives.size.copy()
        size[rows] = (size[rows] * factor).astype(np.int64)
        remedy = "larger_batch" if factor > 1 else "smaller_batch"
        basis = "activations and temporaries go with the batch; weights, gradients and state do not"
        result.append(
            Scenario(
                f"batch-x{factor:g}",
                remedy,
                f"{factor:g} times the batch",
                subject.peak(size),
                basis,
            )
        )
    # half the batch, twice: the second pass runs while the first one's gradients are there
    size = lives.size.copy()
    size[rows] //= 2
    gradients = np.flatnonzero((subject.categories == GRADIENTS) & (lives.born >= 0))
    begins = np.array([steps.start, *steps.ends], np.int64)
    born = lives.born.astype(np.int64)
    step = np.clip(steps.of(born[gradients]), 0, len(steps.ends))
    born[gradients] = np.minimum(born[gradients], begins[step])
    return [
        *result,
        Scenario(
            "accumulate",
            "accumulate_gradients",
            "Halve the batch, accumulate 2 steps",
            highest((born, lives.freed, size)),
            "activations and temporaries at half their size, gradients there from the step's start",
        ),
    ]


def _set_to_none(subject: Subject, peak: int) -> Scenario | None:
    """Gradients that outlive the step, freed at its end and made again in the next backward."""
    lives = subject.lives
    steps = subject.timeline.steps
    if not steps.ends:
        return None
    first = steps.of(np.maximum(lives.born, 0))
    last = steps.of(np.minimum(lives.freed, lives.n_events - 1))
    is_gradient = subject.categories == GRADIENTS
    is_kept = is_gradient & (subject.phase == BACKWARD) & (last > first)
    kept_bytes = int(lives.size[is_kept].sum())
    if kept_bytes < MOSTLY * max(int(lives.size[is_gradient].sum()), 1):
        return None
    rest = np.where(is_kept, 0, lives.size)
    more = _made_again(subject, np.flatnonzero(is_kept), first, last)
    again = (more[:, 0], more[:, 1], more[:, 2])
    predicted = highest((lives.born, lives.freed, rest), again)
    return Scenario(
        "set-to-none",
        "avoid_allocations",
        "Drop gradients after each step: zero_grad(set_to_none=True), its default",
        min(predicted, peak),
        "gradients freed at each step's end and made again in the backward",
    )


def _made_again(subject: Subject, kept: I64, first_step: I64, last_step: I64) -> I64:
    """Birth, end and size of these lives in every step that they are there in, were they made anew
    in each backward: as far into it as in the first."""
    lives = subject.lives
    ends = subject.timeline.steps.ends
    spans = _backward_spans(subject.timeline)
    again: list[tuple[int, int, int]] = []
    for life in kept.tolist():
        born = int(lives.born[life])
        first = int(first_step[life])
        lo, hi = spans.get(first, (born, born + 1))
        place = (born - lo) / max(hi - lo, 1)
        for step in range(first, int(last_step[life]) + 1):
            if step not in spans:
                continue
            begin, stop = spans[step]
            moment = int(begin + place * (stop - begin))
            end = ends[step] - 1 if step < len(ends) else lives.n_events
            end = min(end, int(lives.freed[life]))
            again.append((moment, end, int(lives.size[life])))
    return np.array(again, np.int64).reshape(-1, 3)


def _backward_spans(timeline: HistoryTimeline) -> dict[int, tuple[int, int]]:
    starts = np.concatenate(([0], timeline.bounds))
    ends = np.append(timeline.bounds, len(timeline.phase))
    backward = np.flatnonzero(timeline.phase[starts] == BACKWARD)
    spans: dict[int, tuple[int, int]] = {}
    steps = timeline.steps.of(starts[backward])
    for step, start, end in zip(
        steps.tolist(), starts[backward].tolist(), ends[backward].tolist(), strict=True
    ):
        spans[step] = spans.get(step, (start, end))[0], end
    return spans


def _chunked_loss(subject: Subject, peak: int) -> Scenario | None:
    """The loss and its gradient, row block by row block, made again in the backward."""
    lives = subject.lives
    of_loss = np.array([_names(LOSS, stack[:4]) for stack in subject.stacks])
    candidates = of_loss[lives.stack] & (subject.phase == FORWARD)
    if not candidates.any():
        return None
    largest = int(lives.requested[candidates].max())
    if largest < LARGE_LOSS * peak:
        return None
    goes_with_batch = np.isin(subject.categories, (ACTIVATIONS, TEMPORARIES))
    of_batch = goes_with_batch & np.isin(subject.phase, (FORWARD, BACKWARD))
    family = of_batch & np.isin(lives.requested, (largest, largest // 2, largest * 2))
    life = np.flatnonzero(candidates)[lives.requested[candidates].argmax()]
    site = allocation_site(subject.stacks[int(lives.stack[life])])
    return Scenario(
        "chunked-loss",
        "chunked_loss",
        f"Compute the loss ({site}) in {CHUNKS} checkpointed chunks of rows",
        subject.peak(np.where(family, lives.size // CHUNKS, lives.size)),
        f"tensors of the logits' size at 1/{CHUNKS}; the logits are computed a second time",
    )


def _checkpoint(subject: Subject, _: int) -> Scenario | None:
    block = repeated_block(subject.lives, subject.timeline, subject.categories, subject.stacks)
    if block is None:
        return None
    # of the forward's activation bytes the blocks make this part, as the part of it that runs again
    size = subject.lives.size
    is_made = (subject.categories == ACTIVATIONS) & (subject.phase == FORWARD)
    made_again = int(size[block.lives].sum())
    again = ratio(made_again, int(size[is_made].sum())) or 0.0
    return Scenario(
        "checkpoint",
        "checkpoint",
        f"Checkpoint the activations of {block.site} ({block.instances_per_step:g} a step)",
        highest(*checkpointed(subject.lives, block)),
        "each block keeps its output; the rest is recomputed in backward",
        again,
    )


def _expandable(subject: Subject, peak: int, reserved: int) -> Scenario | None:
    if any(segment.is_expandable for segment in subject.memory.segments):
        return None
    page = RESERVED_ROUNDING
    streams = max(len({segment.stream for segment in subject.memory.segments}), 1)
    predicted = -(-peak // page) * page + 2 * streams * page
    if predicted >= reserved:
        return None
    return Scenario(
        "expandable-segments",
        "expandable_segments",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        peak,
        "segments grow page by page: little is reserved beyond what is allocated",
        reserved_bytes=predicted,
    )
