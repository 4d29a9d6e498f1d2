"""What Kineto's names of copies, waits and overheads mean, for CUDA and HIP."""

from traceanalyzer.base import regex
from traceanalyzer.trace import CopyKind, MemoryKind, OverheadKind, RangeKind, WaitKind

_COPY_KINDS = {
    CopyKind.PEER_TO_PEER: regex(r"(?i)\b(PtoP|P2P|Peer)"),
    CopyKind.HOST_TO_DEVICE: regex(r"(?i)(HtoD|HostToDevice|H2D|M2D|MtoD)"),
    CopyKind.DEVICE_TO_HOST: regex(r"(?i)(DtoH|DeviceToHost|D2H|D2M|DtoM)"),
    CopyKind.DEVICE_TO_DEVICE: regex(r"(?i)(DtoD|DeviceToDevice|D2D|HtoA|AtoH|AtoA|AtoD|DtoA)"),
    CopyKind.HOST_TO_HOST: regex(r"(?i)(HtoH|HostToHost|H2H)"),
}
_ENDS = regex(r"\((\w++(?: ++\w++)*+)\s*+->\s*+(\w[\w ]*+)\)")
_MEMORY_KINDS = {
    "pageable": MemoryKind.PAGEABLE,
    "pinned": MemoryKind.PINNED,
    "device": MemoryKind.DEVICE,
    "array": MemoryKind.ARRAY,
    "managed": MemoryKind.MANAGED,
    "unified": MemoryKind.MANAGED,
    "device static": MemoryKind.DEVICE,
    "managed static": MemoryKind.MANAGED,
}
_WAIT_KINDS = (
    ("wait event", WaitKind.STREAM_WAIT_EVENT),
    ("event record", WaitKind.EVENT_RECORD),
    ("event sync", WaitKind.EVENT_SYNC),
    ("stream sync", WaitKind.STREAM_SYNC),
    ("context sync", WaitKind.CONTEXT_SYNC),
    ("device sync", WaitKind.CONTEXT_SYNC),
)
_OF_THE_DRIVER = ("lazy", "compil", "jit", "module")
_ANNOTATION = regex(r"^(ProfilerStep[#*]|enumerate\(DataLoader\)#|Optimizer\.\w+#)")
"""Ranges that PyTorch's own code names; recordings before 1.12 have them in the category of
operators."""
MTIA_COPY = "dma_request"
"""MTIA's copies are events of the category of its kernels, with this name."""
_MODULE = "nn.Module: "
"""Calls of modules that `collect torch` names; they stand for the Python frames that stacks would
have."""


def no_operator(name: str) -> RangeKind | None:
    """What a range among the operators is; None for an operator."""
    if name.startswith(_MODULE):
        return RangeKind.PYTHON
    return RangeKind.ANNOTATION if _ANNOTATION.match(name) else None


def copy_kind(name: str) -> CopyKind:
    """Direction of a copy from its name (`Memcpy HtoD (Pinned -> Device)`, `CopyHostToDevice`)."""
    return next(
        (kind for kind, pattern in _COPY_KINDS.items() if pattern.search(name)), CopyKind.UNKNOWN
    )


def copy_ends(name: str) -> tuple[MemoryKind, MemoryKind]:
    """Kinds of memory that a copy reads and writes, from its name."""
    ends = _ENDS.search(name)
    if ends is None:
        return memory_kind(""), memory_kind("")
    return memory_kind(ends[1]), memory_kind(ends[2])


def memory_kind(name: str) -> MemoryKind:
    """The kind of memory that CUPTI calls so (`Pinned`, `Device Static`, `device_static`)."""
    return _MEMORY_KINDS.get(name.lower().replace("_", " "), MemoryKind.UNKNOWN)


def wait_kind(name: str) -> int:
    """`WaitKind` of a synchronisation row, 0 if unknown."""
    lowered = name.lower().replace("synchronize", "sync")
    return next((kind for part, kind in _WAIT_KINDS if part in lowered), 0)


def overhead_kind(name: str) -> OverheadKind:
    """Whose cost an overhead row is. What is not the driver's is the profiler's: buffers,
    instrumentation."""
    lowered = name.lower()
    if "command buffer full" in lowered:
        return OverheadKind.BACK_PRESSURE
    return (
        OverheadKind.DRIVER
        if any(part in lowered for part in _OF_THE_DRIVER)
        else OverheadKind.PROFILER
    )
