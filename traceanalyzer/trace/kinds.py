"""What events of a recording are: of a device, of the host, of waits."""

import enum


class DeviceOpKind(enum.IntEnum):
    """What occupied the device."""

    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    GRAPH = 4
    """A whole CUDA graph recorded as one interval (nsys graph-level tracing); its kernels are not visible."""


class CopyKind(enum.IntEnum):
    """Direction of a memory copy; host means CPU memory, device means GPU memory."""

    UNKNOWN, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST, PEER_TO_PEER = range(6)
    UNIFIED_HOST_TO_DEVICE, UNIFIED_DEVICE_TO_HOST, UNIFIED_DEVICE_TO_DEVICE = range(6, 9)

    @property
    def label(self) -> str:
        """What such a copy is called whichever tool recorded it: as Kineto calls it."""
        ends = self.name.removeprefix("UNIFIED_").split("_TO_")
        memory = "Memcpy" if self < CopyKind.UNIFIED_HOST_TO_DEVICE else "Unified Memory"
        return f"{memory} {ends[0][0]}to{ends[1][0]}" if self else memory


class MemoryKind(enum.IntEnum):
    """Kind of memory at one end of a copy."""

    UNKNOWN, PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED = range(6)


class RangeKind(enum.IntEnum):
    """Who recorded a host range."""

    OP = 1
    """A framework operator (`aten::mm`), including autograd nodes."""
    ANNOTATION = 2
    """A range the user or a library named (`record_function`, NVTX)."""
    PYTHON = 3
    """A Python function call (stack recording)."""
    LIBRARY = 4
    """A call into a CUDA library recorded as such (cuBLAS, cuDNN)."""
    OS = 5
    """An operating-system call (nsys OSRT)."""


class WaitKind(enum.IntEnum):
    """A recorded synchronisation (CUDA sync events). With the first a stream waits for an event on the device, and the
    host goes on."""

    STREAM_WAIT_EVENT, EVENT_SYNC, STREAM_SYNC, CONTEXT_SYNC, EVENT_RECORD = range(1, 6)


class OverheadKind(enum.IntEnum):
    """Time that is neither the program's nor the device's work."""

    PROFILER = 1
    """Buffer flushes, instrumentation and bookkeeping of the profiler."""
    BACK_PRESSURE = 2
    """The launch queue was full and the host had to wait ("Command Buffer Full")."""
    DRIVER = 3
    """The application's own driver work: JIT compilation, lazy loading of kernels."""


class OccupancyLimit(enum.IntFlag):
    """What keeps more blocks of a kernel from an SM."""

    WARPS = 1
    REGISTERS = 2
    SHARED_MEMORY = 4
    BLOCKS = 8
    BARRIERS = 16
