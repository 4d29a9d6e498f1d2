"""The little of CUDA that recorders need, safe to call in a process that has no GPU or has not
touched it yet."""

import sys
import threading
from typing import Any

ALLOCATOR_CALLS = (
    "num_device_alloc",
    "num_device_free",
    "num_alloc_retries",
    "num_sync_all_streams",
)
"""What `torch.cuda.memory_stats` counts of the allocator's calls: memory asked of the device and given
back to it, its cache freed to try again, all streams waited for."""


def in_use() -> bool:
    """Whether PyTorch has a CUDA context in this process. Never creates one: that would break a
    later fork."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def capturing() -> bool:
    """Whether a CUDA graph is being captured: recording an event or waiting would end the capture
    with an error."""
    return in_use() and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def most_allocated() -> int | None:
    """The most that PyTorch's allocator had given out on the current device since the process
    began, or since its user reset it; None without CUDA."""
    return int(sys.modules["torch"].cuda.max_memory_allocated()) if in_use() else None


def allocator_calls() -> dict[str, int]:
    """How often PyTorch's allocator has called the current device since the process began, by
    `ALLOCATOR_CALLS`; empty without CUDA, and where an allocator does not count."""
    if not in_use():
        return {}
    try:
        counted = sys.modules["torch"].cuda.memory_stats()
    except RuntimeError:  # an allocator of the script's own has no statistics
        return {}
    return {name: int(counted[name]) for name in ALLOCATOR_CALLS if name in counted}


def calls_since(before: dict[str, int]) -> dict[str, int]:
    """The calls of the allocator since `allocator_calls` said this; empty where nothing is counted."""
    now = allocator_calls()
    return {name: now[name] - count for name, count in before.items() if name in now}


def synchronize() -> None:
    """Wait for the device, if there is one in use."""
    if in_use():
        sys.modules["torch"].cuda.synchronize()


def wait_at_most(seconds: float) -> bool:
    """Wait for the device, but not for ever: a collective whose peer died never ends. True if it is
    idle."""
    if not in_use():
        return True
    torch = sys.modules["torch"]
    # a thread, because CUDA can be asked without waiting for a stream but not for the device
    waiting = threading.Thread(
        target=torch.cuda.synchronize, args=(torch.cuda.current_device(),), daemon=True
    )
    try:
        waiting.start()
    except RuntimeError:  # Python 3.12 starts no threads while it ends
        return bool(torch.cuda.current_stream().query())
    waiting.join(seconds)
    return not waiting.is_alive()


def new_events(count: int) -> list[Any]:
    """CUDA events for timing, empty without CUDA. The first `record` of each creates it on the
    device."""
    return (
        [sys.modules["torch"].cuda.Event(enable_timing=True) for _ in range(count)]
        if in_use()
        else []
    )


def timing_events(count: int) -> list[Any]:
    """CUDA events that exist on the device already, so that `record` costs the least; waits for the
    device."""
    events = new_events(count)
    for event in events:
        event.record()
    synchronize()
    return events
