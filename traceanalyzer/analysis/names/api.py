"""What an API call does, from its name: CUDA runtime and driver, HIP, and the runtimes modelled on
them."""

import enum
import re

import numpy as np

from traceanalyzer.trace import U8, ApiCalls, distinct_places

FULL_QUEUE = 1000
"""Ops queued on a device at which its launch queue counts as full. The queue holds 1,024 launches
(recordings with `Command Buffer Full` rows level off at 1,023); not every queued op is recorded."""


class ApiKind(enum.IntEnum):
    """What an API call does."""

    OTHER = 0
    LAUNCH = 1  # launches one kernel
    GRAPH_LAUNCH = 2
    COPY = 3
    SET = 4
    SYNC = 5  # blocks the host until device work has ended (device, stream or event)
    ALLOCATE = 6
    FREE = 7
    EVENT_RECORD = 8
    EVENT_WAIT = 9  # makes a stream wait for an event; does not block the host
    QUERY = 10  # asks for state: neither puts anything in a queue nor waits for it


# In order: the first pattern found in a name decides.
_PATTERNS = (
    (ApiKind.GRAPH_LAUNCH, r"GraphLaunch"),
    # Nodes of a graph under construction (cudaGraphAddMemcpyNode, ...) do nothing on the device
    # yet; host functions put in a stream (cudaLaunchHostFunc) are no kernels.
    (ApiKind.OTHER, r"Graph|LaunchHostFunc|FuncGetAttribute"),
    (
        ApiKind.LAUNCH,
        r"Launch(Cooperative|Multi|Multiple)?Kernel|KernelLaunch|^cu(da)?Launch(_ptsz)?$|^cuLaunchGrid(Async)?$|LaunchByPtr",
    ),
    (ApiKind.SYNC, r"Synchronize|^ur(EventWait|QueueFinish)$|^pi(EventsWait|QueueFinish)$"),
    (ApiKind.EVENT_WAIT, r"StreamWait(Event|Value)|WaitExternalSemaphores|EnqueueEventsWait"),
    (ApiKind.EVENT_RECORD, r"EventRecord|RecordEvent"),
    (
        ApiKind.QUERY,
        r"Query|GetAttribute|IsCapturing|GetCaptureInfo|GetDevice|LastError|GetErrorString|MemGetInfo",
    ),
    (ApiKind.COPY, r"Mem[cC]py|AppendMemoryCopy|MemBuffer(Copy|Read|Write)"),
    (ApiKind.SET, r"Mem[sS]et(?!Access|Attribute)|AppendMemoryFill|USMFill|MemBufferFill"),
    (
        ApiKind.ALLOCATE,
        r"Malloc|MemAlloc|HostAlloc|USM(Device|Host|Shared)Alloc|MemCreate|MemMap(?!Array)|HostRegister|AddressReserve",
    ),
    (ApiKind.FREE, r"Free|MemRelease|MemUnmap|HostUnregister"),
)


def api_kind(name: str) -> ApiKind:
    """The kind of the call with this name."""
    return next((kind for kind, pattern in _PATTERNS if re.search(pattern, name)), ApiKind.OTHER)


def api_kinds(calls: ApiCalls, strings: list[str]) -> U8:
    """The `ApiKind` of each call; each distinct name is looked at once."""
    codes, inverse = distinct_places(calls.name)
    kinds = np.array(
        [api_kind(strings[code]) if code >= 0 else 0 for code in codes], dtype=np.uint8
    )
    return kinds[inverse] if len(codes) else np.empty(0, np.uint8)
