"""Samples of GPUs and CPUs that lie beside a recording (`nvml.rank{N}.jsonl`), as one row a thing that was sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from traceanalyzer.ingest.side_files import is_number
from traceanalyzer.trace import Load

MOST_GPUS = 1024
"""Of one host."""
_OF_GPUS = (
    ("gpu_utilization", "time with a kernel", "%", 1.0),
    ("memory_utilization", "time with memory traffic", "%", 1.0),
    ("memory_used_bytes", "memory used, by all processes", "GB", 1e-9),
    ("power_w", "power", "W", 1.0),
    ("sm_clock_mhz", "SM clock", "MHz", 1.0),
)
_OF_CPUS = (
    ("host_cpu_share", "host: CPUs busy", "%", 100.0),
    ("host_iowait_share", "host: CPUs idle while a disk is waited for", "%", 100.0),
    ("program_cores", "host: CPUs used by the program and its workers", "cores", 1.0),
)
"""Key of a sample, what it is, its unit, and the factor to that."""


def loads_of(samples: Sequence[Mapping[str, Any]]) -> tuple[Load, ...]:
    """A row for each figure of each GPU, and of the CPUs; figures that are missing or malformed are left out."""
    gpus = sorted({g for s in samples if isinstance(g := s.get("gpu"), int) and 0 <= g < MOST_GPUS})
    rows = [
        _load([s for s in samples if s.get("gpu") == gpu], key, f"GPU {int(gpu)}: {what}", unit, factor)
        for gpu in gpus
        for key, what, unit, factor in _OF_GPUS
    ]
    rows += [_load(samples, key, what, unit, factor) for key, what, unit, factor in _OF_CPUS]
    return tuple(row for row in rows if row is not None)


def _load(samples: Sequence[Mapping[str, Any]], key: str, what: str, unit: str, factor: float) -> Load | None:
    values = [value * factor for s in samples if is_number(value := s.get(key)) and value >= 0]
    if not values:
        return None
    return Load(what, unit, sum(values) / len(values), min(values), max(values), len(values))
