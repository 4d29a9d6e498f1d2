"""What can be said where API calls were recorded and no device work: where the host's time in them went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.api_time import api_times
from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool


def api_only(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Host time by API call, of a recording without device work."""
    if m.device is not None or not len(m.trace.api_calls):
        return
    times = api_times(m)
    evidence = [
        Evidence("GPU work", "not recorded", "", "only the host's side is known"),
        *(Evidence("host time", row.ms, "ms", f"{row.calls:,} x {row.name}, whole recording") for row in times),
    ]
    title = "Only API calls were recorded: where the CPU's time in them goes"
    yield Draft("api-calls-only", "inconclusive", title, "none", None, evidence)
