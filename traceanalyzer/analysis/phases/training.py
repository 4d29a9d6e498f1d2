"""What the program does in a step: training or inference, micro-steps, optimizer steps, and those
that were skipped."""

from typing import Literal

import numpy as np

from traceanalyzer.analysis.algebra import isin_few, texts_where
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.names.pytorch import OPTIMIZER_STEP, TRAINING, UNSCALE
from traceanalyzer.analysis.phases.roles import Phases
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric
from traceanalyzer.trace import I64, U8, Bool, RangeKind

MODULES = (
    "aten::linear",
    "aten::matmul",
    "aten::mm",
    "aten::addmm",
    "aten::convolution",
    "aten::embedding",
)
"""Any of these shows that a model ran."""


@dataclass(frozen=True)
class ProgramStats:
    """What the program does in a step."""

    mode: Literal["training", "inference"] | None = metric(
        "`training`: a backward pass or an optimizer ran in the measured steps; `inference`: operators "
        "of a model ran and neither of them; null where no such operators were recorded"
    )
    micro_steps: float | None = metric(
        "forward and backward passes for each step of the optimizer (gradient accumulation); null unless all three "
        "were recorded"
    )
    optimizer_steps: float | None = metric(
        "steps of the optimizer a step; null where they are not annotated"
    )
    skipped_optimizer_steps: int | None = metric(
        "measured steps that unscaled their gradients and then ran no optimizer: a GradScaler that met infinities; "
        "null without a GradScaler, or where optimizers are not annotated"
    )


def program_stats(timed: Timed, phases: Phases) -> ProgramStats | None:
    """What the program does in its steady steps; None where that cannot be told at all."""
    rows = np.flatnonzero(
        timed.steady_ops & (phases.of_op != Role.NONE) & (timed.linked.launch_time >= 0)
    )
    role = phases.of_op[rows[np.argsort(timed.linked.launch_time[rows], kind="stable")]]
    # How often each follows a forward pass, in the order of launches.
    backward = _runs(role, Role.BACKWARD)
    optimizer = _runs(role, Role.OPTIMIZER)
    micro_steps = backward / optimizer if backward and optimizer else None
    stats = ProgramStats(_mode(timed, phases), micro_steps, *_optimizer_steps(timed))
    return stats if any(value is not None for value in vars(stats).values()) else None


def _mode(timed: Timed, phases: Phases) -> Literal["training", "inference"] | None:
    ranges = timed.trace.host_ranges
    strings = timed.trace.strings
    operators = ranges.name[timed.steady_host(ranges.start) & (ranges.kind == RangeKind.OP)]
    roles = np.concatenate(
        (phases.of_op[timed.steady_ops], phases.of_node[timed.steady_host(timed.linked.tree.start)])
    )
    names = np.concatenate((timed.trace.device_ops.name[timed.steady_ops], operators))
    if (
        isin_few(roles, (Role.BACKWARD, Role.OPTIMIZER)).any()
        or texts_where(strings, TRAINING.search)[names].any()
    ):
        return "training"
    return (
        "inference"
        if texts_where(strings, MODULES.__contains__)[operators].any() and timed.steps.found
        else None
    )


def _runs(roles: U8, wanted: Role) -> int:
    """How often `wanted` follows a forward pass."""
    is_wanted = roles[isin_few(roles, (Role.FORWARD, wanted))] == wanted
    return int((is_wanted[1:] & ~is_wanted[:-1]).sum())


def _optimizer_steps(timed: Timed) -> tuple[float | None, int | None]:
    """Annotated steps of optimizers a step, and how many steps unscaled gradients but have none."""
    ranges = timed.trace.host_ranges
    strings = timed.trace.strings
    steps = timed.steps
    found = _by_step(timed, texts_where(strings, OPTIMIZER_STEP.match)[ranges.name])
    if not found.any():
        return None, None
    unscaled = _by_step(timed, texts_where(strings, UNSCALE.__eq__)[ranges.name])
    skips = (unscaled > 0) & (found == 0)
    skipped = int(skips.sum()) if unscaled.any() else None
    return float(found.sum()) / steps.steady_count, skipped


def _by_step(timed: Timed, chosen: Bool) -> I64:
    """How many of the chosen host ranges begin in each steady step."""
    steps = timed.steps
    start = timed.trace.host_ranges.start[np.flatnonzero(chosen)]
    first = steps.host_start[steps.steady]
    last = steps.host_end[steps.steady]
    index = np.searchsorted(first, start, side="right") - 1
    inside = (index >= 0) & (start < last[np.maximum(index, 0)])
    return np.bincount(index[inside], minlength=len(first))
