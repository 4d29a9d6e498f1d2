"""What a second process works out of a long recording while this one works out something else."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from traceanalyzer.ingest.free_memory import free_bytes
from traceanalyzer.second_process import meanwhile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements

LEAST_ROWS = 250_000
"""Device ops, host ranges and API calls. Measured: a process costs a tenth of a second, since both copy what they write
to; 330,000 rows take 0.3 s less for it on quiet cores, 80,000 rows 0.1 s more."""
LEAST_ROWS_OF_ROOFLINE = 1_000_000
"""The same where it is for the roofline alone: that of 330,000 rows takes 0.06 s."""
BYTES_A_ROW = 150
"""What a row costs in the memory of the second process that the first does not have as well. Measured: 40."""


def is_worth_a_process(m: Measurements, *, roofline_alone: bool = False) -> bool:
    """Whether there is enough to do, and memory for another process."""
    trace = m.trace
    rows = len(trace.device_ops) + len(trace.host_ranges) + len(trace.api_calls)
    if rows < (LEAST_ROWS_OF_ROOFLINE if roofline_alone else LEAST_ROWS):
        return False
    free = free_bytes()
    return free is None or rows * BYTES_A_ROW < free


@contextmanager
def roofline_meanwhile(m: Measurements, *, alone: bool = False) -> Iterator[None]:
    """Have the roofline worked out while the block works out what does not need it; `alone`: nothing follows for which
    there is another process as well."""
    if "roofline" in vars(m) or not is_worth_a_process(m, roofline_alone=alone):
        yield
        return
    _ = m.tree  # both need it
    with meanwhile(lambda: m.roofline, worth=True) as made:
        yield
        vars(m)["roofline"] = made()
