"""The optimizer's step in one pass, or at least by lists of tensors; and so any other loop over weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loops.tensor_loops import tensor_loops, tensors_listed
from traceanalyzer.analysis.replay.changes.optimizer import optimizer_by_lists, optimizer_fused, small_groups
from traceanalyzer.analysis.replay.scenarios import FUSED_OPTIMIZER, Scenario
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape

FUSED = replace(FUSED_OPTIMIZER, cautious=lambda tape: optimizer_by_lists(tape) or optimizer_fused(tape))
BY_LISTS = Scenario(
    "fused_optimizer",
    optimizer_by_lists,
    "each of the optimizer's operators takes a few dozen tensors in one launch",
    missing="no step of an optimizer that goes from tensor to tensor was recorded",
)
LOOPS = Scenario(
    "fused_optimizer",
    tensors_listed,
    "each operator of a loop over tensors takes a few dozen of them in one launch",
    missing="no loop that goes from tensor to tensor was recorded",
)
FUSE = "Use the fused optimizer: torch.optim.AdamW(..., fused=True)."
LISTS = "Update all tensors at once: the optimizer with foreach=True, or fused=True."
GROUPS = (
    "Put parameters with the same settings into one group of the optimizer: foreach=True and fused=True take the "
    "tensors of a group at once, and these groups have one or a few."
)
DROP = "Drop gradients instead of writing zeros into one after the other: optimizer.zero_grad(set_to_none=True)."
AT_ONCE = "Update all tensors at once instead of in a loop over them:"
NORMS = "clip_grad_norm_(..., foreach=True) or torch._foreach_norm(tensors)"
AVERAGES = "torch._foreach_lerp_(averages, weights, 1 - decay), or torch._foreach_mul_ and torch._foreach_add_"
NORM = {"norm", "linalg_norm", "linalg_vector_norm", "sum", "isfinite", "isnan", "isinf", "all", "any"}


def offer(m: Measurements) -> Offer | None:
    """Where an optimizer makes several passes, or goes from tensor to tensor, or another loop does: what gains more."""
    tape, replay = tape_of(m), m.replay
    if tape is None or replay is None:
        return None
    offers = [one for one in (_of_optimizer(tape), _of_loops(tape)) if one is not None]
    return max(offers, key=lambda one: replay.gain_ms(one.scenario), default=None)


def _of_optimizer(tape: Tape) -> Offer | None:
    if optimizer_fused(tape) is not None:
        return Offer(FUSE, FUSED)
    if optimizer_by_lists(tape) is not None:
        return Offer(GROUPS if small_groups(tape) else LISTS, BY_LISTS)
    return None


def _of_loops(tape: Tape) -> Offer | None:
    found = tensor_loops(tape)
    return None if found is None else Offer(_instead(found.names), LOOPS)


def _instead(names: tuple[str, ...]) -> str:
    """What to call instead of these operators."""
    kinds = {name.removeprefix("aten::").removeprefix("_foreach_").rstrip("_") for name in names}
    if kinds == {"zero"}:
        return DROP
    if kinds & NORM:
        return f"Take all tensors at once instead of in a loop: {NORMS}."
    if {"mul", "add"} <= kinds or "lerp" in kinds:
        return f"{AT_ONCE} {AVERAGES}."
    calls = ", ".join(f"torch._foreach_{kind}_" for kind in sorted(kinds - {"to", "clone"})) or "torch._foreach_copy_"
    return f"{AT_ONCE} {calls}."


REMEDY = Remedy("fused_optimizer", "memory", "optimizer-not-fused", offer)
