"""A timed trace that knows what let each device op start, and which calls held the host."""

from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import flat
from traceanalyzer.analysis.causes.inputs import input_copies
from traceanalyzer.analysis.causes.start import Bindings, HostWaits, Starts, find_bindings, find_starts, host_waits
from traceanalyzer.analysis.time.timed import OfTimed, Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import Bool


@dataclass(frozen=True, eq=False)
class Started(OfTimed):
    """The edges along which a critical path runs."""

    timed: Timed

    @cached_property
    def starts(self) -> Starts:
        """What each device op needs before it can start."""
        return find_starts(self.linked)

    @cached_property
    def bindings(self) -> Bindings:
        """What let each device op start."""
        return find_bindings(self.linked, self.starts)

    @cached_property
    def input_copies(self) -> Bool:
        """Which device ops bring input data that the program had loaded."""
        return flat(input_copies(self.timed))

    @cached_property
    def call_brings_input(self) -> Bool:
        """Which API calls launch a copy of data from the host."""
        result = np.zeros(len(self.trace.api_calls), bool)
        result[self.linked.launch[self.input_copies & (self.linked.launch >= 0)]] = True
        return flat(result)

    @cached_property
    def host_waits(self) -> HostWaits:
        """The calls that held the host until the device was done or had room."""
        return host_waits(self.timed)
