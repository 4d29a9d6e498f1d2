"""What is left of idle time in the step without the profiler, by recorded gap: what tables of gaps,
waits and phases sum up beside what was recorded."""

from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64

Place = tuple[str, str | None]
"""A cause of idle time, and the operator or call that it is charged to."""


@dataclass(frozen=True, eq=False)
class IdleLeft:
    """Idle time of a mean step without the profiler, ms."""

    of_gap: F64
    """Of each recorded gap what is left; 0 of those outside of the steps' device."""
    elsewhere: dict[Place, float]
    """What no recorded gap holds."""
