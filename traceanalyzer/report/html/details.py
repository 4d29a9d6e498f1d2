"""What the HTML report shows beyond the report value: timelines of steps, memory over time, the
GPU's ceilings. `made_details` makes it; a page of kept details does without."""

from dataclasses import field

from traceanalyzer.analysis.tables.step_figures import Idle
from traceanalyzer.base import dataclass
from traceanalyzer.report.timeline import distributions as of_events
from traceanalyzer.report.timeline.icicle import IcicleBox
from traceanalyzer.report.timeline.lanes import Timeline


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

    @property
    def timeline(self) -> Timeline | None:
        """That of the representative step."""
        return self.timelines[0] if self.timelines else None
