"""A trace whose idle time is explained: gaps with their causes, and the critical path."""

from functools import cached_property

from traceanalyzer.analysis.causes.critical_path import CriticalPath, find_critical_path
from traceanalyzer.analysis.causes.gaps import Gaps, find_gaps
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.time.timed import HasTimed, Timed
from traceanalyzer.base import dataclass


@dataclass(frozen=True, eq=False)
class Causes(HasTimed):
    """Why the devices were idle."""

    started: LaunchEdges

    @property
    def timed(self) -> Timed:
        """The recording in time."""
        return self.started.timed

    @cached_property
    def gaps(self) -> Gaps:
        """Idle gaps of all devices with their causes."""
        return find_gaps(self.started)

    @cached_property
    def critical_path(self) -> CriticalPath:
        """The chain of causes that is as long as the steady steps; empty without device work."""
        return find_critical_path(self.started)
