"""Times one function on the device: events made beforehand, warm-up, one wait at the end."""

import time
from collections.abc import Callable
from typing import Any

from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.collect.host.cuda import most_allocated, timing_events
from traceanalyzer.collect.steps.step_clock import summarize

WARMUP = 10
REPEATS = 100
GRAPH_WARMUP = 3
"""Calls on the side stream before a capture, for libraries that set themselves up on first use."""
L2_FACTOR = 2
"""The buffer that flushes the L2 cache is this many times its size: replacement is not strictly by
age."""


@dataclass(frozen=True)
class Timing:
    """Times of single calls, ms, and memory of the timed ones."""

    count: int
    mean: float
    median: float
    std: float
    min: float
    max: float
    p95: float
    p99: float
    clock: str  # `cuda_events`, or `host` without CUDA
    # the most that was allocated on the device while the timed calls ran, what was there before
    # included; None without CUDA
    peak_bytes: int | None = None


def benchmark(
    function: Callable[[], object],
    *,
    warmup: int = WARMUP,
    repeats: int = REPEATS,
    flush_l2: bool = False,
    cuda_graph: bool = False,
) -> Timing:
    """Call the function `warmup + repeats` times and time the repeats on the device.

    `flush_l2` overwrites the L2 cache before each call, outside the timed interval, so that inputs
    come from memory. `cuda_graph` times replays of a CUDA graph of the function: device time where
    launching is the limit. The allocator's peak is reset before the timed calls. Without CUDA the
    host's clock is read around each call."""
    import torch

    if not torch.cuda.is_available():
        return _on_host(function, warmup, repeats)
    torch.cuda.init()
    call = _captured(function) if cuda_graph else function
    flush = _flusher() if flush_l2 else None
    for _ in range(warmup):
        call()
    begins = timing_events(repeats)
    ends = timing_events(repeats)
    torch.cuda.reset_peak_memory_stats()
    for begin, end in zip(begins, ends, strict=True):
        if flush is not None:
            flush.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    times = [begin.elapsed_time(end) for begin, end in zip(begins, ends, strict=True)]
    return _timing(times, "cuda_events", most_allocated())


def _on_host(function: Callable[[], object], warmup: int, repeats: int) -> Timing:
    for _ in range(warmup):
        function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        function()
        times.append((time.perf_counter_ns() - begin) / NS_PER_MS)
    return _timing(times, "host")


def _timing(times: list[float], clock: str, peak: int | None = None) -> Timing:
    summary = summarize(times) | {"count": len(times)}
    return Timing(**summary, clock=clock, peak_bytes=peak)  # type: ignore[arg-type]


def _captured(function: Callable[[], object]) -> Callable[[], object]:
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(GRAPH_WARMUP):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def _flusher() -> Any:
    """A buffer that fills the L2 cache when it is written."""
    import torch

    size = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return torch.empty(L2_FACTOR * size, dtype=torch.uint8, device="cuda")
