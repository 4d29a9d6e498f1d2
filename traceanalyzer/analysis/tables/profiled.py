"""What a printed table of `key_averages()` tells: sums by name. It has no times of single events,
so no idle time."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import filterfalse

from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.analysis.names.pytorch import PROFILER_STEP
from traceanalyzer.base import MS_PER_S, dataclass, maybe, metric, ratio, regex
from traceanalyzer.trace import ProfilerRow
from traceanalyzer.trace.hardware import GIGA, TERA, Hardware

DEVICE = ("kernel", "copy")
"""Kinds of work on the device."""
API = ("cuda", "hip", "cu")
_COPIES = regex(r"^\[?(?:CUDA |HIP )?mem(?:cpy|set)\b", re.IGNORECASE)
"""Names of copies and memsets: `Memcpy HtoD (Pageable -> Device)`, `[CUDA memcpy HtoD]`."""
WIDTHS = {
    "8": ("fp8", "int8"),
    "16": ("fp16", "bf16"),
    "32": ("tf32", "fp32"),
    "64": ("fp64",),
}
"""Types of so many bits; which one it was is not stated, so that the share of a limit is the least
that it can be."""


@dataclass(frozen=True)
class ProfiledRow:
    """A name of a profiler's table; figures are sums over the whole profile, or over a step where
    it marks steps."""

    name: str = metric("operator, kernel, API call or range, as the table cut it")
    kind: str = metric(
        "`kernel` or `copy` (memsets, too) for work on the device, `api` for calls of the runtime, else `op`",
        text="own",
    )
    cls: str | None = metric(
        "class of work of a kernel, from its name; null for others", text="own"
    )
    calls: float | None = metric(
        "calls, a step where the table has ProfilerStep*; null without such a column"
    )
    self_cpu_ms: float | None = metric(
        "host time without what it calls, likewise; null without such a column"
    )
    cpu_total_ms: float | None = metric(
        "host time with what it calls, likewise; null without such a column"
    )
    self_device_ms: float | None = metric(
        "device time of its own, likewise; null without such a column"
    )
    device_total_ms: float | None = metric("device time with what it calls, likewise; null without")
    share_of_device: float | None = metric(
        "a kernel's or a copy's part of all device time; null for others", "share"
    )
    shapes: str | None = metric("input shapes; null where the table is not grouped by them")
    device: int | None = maybe("GPU of a kernel; null where the table does not say")
    tflops: float | None = maybe(
        "operations a second of a kernel whose work the program states; null for others", "TFLOP/s"
    )
    gbs: float | None = maybe("bytes a second, likewise")
    roofline_share: float | None = maybe(
        "time that it would take at the GPU's limits (memory bandwidth; peak of tensor cores in types of that width), "
        "of the time it took; null where no limit is known that its work meets"
    )


@dataclass(frozen=True)
class Profiled:
    """The sums of a table, of a step where it marks steps."""

    steps: int | None
    step_ms: float | None  # host time of a ProfilerStep
    device_ms: float  # sum of the times of kernels and copies: they may run side by side
    cpu_ms: float
    rows: list[ProfiledRow]  # by device time, then host time

    @property
    def copies_ms(self) -> float:
        """Time of copies, of the device's time."""
        return float(sum(row.self_device_ms or 0.0 for row in self.rows if row.kind == "copy"))

    @property
    def classes(self) -> list[tuple[float, str]]:
        """Each class's share of the kernels' time, and its name, the largest first."""
        found: dict[str, float] = defaultdict(float)
        for row in self.rows:
            if row.cls is not None:
                time_ms = row.self_device_ms or 0.0
                found[row.cls] += time_ms
        total = sum(found.values())
        shares = [(time / total, cls) for cls, time in found.items() if time]
        return sorted(shares, key=lambda one: -one[0])


def profiled(
    rows: Sequence[ProfilerRow], classes: KernelClasses, gpus: Mapping[int, Hardware | None]
) -> Profiled | None:
    """The sums of a profiler's table; None where there is none.

    Where kernels have no rows of their own (old versions), the operators' own device time is
    theirs."""
    if not rows:
        return None
    rows = _told_once(rows)
    marks = [row for row in rows if PROFILER_STEP.match(row.name)]
    steps = _total(marks, "calls")
    each = steps or 1.0
    device = _total([row for row in rows if _kind(row) in DEVICE] or rows, "self_device_ms")
    result = [
        _row(row, each, device, classes, gpus) for row in filterfalse(marks.__contains__, rows)
    ]
    result.sort(key=_by_time)
    return Profiled(
        steps=int(steps) or None,
        step_ms=ratio(_total(marks, "cpu_total_ms"), steps),
        device_ms=device / each,
        cpu_ms=_total(rows, "self_cpu_ms") / each,
        rows=result,
    )


def _told_once(rows: Sequence[ProfilerRow]) -> list[ProfilerRow]:
    """Ranges that the profiler projected on the device have a second row under the same name, which
    is left out."""
    on_host = {row.name for row in rows if _on_host(row)}
    return [row for row in rows if _on_host(row) or row.name not in on_host]


def _by_time(row: ProfiledRow) -> tuple[float, float]:
    return -(row.device_total_ms or row.self_device_ms or 0.0), -(row.self_cpu_ms or 0.0)


def _total(rows: Sequence[ProfilerRow], figure: str) -> float:
    return sum((getattr(row, figure) or 0.0 for row in rows), 0.0)


def _on_host(row: ProfilerRow) -> bool:
    return bool(row.self_cpu_ms or row.cpu_total_ms)


def _row(
    row: ProfilerRow,
    steps: float,
    device_ms: float,
    classes: KernelClasses,
    gpus: Mapping[int, Hardware | None],
) -> ProfiledRow:
    kind = _kind(row)
    own = row.self_device_ms
    return ProfiledRow(
        name=row.name,
        kind=kind,
        cls=classes.names[classes.class_of(row.name)] if kind == "kernel" else None,
        calls=ratio(row.calls, steps),
        self_cpu_ms=ratio(row.self_cpu_ms, steps),
        cpu_total_ms=ratio(row.cpu_total_ms, steps),
        self_device_ms=ratio(own, steps),
        device_total_ms=ratio(row.device_total_ms, steps),
        share_of_device=ratio(own, device_ms) if kind in DEVICE else None,
        shapes=row.shapes,
        device=row.device,
        **_rates(row, gpus.get(-1 if row.device is None else row.device)),
    )


def _rates(row: ProfilerRow, gpu: Hardware | None) -> dict[str, float | None]:
    """Rates of the work that is stated of a kernel, and how near they are to the GPU's limits."""
    seconds = (row.self_device_ms or 0.0) / MS_PER_S
    flops = sum(row.flops.values())
    if not seconds or not (flops or row.bytes):
        return {}
    return {
        "tflops": flops / seconds / TERA if flops else None,
        "gbs": row.bytes / seconds / GIGA if row.bytes else None,
        "roofline_share": ratio(_least_s(row, gpu) or None if gpu else None, seconds),
    }


def _least_s(row: ProfilerRow, gpu: Hardware) -> float:
    # The fastest type of each width; where one is not known nothing is said of the computation.
    types = {
        width: [gpu.matrix_peak(name) or 0.0 for name in WIDTHS.get(width, ())]
        for width in row.flops
    }
    peaks = {width: max(known, default=0.0) for width, known in types.items()}
    computing = (ratio(amount, peaks[width]) or 0.0 for width, amount in row.flops.items())
    computing_s = sum(computing) if all(peaks.values()) else 0.0
    return max((row.bytes or 0.0) / gpu.bandwidth, computing_s)


def _kind(row: ProfilerRow) -> str:
    """A kernel or a copy has device time of its own and none on the host."""
    if _COPIES.match(row.name):
        return "copy"
    if row.self_device_ms and not _on_host(row):
        return "kernel"
    return "api" if row.name.startswith(API) and "::" not in row.name else "op"
