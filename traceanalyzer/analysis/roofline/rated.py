"""An explained trace whose device ops are held against the limits of their GPU."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from traceanalyzer.analysis.causes.explained import Explained
from traceanalyzer.analysis.roofline.counted import with_counters
from traceanalyzer.analysis.roofline.roofline import Roofline, build_roofline
from traceanalyzer.analysis.roofline.sampled_bounds import sampled_bounds

if TYPE_CHECKING:
    from traceanalyzer.trace import U8


class Rated(Explained):
    """`Explained` with what each device op could reach."""

    @cached_property
    def roofline(self) -> Roofline:
        """What each device op could reach on its GPU."""
        estimated, counters = build_roofline(self), self.knowledge.counters
        return with_counters(self, estimated, counters) if counters else estimated

    @cached_property
    def sampled_bounds(self) -> U8:
        """What limits each device op as counters sampled meanwhile say, as a `Bound`."""
        return sampled_bounds(self)
