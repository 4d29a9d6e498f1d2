"""What a printed table of `key_averages()` tells: sums by name. It has no times of single events, so no idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.names.pytorch import PROFILER_STEP
from traceanalyzer.figures import metric
from traceanalyzer.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.names.kernel_classes import KernelClasses
    from traceanalyzer.trace import ProfilerRow

API = ("cuda", "hip", "cu")
DEVICE = ("Memcpy", "Memset")


@dataclass(frozen=True)
class ProfiledRow:
    """A name of a profiler's table; figures are sums over the whole profile, or over a step where it marks steps."""

    name: str = metric("operator, kernel, API call or range, as the table cut it")
    kind: str = metric("`kernel` for work on the device, `api` for calls of the runtime, else `op`")
    cls: str | None = metric("class of work of a kernel, from its name; null for others")
    calls: float | None = metric("calls, a step where the table has ProfilerStep*; null without such a column")
    self_cpu_ms: float | None = metric("host time without what it calls, likewise; null without such a column", "ms")
    cpu_total_ms: float | None = metric("host time with what it calls, likewise; null without such a column", "ms")
    self_device_ms: float | None = metric("device time of its own, likewise; null without such a column", "ms")
    device_total_ms: float | None = metric("device time with what it calls, likewise; null without", "ms")
    share_of_device: float | None = metric("a kernel's part of all device time; null for others", "share")
    shapes: str | None = metric("input shapes; null where the table is not grouped by them")


@dataclass(frozen=True)
class Profiled:
    """The sums of a table, of a step where it marks steps."""

    steps: int | None
    step_ms: float | None
    """Host time of a ProfilerStep."""
    device_ms: float
    """Sum of the kernels' times: they may run side by side."""
    cpu_ms: float
    rows: list[ProfiledRow]
    """By device time, then host time."""


def profiled(rows: Sequence[ProfilerRow], classes: KernelClasses) -> Profiled | None:
    """The sums of a profiler's table; None where there is none.

    Ranges that the profiler projected on the device have a second row under the same name, which is left out. Where
    kernels have no rows of their own (old versions), the operators' own device time is theirs.
    """
    if not rows:
        return None
    on_host = {row.name for row in rows if _on_host(row)}
    rows = [row for row in rows if _on_host(row) or row.name not in on_host]
    marks = [row for row in rows if PROFILER_STEP.match(row.name)]
    steps = sum(row.calls or 0.0 for row in marks) or None
    each = steps or 1.0
    kernels = [row for row in rows if _kind(row) == "kernel"]
    device = sum(row.self_device_ms or 0.0 for row in kernels or rows)
    made = [_row(row, each, device, classes) for row in rows if row not in marks]
    made.sort(key=lambda row: (-(row.device_total_ms or row.self_device_ms or 0.0), -(row.self_cpu_ms or 0.0)))
    return Profiled(
        steps=int(steps) if steps else None,
        step_ms=sum(row.cpu_total_ms or 0.0 for row in marks) / each if steps else None,
        device_ms=device / each,
        cpu_ms=sum(row.self_cpu_ms or 0.0 for row in rows) / each,
        rows=made,
    )


def _on_host(row: ProfilerRow) -> bool:
    return bool(row.self_cpu_ms or row.cpu_total_ms)


def _row(row: ProfilerRow, steps: float, device_ms: float, classes: KernelClasses) -> ProfiledRow:
    kind, own = _kind(row), row.self_device_ms
    kernel = kind == "kernel"

    def per_step(value: float | None) -> float | None:
        return None if value is None else value / steps

    return ProfiledRow(
        name=row.name,
        kind=kind,
        cls=classes.names[classes.class_of(row.name)] if kernel else None,
        calls=per_step(row.calls),
        self_cpu_ms=per_step(row.self_cpu_ms),
        cpu_total_ms=per_step(row.cpu_total_ms),
        self_device_ms=per_step(own),
        device_total_ms=per_step(row.device_total_ms),
        share_of_device=own / device_ms if kernel and own is not None and device_ms else None,
        shapes=row.shapes,
    )


def _kind(row: ProfilerRow) -> str:
    """A kernel has device time of its own and none on the host."""
    if (row.self_device_ms and not _on_host(row)) or row.name.startswith(DEVICE):
        return "kernel"
    return "api" if row.name.startswith(API) and "::" not in row.name else "op"
