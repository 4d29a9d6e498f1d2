"""The diagnosis of a long recording, made by a second process while this one makes the tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.ingest.free_memory import free_bytes
from traceanalyzer.second_process import meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.diagnose import Diagnosis

LEAST_ROWS = 50_000
"""Device ops, host ranges and API calls; with fewer, the diagnosis takes about as long as to start a process."""
BYTES_A_ROW = 150
"""What a row costs in the memory of the second process that the first does not have as well."""


def diagnosed_meanwhile(m: Measurements) -> AbstractContextManager[Callable[[], Diagnosis]]:
    """What gives the diagnosis once the block has done what else a report needs. Raises as `diagnose` does."""
    trace = m.trace
    rows = len(trace.device_ops) + len(trace.host_ranges) + len(trace.api_calls)
    worth = rows >= LEAST_ROWS and _fits(rows * BYTES_A_ROW)
    if worth:
        _prepare(m)
    return meanwhile(partial(diagnose, m), worth=worth)


def _prepare(m: Measurements) -> None:
    """Work out what both processes need: then it is done once. The roofline takes as long as what needs none of it."""
    _ = m.timeline
    with meanwhile(lambda: m.roofline, worth=True) as roofline:
        _ = m.gaps, m.phases
        m.roofline = roofline()
    _ = m.replay, m.unprofiled


def _fits(size: int) -> bool:
    free = free_bytes()
    return free is None or size < free
