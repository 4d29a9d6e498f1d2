"""Hardware counters of single kernels, as a kernel profiler measured them by replaying each (Nsight Compute)."""

from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class KernelCounters:
    """One measured kernel. None is what the profiler was not asked for; shares are 0..1 of the hardware's peak."""

    name: str
    """Name as the profiler writes it."""
    blocks: int
    threads: int
    """Grid and block size of its launch, -1 unknown."""
    duration_ns: float | None = None
    dram_bytes: float | None = None
    """Bytes read from and written to the device memory."""
    compute_share: float | None = None
    """Throughput of the busiest unit of the SMs."""
    memory_share: float | None = None
    """Throughput of the busiest part of the memory system, caches included."""
    dram_share: float | None = None
    """Throughput of the device memory."""
    tensor_share: float | None = None
    """Activity of the tensor cores."""
    occupancy_share: float | None = None
    """Warps active over those an SM can hold."""
    stalls: tuple[tuple[str, float], ...] = ()
    """What its warps waited for, and the share of all their cycles, largest first; empty where that was not asked."""
