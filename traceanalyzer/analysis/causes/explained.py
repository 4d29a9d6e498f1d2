"""A trace whose idle time is explained: gaps with their causes, and the critical path."""

from __future__ import annotations

from functools import cached_property

from traceanalyzer.analysis.causes.critical_path import CriticalPath, find_critical_path
from traceanalyzer.analysis.causes.gaps import Gaps, find_gaps
from traceanalyzer.analysis.causes.started import Started


class Explained(Started):
    """`Started` with gaps and critical path."""

    @cached_property
    def gaps(self) -> Gaps:
        """Idle gaps of all devices with their causes."""
        return find_gaps(self)

    @cached_property
    def critical_path(self) -> CriticalPath:
        """The chain of causes that is as long as the steady steps; empty without device work."""
        return find_critical_path(self)
