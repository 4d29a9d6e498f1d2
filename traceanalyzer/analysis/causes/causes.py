"""A trace whose idle time is explained: gaps with their causes, and the critical path."""

from __future__ import annotations

from functools import cached_property

from traceanalyzer.analysis.causes.critical_path import CriticalPath, find_critical_path
from traceanalyzer.analysis.causes.gaps import Gaps, find_gaps
from traceanalyzer.analysis.causes.started import Started
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.joined.memo import Memo
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import Trace


@dataclass(frozen=True, eq=False)
class Causes(Memo):
    """Why the devices were idle."""

    started: Started

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.started.trace

    @property
    def linked(self) -> Linked:
        """The joins of its rows."""
        return self.started.linked

    @property
    def joined(self) -> Joined:
        """The joins made from these."""
        return self.started.joined

    @property
    def timed(self) -> Timed:
        """The same in time."""
        return self.started.timed

    @cached_property
    def gaps(self) -> Gaps:
        """Idle gaps of all devices with their causes."""
        return find_gaps(self.started)

    @cached_property
    def critical_path(self) -> CriticalPath:
        """The chain of causes that is as long as the steady steps; empty without device work."""
        return find_critical_path(self.started)
