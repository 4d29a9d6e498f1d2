"""The optimizer's step in fewer launches and passes: fused, or by lists of tensors."""

import math
import re
from collections.abc import Callable

import numpy as np

from traceanalyzer.analysis.algebra import contains, union
from traceanalyzer.analysis.names.pytorch import OPTIMIZER_PREFIX
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.fusion import LEAST_KERNEL_NS
from traceanalyzer.replay.patterns.named import LISTS, kernels_named, texts
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, RangeKind, distinct

FUSED_PASS_RATIO = 7 / 4
"""A fused Adam touches seven tensors (parameter, gradient and two moments read, all but the
gradient written), its longest operator four: fused it takes so many times as long as that."""
TENSORS_A_LAUNCH = 36  # tensors that one launch of a fused Adam takes (four lists)
FEW_TENSORS = 12.0
"""An operator on a list of fewer leaves most of a launch unused, as many small groups of parameters
lead to..."""
FEWEST_GROUPS = 8  # ... of which there have to be so many: a few have settings of their own
FUSED = regex("FusedAdam|fused_adam")
ANY, ADAM = (regex("^" + re.escape(OPTIMIZER_PREFIX) + name) for name in ("", "Adam"))


def optimizer_fused(tape: Tape) -> Tape | None:
    """Adam's step as one pass over all parameters, in as few launches as that takes; None without
    an Adam whose step is not one already."""
    instance = _optimizer_steps(tape, ADAM)
    return _changed(
        tape,
        np.where(np.isin(instance, instance[kernels_named(tape, FUSED)]), -1, instance),
        _in_one_pass,
    )


def optimizer_by_lists(tape: Tape) -> Tape | None:
    """The optimizer's operators on lists of tensors (foreach) instead of one tensor after the
    other; None without an optimizer that goes from tensor to tensor."""
    return by_lists(tape, _optimizer_steps(tape, ANY))


def by_lists(tape: Tape, instance: I64) -> Tape | None:
    """The ops of each instance (a number for each op, -1: none) with a few dozen tensors a launch;
    None where they have several already."""
    return _changed(tape, instance, _by_lists)


def small_groups(tape: Tape) -> bool:
    """Whether an optimizer's operators on lists get a tensor or a few each: it has many groups of
    parameters."""
    ops = np.flatnonzero(updating(tape))
    return (
        bool(kernels_named(tape, LISTS)[ops].any())
        and float(_tensors_each(tape, ops).mean()) <= FEW_TENSORS
    )


def updating(tape: Tape) -> Bool:
    """Ops of an optimizer's step that goes over parameters and does nothing else."""
    return _optimizer_steps(tape, ANY) >= 0


def _changed(
    tape: Tape, instance: I64, left: Callable[[Tape, I64], tuple[I64, int] | None]
) -> Tape | None:
    """The tape where of each instance those ops are left that `left` says, with that time in total,
    ns."""
    gone = np.zeros(len(tape.row), bool)
    duration = tape.duration.copy()
    for number in distinct(instance[instance >= 0]).tolist():
        ops = np.flatnonzero(instance == number)
        found = left(tape, ops)
        if found is not None:
            kept, total = found
            gone[ops], gone[kept], duration[kept] = True, False, total // len(kept)
    return tape.retimed(duration).without_launches(gone) if gone.any() else None


def _in_one_pass(tape: Tape, ops: I64) -> tuple[I64, int] | None:
    """As many launches as each of the passes has, or, where those go from tensor to tensor, one for
    every few."""
    _, which_pass, counts = np.unique(_names(tape, ops), return_inverse=True, return_counts=True)
    longest = np.bincount(which_pass, weights=_beyond_floor(tape, ops)).max()
    most = int(counts.argmax())
    each = _tensors_each(tape, ops[which_pass == most])
    count = int(counts[most])
    if each.mean() <= FEW_TENSORS:
        count = math.ceil(int(each.sum()) / TENSORS_A_LAUNCH)
    return ops[:count], int(longest * FUSED_PASS_RATIO) + LEAST_KERNEL_NS * count


def _by_lists(tape: Tape, ops: I64) -> tuple[I64, int] | None:
    """The first of every few launches of each kernel."""
    each = _tensors_each(tape, ops)
    names = _names(tape, ops)
    listed = bool(kernels_named(tape, LISTS)[ops].any())
    if each.mean() > FEW_TENSORS or (
        listed and np.unique(names, return_counts=True)[1].max() < FEWEST_GROUPS
    ):
        return None
    order = np.argsort(names, kind="stable")
    before = np.cumsum(each[order]) - each[order]
    before -= before[np.searchsorted(names[order], names[order])]
    _, first = np.unique(
        np.stack((names[order], before // TENSORS_A_LAUNCH)), axis=1, return_index=True
    )
    time = int(_beyond_floor(tape, ops).sum()) + LEAST_KERNEL_NS * len(first)
    return (np.sort(ops[order][first]), time) if len(first) < len(ops) else None


def _tensors_each(tape: Tape, ops: I64) -> I64:
    """How many tensors each of these ops takes: one, or as many as its operator's list has; a
    launch's full where that was not recorded, as of long lists, or is enough for several launches,
    as of large tensors."""
    operator = tape.of_launches(tape.source.linked.tree.operator)[ops]
    listed = np.array(operators(tape.source.linked).tell(operator, _listed), np.int64)
    _, which_operator, launches = np.unique(operator, return_inverse=True, return_counts=True)
    several = np.where(launches[which_operator.reshape(-1)] > 1, TENSORS_A_LAUNCH, listed)
    return np.where(kernels_named(tape, LISTS)[ops], several, 1)


def _listed(operator: Operator) -> int:
    """Tensors of the first list among an operator's inputs, as many as a launch takes at most."""
    return min(next(filter(None, map(len, operator.lists)), TENSORS_A_LAUNCH), TENSORS_A_LAUNCH)


def _beyond_floor(tape: Tape, ops: I64) -> I64:
    """What the ops take beyond what any kernel takes, ns."""
    return (tape.duration[ops] - LEAST_KERNEL_NS).clip(0)


def _names(tape: Tape, ops: I64) -> I32:
    return tape.source.trace.device_ops.name[tape.row[ops]]


def _optimizer_steps(tape: Tape, named: re.Pattern[str]) -> I64:
    """For each op the step of an optimizer of such a name that launched it (row of the host range),
    -1: none, or one with matrix products: it calls the model, or has an arithmetic of its own."""
    linked = tape.source.linked
    ranges = tape.source.trace.host_ranges
    rows = np.flatnonzero(texts(linked, named)[ranges.name] & (ranges.kind == RangeKind.ANNOTATION))
    rows = rows[np.argsort(ranges.start[rows], kind="stable")]
    launched = linked.launch_time[tape.row]
    result = np.full(len(tape.row), -1, np.int64)
    stepping = union(ranges.start[rows], ranges.end[rows])
    inside = contains(stepping, launched) & linked.is_kernel[tape.row]
    latest = np.searchsorted(ranges.start[rows], launched[inside], side="right") - 1
    result[inside] = rows[latest]
    return np.where(np.isin(result, result[_products(tape, inside)]), -1, result)


def _products(tape: Tape, inside: Bool) -> Bool:
    """Which of these ops are matrix products, but for those of a column and a row, as Adafactor
    makes its averages of."""
    products = inside & tape.source.linked.is_matrix[tape.row]
    operator = tape.of_launches(tape.source.linked.tree.outer_operator)[products]
    known = operators(tape.source.linked).tell(operator, lambda one: one.first_tensor[-1:] != (1,))
    products[products] = known
    return products
