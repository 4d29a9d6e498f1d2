"""From the first start to the last end."""

from traceanalyzer.trace import ApiCalls, DeviceOps, HostRanges


def extent(*tables: DeviceOps | HostRanges | ApiCalls) -> tuple[int, int]:
    """First start and last end over the tables, ns; (0, 0) where all are empty."""
    filled = [t for t in tables if len(t)]
    if not filled:
        return 0, 0
    return min(int(t.start[0]) for t in filled), max(int(t.end.max()) for t in filled)
