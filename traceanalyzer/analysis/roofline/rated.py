"""An explained trace whose device ops are held against the limits of their GPU."""

from __future__ import annotations

from functools import cached_property

from traceanalyzer.analysis.causes.explained import Explained
from traceanalyzer.analysis.roofline.counted import with_counters
from traceanalyzer.analysis.roofline.roofline import Roofline, build_roofline


class Rated(Explained):
    """`Explained` with what each device op could reach."""

    @cached_property
    def roofline(self) -> Roofline:
        """What each device op could reach on its GPU."""
        estimated, counters = build_roofline(self), self.knowledge.counters
        return with_counters(self, estimated, counters) if counters else estimated
