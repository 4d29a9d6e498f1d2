"""Copies of two steps: how many bytes they moved, and how fast. A copy that moved fewer bytes is
not a faster one."""

from collections.abc import Mapping

from traceanalyzer.base import dataclass
from traceanalyzer.comparison.speed import SAME_CALLS
from traceanalyzer.report.format import figure, number
from traceanalyzer.report.model import Report

SAME_BANDWIDTH = 0.1
"""Bandwidths that differ by less are one: copies of one program over one link vary by a few
percent from run to run."""
_GB_PER_MS = 1e6  # bytes over ms to GB/s


@dataclass(frozen=True)
class Copied:
    """The copies of a step in one direction."""

    bytes: float
    ms: float  # sum over the copies

    @property
    def bandwidth_gbs(self) -> float:
        """Bytes over time."""
        return self.bytes / self.ms / _GB_PER_MS if self.ms else 0.0


def copies_by_direction(report: Report) -> Mapping[str, Copied]:
    """The copies of a step by direction, called as recordings do: `Memcpy HtoD`. Without those
    whose bytes were not all recorded; nothing where rows are of several GPUs."""
    rows = report.tables.get("copies", [])
    if len({(row.rank, row.device) for row in rows}) > 1:
        return {}
    found: dict[str, Copied] = {}
    unknown = {row.direction for row in rows if row.bytes is None}
    for row in rows:
        if row.direction in unknown:
            continue
        name = _name_of(row.direction)
        before = found.get(name, Copied(0.0, 0.0))
        found[name] = Copied(before.bytes + row.bytes, before.ms + row.total_ms)
    return found


def _name_of(direction: str) -> str:
    source, _, target = direction.partition(" to ")
    return f"Memcpy {source[:1].upper()}to{target[:1].upper()}"


def kind_of_copies(a: Copied | None, b: Copied | None, difference_ms: float) -> str:
    """What happened to copies that both sides have. Nothing says that they are faster where their
    bytes are not known."""
    if a is None or b is None:
        return "more_time" if difference_ms > 0 else "less_time"
    if abs(b.bytes - a.bytes) > SAME_CALLS * max(a.bytes, b.bytes):
        return "more_bytes" if b.bytes > a.bytes else "fewer_bytes"
    return "slower" if difference_ms > 0 else "faster"


def bytes_and_bandwidth(a: Copied, b: Copied, each: str) -> str:
    """How many bytes both moved, and how fast."""
    moved = f"{figure(a.bytes, 'bytes')} → {figure(b.bytes, 'bytes')}{each}"
    speeds = (a.bandwidth_gbs, b.bandwidth_gbs)
    if abs(speeds[1] - speeds[0]) <= SAME_BANDWIDTH * max(speeds):
        return f"{moved}, bandwidth unchanged"
    return f"{moved}, {number(speeds[0])} → {number(speeds[1])} GB/s"
