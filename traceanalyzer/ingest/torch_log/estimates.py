"""Inductor's own guess of the time of each kernel, which it logs where LOG_TLPARSE=1 is set.

The record calls it `estimated_runtime_ns`; inductor counted in nanoseconds once and counts in milliseconds now, under
the same name. The record has the outputs of each operation, too: what writes more than any GPU could in so many
nanoseconds is in milliseconds.
"""

import math
from typing import Any

from traceanalyzer.ingest.side_files import mapping, mappings
from traceanalyzer.trace.compile_log import Estimate

MOST_BYTES_PER_NS = 20_000
"""More than twice of what the memory of any GPU takes (8,000 on a B200)."""
NS_PER_MS = 1e6
MOST = 1e15
"""A larger time is damage."""
_BITS = {"bool": 8, "complex64": 64, "complex128": 128}


def read_estimates(values: object) -> tuple[Estimate, ...]:
    """The estimates of a graph's operations in the order in which they run; None for what it does not estimate (it
    says 0, and does so for all on a CPU)."""
    known = mappings(mapping(values).get("ops"))
    times = [_time(one.get("estimated_runtime_ns")) for one in known]
    pairs = [(_bytes(one), time) for one, time in zip(known, times, strict=True) if time]
    scale = NS_PER_MS if any(written > time * MOST_BYTES_PER_NS for written, time in pairs) else 1.0
    return tuple(
        Estimate(str(one.get("name") or ""), time * scale if time else None)
        for one, time in zip(known, times, strict=True)
    )


def _time(value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST
    return float(value) if known else 0.0  # type: ignore[arg-type]


def _bytes(operation: dict[str, Any]) -> float:
    """Bytes of an operation's outputs; what is not said counts as none."""
    return sum(map(_bytes_of, mappings(operation.get("outputs"))))


def _bytes_of(output: dict[str, Any]) -> float:
    shape, dtype = output.get("shape"), output.get("dtype")
    if not isinstance(shape, list) or not isinstance(dtype, str):
        return 0.0
    sizes = [size for size in shape if isinstance(size, int) and 0 <= size < 1 << 48]
    digits = "".join(filter(str.isdigit, dtype.partition("_")[0]))
    bits = _BITS.get(dtype, int(digits) if digits and len(digits) < 4 else 0)
    return math.prod(map(float, sizes)) * bits / 8 if len(sizes) == len(shape) else 0.0
