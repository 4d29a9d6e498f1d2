"""Steps of the run: where each begins and ends on the host and on the device, and which ops belong to it.

Device ops belong to the step whose host range holds their launch call, whenever they ran. A step ends when
both its host range and its last device op have ended, and the next one begins there: where the device runs
behind the host this is the device's own period, where the host is slower it is the host's, and the windows
of a run are contiguous either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceanalyzer.analysis.context import Context
    from traceanalyzer.trace import I32, I64


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps in time order. Without any in the recording: one that spans it (`source` is `none`)."""

    source: str
    """`profiler_step`, `nvtx`, `annotation`, `periodicity`, `timing_log` or `none`."""
    names: tuple[str, ...]
    host_start: I64
    host_end: I64
    """Host range of each step, ns."""
    start: I64
    end: I64
    """Wall-clock window of each step on the device, ns; contiguous: `start[i + 1] == end[i]`."""
    warmup: int
    """How many leading steps are warm-up."""
    of_op: I32
    """For each device op the index of its step, -1 outside all steps."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def steady(self) -> slice:
        """The steady-state steps."""
        return slice(self.warmup, None)

    @property
    def steady_count(self) -> int:
        """How many steady-state steps there are; at least 1."""
        return len(self) - self.warmup


def find_steps(ctx: Context) -> Steps:
    """The steps of a recording, from the best evidence it has."""
    raise NotImplementedError
