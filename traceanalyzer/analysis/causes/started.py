"""A timed trace that knows what let each device op start, and which calls held the host."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.lean import flat
from traceanalyzer.analysis.causes.inputs import input_copies
from traceanalyzer.analysis.causes.start import (
    Bindings,
    HostWaits,
    Starts,
    find_bindings,
    find_starts,
    host_waits,
)
from traceanalyzer.analysis.time.timed import Timed

if TYPE_CHECKING:
    from traceanalyzer.trace import Bool


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

    def let_go_of_starts(self) -> None:
        """Let go of columns as large as the device ops themselves, after replay and path: tables do not need them, and
        they are made again where they are asked for."""
        for name in ("starts", "bindings", "launch_time", "_launch_order"):
            self.__dict__.pop(name, None)

    @cached_property
    def input_copies(self) -> Bool:
        """Which device ops bring input data that the program had loaded."""
        return flat(input_copies(self))

    @cached_property
    def call_brings_input(self) -> Bool:
        """Which API calls launch a copy of data from the host."""
        result = np.zeros(len(self.trace.api_calls), bool)
        result[self.launch[self.input_copies & (self.launch >= 0)]] = True
        return flat(result)

    @cached_property
    def host_waits(self) -> HostWaits:
        """The calls that held the host until the device was done or had room."""
        return host_waits(self)
