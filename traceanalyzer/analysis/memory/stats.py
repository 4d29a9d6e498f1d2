"""GPU memory in single figures, and those that a program printed."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace import PrintedMemory

Verdict = Literal["leak", "growth", "steady", "unknown"]
WARM_UP_LINES = 2
"""Printed lines that may grow since optimizer state and caches come into being."""
FEWEST_LINES = 5  # lines after these that each say more than the one before: growth
_NO_PHASES = "; null where neither steps nor autograd tell the phases"


@dataclass(frozen=True)
class MemoryStats:
    """GPU memory of the device that holds the most."""

    peak: int | None = metric("most bytes allocated; null where totals were not recorded", MEMORY)
    reserved: int | None = metric(
        "most bytes reserved by the allocator; null where not recorded", MEMORY
    )
    forward: int | None = metric(f"most bytes allocated in the forward pass{_NO_PHASES}", MEMORY)
    backward: int | None = metric(f"most bytes allocated in the backward pass{_NO_PHASES}", MEMORY)
    optimizer: int | None = metric(f"most bytes allocated in the optimizer{_NO_PHASES}", MEMORY)
    other: int | None = metric(
        f"most bytes allocated outside of these{_NO_PHASES}", MEMORY, default=None
    )
    peak_phase: str | None = metric(
        f"the phase with the peak{_NO_PHASES}", text="own", default=None
    )
    growth_per_step: float | None = metric(
        (
            "growth of what is allocated at a step's end; null with fewer than three steps "
            "(five in a snapshot)"
        ),
        MEMORY,
        default=None,
    )
    growth_low: float | None = metric(
        "low end of its 90 % range; null where it is", MEMORY, default=None
    )
    growth_high: float | None = metric(
        "high end of its 90 % range; null where it is", MEMORY, default=None
    )
    growth: Verdict = metric(
        (
            "leak: steps leave allocations behind; growth: one allocation gets larger; "
            "steady; or unknown"
        ),
        text="own",
        default="unknown",
    )
    growth_at: str | None = metric(
        (
            "line of the program, without stacks the operator, with most of the growth; null "
            "without growth"
        ),
        default=None,
    )


def stats_of_printed(rows: Sequence[PrintedMemory]) -> MemoryStats | None:
    """The most that a program printed, of all and after each phase, and whether it grows from line
    to line; None where it printed nothing."""
    if not rows:
        return None
    after: dict[str, list[PrintedMemory]] = {}
    for row in rows:
        after.setdefault(row.after, []).append(row)
    most = {phase: max(row.allocated for row in alike) for phase, alike in after.items()}
    peaks = [row.peak for row in rows if row.peak is not None]
    growth = _growth_of_printed(max(after.values(), key=len))
    return MemoryStats(
        peak=max((*most.values(), *peaks)),
        reserved=max((row.reserved for row in rows if row.reserved is not None), default=None),
        forward=most.get("forward"),
        backward=most.get("backward"),
        optimizer=most.get("optimizer"),
        other=most.get(""),
        growth_per_step=growth,
        growth="growth" if growth else "unknown",
    )


def _growth_of_printed(rows: Sequence[PrintedMemory]) -> float | None:
    """Bytes that each step adds, where every line says more than the one before, warm-up aside;
    None where not, or where lines number no steps."""
    numbered = [(row.step, row.allocated) for row in rows[WARM_UP_LINES:] if row.step is not None]
    if len(numbered) < FEWEST_LINES:
        return None
    first, *_, last = numbered
    rises = all(now > before for (_, before), (_, now) in pairwise(numbered))
    if not rises or last[0] <= first[0]:
        return None
    return (last[1] - first[1]) / (last[0] - first[0])
