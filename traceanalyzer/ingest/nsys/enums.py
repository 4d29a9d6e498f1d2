"""The enumerations of an nsys export that the reader relies on. Exports before schema 3.0.0 have no
`ENUM_*` tables, so these are built in. They are nsys's own numbers: its memory kinds differ from
CUPTI's."""

import enum

from traceanalyzer.trace import CopyKind, MemoryKind, OverheadKind, WaitKind


class NvtxEvent(enum.IntEnum):
    """`NVTX_EVENTS.eventType`, as far as it is read."""

    CATEGORY = 33
    THREAD_NAME = 39
    PUSH_POP = 59
    START_END = 60
    IMPORTED_PUSH_POP = 70
    IMPORTED_START_END = 71
    DOMAIN_CREATE = 75


NVTX_RANGES = (
    NvtxEvent.PUSH_POP,
    NvtxEvent.START_END,
    NvtxEvent.IMPORTED_PUSH_POP,
    NvtxEvent.IMPORTED_START_END,
)
INVALID_ID = 0xFFFFFFFF  # what nsys writes for "no such stream" or "no such event"
COPY_KINDS: dict[int, CopyKind] = {
    1: CopyKind.HOST_TO_DEVICE,
    2: CopyKind.DEVICE_TO_HOST,
    3: CopyKind.HOST_TO_DEVICE,  # host to array
    4: CopyKind.DEVICE_TO_HOST,  # array to host
    5: CopyKind.DEVICE_TO_DEVICE,  # array to array
    6: CopyKind.DEVICE_TO_DEVICE,  # array to device
    7: CopyKind.DEVICE_TO_DEVICE,  # device to array
    8: CopyKind.DEVICE_TO_DEVICE,
    9: CopyKind.HOST_TO_HOST,
    10: CopyKind.PEER_TO_PEER,
    11: CopyKind.UNIFIED_HOST_TO_DEVICE,
    12: CopyKind.UNIFIED_DEVICE_TO_HOST,
    13: CopyKind.UNIFIED_DEVICE_TO_DEVICE,
}
"""`ENUM_CUDA_MEMCPY_OPER`."""
MEMORY_KINDS: dict[int, MemoryKind] = {
    0: MemoryKind.PAGEABLE,
    1: MemoryKind.PINNED,
    2: MemoryKind.DEVICE,
    3: MemoryKind.ARRAY,
    4: MemoryKind.MANAGED,
    5: MemoryKind.DEVICE,  # device, static
    6: MemoryKind.MANAGED,  # managed, static
}
"""`ENUM_CUDA_MEM_KIND`."""
OVERHEADS: dict[int, tuple[str, OverheadKind]] = {
    2: ("Driver JIT compiler", OverheadKind.DRIVER),
    3: ("Buffer flush", OverheadKind.PROFILER),
    4: ("Instrumentation", OverheadKind.PROFILER),
    5: ("Resource", OverheadKind.PROFILER),
    6: ("Runtime-triggered module loading", OverheadKind.DRIVER),
    7: ("Lazy function loading", OverheadKind.DRIVER),
    8: ("Command buffer full", OverheadKind.BACK_PRESSURE),
}
"""`ENUM_CUPTI_OVERHEAD_TYPE`, for rows without a name of their own, and whose cost it is."""
OTHER_OVERHEAD = ("Profiler overhead", OverheadKind.PROFILER)
EVENT_SYNC_TYPES: tuple[tuple[tuple[int, int], dict[int, WaitKind]], ...] = (
    ((3, 13), {1: WaitKind.EVENT_SYNC, 2: WaitKind.STREAM_WAIT_EVENT}),
    ((0, 0), {2: WaitKind.EVENT_SYNC, 3: WaitKind.STREAM_WAIT_EVENT}),
)
"""What `syncType` of a row with an event means from which schema on. The file's own enumeration
table is wrong before 3.25; of rows without an event the type changed more often, and is not
needed."""
