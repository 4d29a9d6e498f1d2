"""What is known beside the recording: kernel classes, GPUs' limits, measured kernels, what a step works through."""

from __future__ import annotations

from dataclasses import field

from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import StepAmounts
from traceanalyzer.trace.hardware import HardwareTable
from traceanalyzer.trace.kernel_counters import KernelCounters


@dataclass(frozen=True)
class Knowledge:
    """What measurements take into account besides the recording; the package's own tables by default."""

    classes: KernelClasses = field(default_factory=KernelClasses.load)
    hardware: HardwareTable = field(default_factory=HardwareTable.load)
    counters: tuple[KernelCounters, ...] = ()
    """Kernels of the same program as a kernel profiler measured them."""
    amounts: StepAmounts = StepAmounts()
    """What a step of one process works through, as the user says."""
    peak_flops_per_s: float | None = None
    """What MFU is a share of, as the user says; None: the datasheet's."""
    iteration_name: str | None = None
    """Regular expression that finds the ranges of a serving engine's iterations, as the user says."""
