"""What the HTML report shows beyond the report value: timelines of steps, memory over time, the
GPU's ceilings."""

from collections.abc import Sequence
from dataclasses import field

from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.tables.budget import each_idle
from traceanalyzer.analysis.tables.gap_rows import idle_by_length
from traceanalyzer.analysis.tables.step_figures import Idle
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.report.in_parallel import with_roofline
from traceanalyzer.report.timeline import distributions as of_events
from traceanalyzer.report.timeline.icicle import IcicleBox, device_time, idle_time
from traceanalyzer.report.timeline.lanes import Timeline
from traceanalyzer.report.timeline.path_line import ShownPath
from traceanalyzer.report.timeline.several import timelines
from traceanalyzer.trace import distinct
from traceanalyzer.trace.compile_log import CompileLog

TERA = 1e12


@dataclass(frozen=True)
class RooflineCeilings:
    """What the GPU can do at most, as far as the recorded kernels are concerned."""

    name: str
    bandwidth_tbs: float  # device memory, 1e12 bytes/s
    tflops: dict[str, float]  # 1e12 FLOP/s by what calculates, highest first


@dataclass(frozen=True)
class Details:
    """All of it for the critical rank; what was not recorded is None or empty."""

    timelines: list[Timeline] = field(default_factory=list)  # the representative step first
    memory: list[of_events.MemoryTrack] = field(default_factory=list)
    ceilings: RooflineCeilings | None = None
    lengths: of_events.Lengths | None = None
    queue: of_events.Queue | None = None
    by_rank: list[of_events.StepsOfRank] = field(default_factory=list)
    logged: list[of_events.LoggedLoading] = field(default_factory=list)
    boxes: list[IcicleBox] = field(
        default_factory=list
    )  # device time of the representative step by who launched it
    idle_boxes: list[IcicleBox] = field(default_factory=list)  # its idle time by who is behind it
    messages: list[of_events.CollectiveMessage] = field(default_factory=list)  # its collectives
    idle_of_steps: dict[int, Idle] = field(default_factory=dict)  # idle time of each step by cause
    idle_of_ranks: dict[int | None, Idle] = field(
        default_factory=dict
    )  # of the mean step of each rank
    idle_by_length: dict[str, Idle] = field(
        default_factory=dict
    )  # of the mean step by the length of the gaps

    @classmethod
    def of(cls, measured: MeasuredRanks, logs: Sequence[CompileLog] = ()) -> "Details":
        """The details of the rank that the report speaks of; `logs` are of torch.compile."""
        m = measured.critical
        with_roofline(m, lambda: (m.causes.gaps, m.memo(ShownPath)))
        steps = m.timed.steps
        idle = zip(measured.ranks.rows, measured.each, strict=True)
        return cls(
            timelines(measured, logs),
            of_events.memory_tracks(m.trace.memory_events),
            _ceilings(m),
            of_events.kernel_lengths(m),
            of_events.launch_queue(m),
            of_events.steps_of_ranks(measured),
            of_events.logged_loading(m),
            device_time(m),
            idle_time(m),
            of_events.messages(m),
            {}
            if m.budgets is None
            else {steps.first + i: one for i, one in enumerate(each_idle(m.budgets))},
            {row.rank: one.idle for row, one in idle if one.idle},
            idle_by_length(m.timed, m.causes.gaps),
        )

    @property
    def timeline(self) -> Timeline | None:
        """That of the representative step."""
        return self.timelines[0] if self.timelines else None


def _ceilings(m: Measurements) -> RooflineCeilings | None:
    gpu = None if m.timed.device is None else m.linked.gpus[m.timed.device]
    if gpu is None:
        return None
    peaks = {"fp32 on the ordinary cores": gpu.vector.get("fp32")}
    for code in distinct(
        m.rated.roofline.precision[m.timed.steady_ops & m.rated.roofline.modelled]
    ).tolist():
        name = Precision(code).name.lower()
        peaks[f"{name} on tensor cores"] = gpu.tensor.get(name)
    tera = ((name, peak / TERA) for name, peak in peaks.items() if peak)
    known = sorted(tera, key=lambda pair: -pair[1])
    return RooflineCeilings(gpu.name, gpu.bandwidth / TERA, dict(known))
