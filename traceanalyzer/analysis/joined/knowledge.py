"""What measurements take into account besides the recording. It is loaded without what measures, so that a
kept answer can be found by it."""

from dataclasses import field

from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.base import dataclass
from traceanalyzer.trace import StepAmounts
from traceanalyzer.trace.circumstances import KernelCounters
from traceanalyzer.trace.hardware import HardwareTable


@dataclass(frozen=True)
class Knowledge:
    """What measurements take into account besides the recording; the package's own tables by
    default."""

    classes: KernelClasses = field(default_factory=KernelClasses.load)
    hardware: HardwareTable = field(default_factory=HardwareTable.load)
    counters: tuple[
        KernelCounters, ...
    ] = ()  # kernels of the same program as a kernel profiler measured them
    amounts: StepAmounts = (
        StepAmounts()
    )  # what a step of one process works through, as the user says
    # what MFU is a share of, as the user says; None: the datasheet's
    peak_flops_per_s: float | None = None
    iteration_name: str | None = None
    """Regular expression that finds the ranges of a serving engine's iterations, as the user
    says."""

    @property
    def stated(self) -> tuple[object, ...] | None:
        """What the user says, as text can hold it: empty where nothing is said, None where files of the
        user's are part of it."""
        usual = Knowledge()
        if self.classes != usual.classes or self.hardware != usual.hardware or self.counters:
            return None
        values = (self.amounts, self.peak_flops_per_s, self.iteration_name)
        usual_values = (usual.amounts, usual.peak_flops_per_s, usual.iteration_name)
        return () if values == usual_values else values
