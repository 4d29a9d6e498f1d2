"""An explained trace whose device ops are held against the limits of their GPU."""

from functools import cached_property

from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.started import Started
from traceanalyzer.analysis.roofline.counted import with_counters
from traceanalyzer.analysis.roofline.roofline import Roofline, build_roofline
from traceanalyzer.analysis.roofline.sampled_bounds import sampled_bounds
from traceanalyzer.analysis.time.timed import OfTimed, Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import U8


@dataclass(frozen=True, eq=False)
class Rated(OfTimed):
    """What each device op could reach."""

    causes: Causes

    @property
    def timed(self) -> Timed:
        """The same in time."""
        return self.causes.timed

    @property
    def started(self) -> Started:
        """What each device op needed to start."""
        return self.causes.started

    @property
    def roofline(self) -> Roofline:
        """What each device op could reach on its GPU."""
        return self.memo(counted_roofline)

    @cached_property
    def sampled_bounds(self) -> U8:
        """What limits each device op as counters sampled meanwhile say, as a `Bound`."""
        return sampled_bounds(self.timed)


def counted_roofline(rated: Rated) -> Roofline:
    """What each device op could reach: as counters say where they were collected, else as estimated."""
    estimated, counters = build_roofline(rated.timed), rated.linked.knowledge.counters
    return with_counters(rated.linked, estimated, counters) if counters else estimated
