"""Memory in the figures of a report."""

from collections.abc import Sequence

from traceanalyzer.analysis.memory.growth import Verdict
from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace import PrintedMemory

_NO_PHASES = "; null where neither steps nor autograd tell the phases"


@dataclass(frozen=True)
class MemoryStats:
    """GPU memory of the device that holds the most."""

    peak: int | None = metric("most bytes allocated; null where totals were not recorded", MEMORY)
    reserved: int | None = metric("most bytes reserved by the allocator; null where not recorded", MEMORY)
    forward: int | None = metric(f"most bytes allocated in the forward pass{_NO_PHASES}", MEMORY)
    backward: int | None = metric(f"most bytes allocated in the backward pass{_NO_PHASES}", MEMORY)
    optimizer: int | None = metric(f"most bytes allocated in the optimizer{_NO_PHASES}", MEMORY)
    other: int | None = metric(f"most bytes allocated outside of these{_NO_PHASES}", MEMORY, default=None)
    peak_phase: str | None = metric(f"the phase with the peak{_NO_PHASES}", text="own", default=None)
    growth_per_step: float | None = metric(
        "growth of what is allocated at a step's end; null with fewer than three steps (five in a snapshot)",
        MEMORY,
        default=None,
    )
    growth_low: float | None = metric("low end of its 90 % range; null where it is", MEMORY, default=None)
    growth_high: float | None = metric("high end of its 90 % range; null where it is", MEMORY, default=None)
    growth: Verdict = metric(
        "leak: steps leave allocations behind; growth: one allocation gets larger; steady; or unknown",
        text="own",
        default="unknown",
    )
    growth_at: str | None = metric(
        "line of the program, without stacks the operator, with most of the growth; null without growth", default=None
    )


def stats_of_snapshot(devices: tuple[MemoryOfDevice, ...]) -> MemoryStats | None:
    """The figures of a snapshot's fullest GPU; None where it holds none."""
    if not devices:
        return None
    top = max(devices, key=lambda device: device.peak_bytes)
    phases, growth = top.phase_peaks, top.growth
    others = [phases[name] for name in ("other", "zero_grad") if name in phases]
    return MemoryStats(
        top.peak_bytes,
        top.reserved_bytes,
        phases.get("forward"),
        phases.get("backward"),
        phases.get("optimizer"),
        max(others, default=None),
        top.peak_phase,
        growth.bytes_per_step,
        growth.low,
        growth.high,
        growth.verdict,
        growth.sites[0].site if growth.sites else None,
    )


def stats_of_printed(rows: Sequence[PrintedMemory]) -> MemoryStats | None:
    """The most that a program printed, of all and after each phase; None where it printed nothing."""
    if not rows:
        return None
    after: dict[str, int] = {}
    for row in rows:
        after[row.after] = max(after.get(row.after, 0), row.allocated)
    return MemoryStats(
        peak=max(after.values()),
        reserved=max((row.reserved for row in rows if row.reserved is not None), default=None),
        forward=after.get("forward"),
        backward=after.get("backward"),
        optimizer=after.get("optimizer"),
        other=after.get(""),
    )
