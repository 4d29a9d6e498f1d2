"""A timed trace that knows what let each device op start, and which calls held the host."""

from __future__ import annotations

from functools import cached_property

from traceanalyzer.analysis.causes.start import (
    Bindings,
    HostWaits,
    Starts,
    find_bindings,
    find_starts,
    host_waits,
)
from traceanalyzer.analysis.time.timed import Timed


class Started(Timed):
    """`Timed` with the edges along which a critical path runs."""

    @cached_property
    def starts(self) -> Starts:
        """What each device op needs before it can start."""
        return find_starts(self)

    @cached_property
    def bindings(self) -> Bindings:
        """What let each device op start."""
        return find_bindings(self, self.starts)

    @cached_property
    def host_waits(self) -> HostWaits:
        """The calls that held the host until the device was done or had room."""
        return host_waits(self)
