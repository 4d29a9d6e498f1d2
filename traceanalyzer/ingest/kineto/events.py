"""The events of a Kineto trace as typed structs: only what a `Trace` keeps is decoded, the rest is
skipped in C."""

import enum
import functools
import operator
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from traceanalyzer.ingest.kineto.times import EXACT_FLOAT_US


class RowGroup(enum.Enum):
    """Where rows go, by their categories. Those with a NUL, which no recording has, are of rows
    that are known by `ph` and need no `cat`."""

    SKIP = ("\0skip",)
    KERNEL = ("kernel", "concurrent_kernel", "mtia_ccp_events")
    MEMCPY = ("gpu_memcpy", "memcpy")
    MEMSET = ("gpu_memset", "memset")
    API = ("runtime", "driver")
    OP = ("cpu_op", "operator")
    ANNOTATION = ("user_annotation",)
    PYTHON = ("python_function",)
    DEVICE_RANGE = ("gpu_user_annotation",)
    SYNC = ("cuda_sync",)
    OVERHEAD = ("overhead",)
    SPAN = ("trace",)
    INSTANT = ("\0instant",)
    META = ("\0meta",)
    COUNTER = ("\0counter",)
    RANGE_COUNTERS = ("cuda_profiler_range",)
    MTIA = ("mtia_insight", "mtia_counters")


_GROUPS = {category: group for group in RowGroup for category in group.value}


class Args(Struct, gc=False):
    """What is read of an event's `args`, in the order in which it is written, which is quickest.
    Raw: JSON text, empty where absent. What every operator has is named even where it is of no use:
    to find that a name is none of these takes longer than to read its number."""

    external_id: int = msgspec.field(default=-1, name="External id")
    _function_id: Any = msgspec.field(default=-1, name="Record function id")
    sequence: int = msgspec.field(default=-1, name="Sequence number")
    forward_thread: int = msgspec.field(default=0, name="Fwd thread id")
    concrete: Raw = msgspec.field(default=Raw(), name="Concrete Inputs")
    dtypes: Raw = msgspec.field(default=Raw(), name="Input type")
    strides: Raw = msgspec.field(default=Raw(), name="Input Strides")
    shapes: Raw = msgspec.field(default=Raw(), name="Input Dims")
    _event_index: Any = msgspec.field(default=-1, name="Ev Idx")
    device: int = -1
    context: int = -1
    stream: int = -1
    correlation: int = -1
    bytes: int = -1
    registers: int = msgspec.field(default=-1, name="registers per thread")
    shared_bytes: int = msgspec.field(default=-1, name="shared memory")
    grid: Raw = Raw()
    block: Raw = Raw()
    occupancy: int | float = msgspec.field(default=-1, name="est. achieved occupancy %")
    old_external_id: int = msgspec.field(default=-1, name="external id")
    old_shapes: Raw = msgspec.field(default=Raw(), name="Input dims")
    graph: int = msgspec.field(default=-1, name="graph id")
    graph_node: int = msgspec.field(default=-1, name="graph node id")
    collective: str = msgspec.field(default="", name="Collective name")
    in_elements: int = msgspec.field(default=-1, name="In msg nelems")
    out_elements: int = msgspec.field(default=-1, name="Out msg nelems")
    dtype: str = ""
    group_name: Raw = msgspec.field(default=Raw(), name="Process Group Name")
    group_description: Raw = msgspec.field(default=Raw(), name="Process Group Description")
    group_size: int = msgspec.field(default=-1, name="Group size")
    ranks: Raw = msgspec.field(default=Raw(), name="Process Group Ranks")
    sequence_of_collective: Raw = msgspec.field(default=Raw(), name="Seq")
    communicator: Raw = msgspec.field(default=Raw(), name="Comms Id")
    target: Raw = msgspec.field(default=Raw(), name="Dst Rank")
    source: Raw = msgspec.field(default=Raw(), name="Src Rank")
    sync_kind: str = msgspec.field(default="", name="cuda_sync_kind")
    event: int = msgspec.field(default=-1, name="wait_on_cuda_event_id")
    record: int = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    source_stream: int = msgspec.field(default=-1, name="wait_on_stream")
    occupancy_limits: Raw = msgspec.field(default=Raw(), name="occupancy")
    warps: Raw = msgspec.field(default=Raw(), name="num_warps")
    stages: Raw = msgspec.field(default=Raw(), name="num_stages")
    kernel_options: Raw = msgspec.field(default=Raw(), name="kernel_kwargs")
    module: Raw = msgspec.field(default=Raw(), name="module_fqn")
    region: Raw = msgspec.field(default=Raw(), name="name")
    annotation: Raw = Raw()
    autograd_phase: Raw = Raw()
    kind: Raw = (
        Raw()
    )  # of AMD's kernels: `Dispatch Kernel`, or `Dispatch Task` where a graph is replayed
    kernel: Raw = Raw()  # of AMD's launches: the kernel's name


NO_ARGS = Args()
Time = TypeVar(
    "Time"
)  # microseconds, as JSON text where a float would not hold nanoseconds of them
Near = Annotated[float, msgspec.Meta(gt=-EXACT_FLOAT_US, lt=EXACT_FLOAT_US)]


class CompleteEvent(Struct, Generic[Time], tag_field="ph", tag="X", gc=False, kw_only=True):
    """A complete event."""

    cat: str = RowGroup.SKIP.value[0]
    name: str
    pid: int | str = -1
    tid: int | str = -1
    ts: Time
    dur: float = 0.0
    args: Args | None = None


class MemoryArgs(Struct, gc=False):
    """`args` of a `[memory]` instant."""

    bytes: int = msgspec.field(default=0, name="Bytes")
    allocated: int = msgspec.field(default=-1, name="Total Allocated")
    reserved: int = msgspec.field(default=-1, name="Total Reserved")
    device_type: int = msgspec.field(default=-1, name="Device Type")
    device: int = msgspec.field(default=-1, name="Device Id")
    address: int | float | str | None = msgspec.field(default=None, name="Addr")


class Instant(Struct, Generic[Time], tag_field="ph", tag="i", gc=False):
    """An instant event: allocator events and markers."""

    cat: ClassVar[str] = RowGroup.INSTANT.value[0]
    name: str
    ts: Time
    args: MemoryArgs | None = None
    pid: int | str = -1


class CounterSample(Struct, Generic[Time], tag_field="ph", tag="C", gc=False):
    """A sample of a counter; `args` is its value under an empty name."""

    cat: ClassVar[str] = RowGroup.COUNTER.value[0]
    name: str
    ts: Time
    category: str = msgspec.field(default="", name="cat")
    pid: int | str = -1
    args: Raw = msgspec.field(default=Raw())


class MetaArgs(Struct, gc=False):
    """`args` of a metadata row."""

    name: Raw = Raw()


class Meta(Struct, tag_field="ph", tag="M", gc=False):
    """Names of processes and threads."""

    cat: ClassVar[str] = RowGroup.META.value[0]
    name: str
    pid: int | str = -1
    tid: int | str = -1
    args: MetaArgs | None = None


class Skipped(Struct, gc=False):
    """A row that is only counted."""

    cat: ClassVar[str] = RowGroup.SKIP.value[0]


_SKIPPED = [
    msgspec.defstruct(f"Skipped{i}", [], bases=(Skipped,), tag_field="ph", tag=phase, gc=False)
    for i, phase in enumerate("stfbneBEPNODRcvVST(),FpxIa")
]
"""Flows, objects and asynchronous events: a third of the rows, and nothing `correlation` does not
say."""
Event = CompleteEvent[Any] | Instant[Any] | CounterSample[Any] | Meta | Skipped
_UNTIMED: Any = functools.reduce(operator.or_, [Meta, *_SKIPPED])
_WITH_NEAR_TIMES: Any = CompleteEvent[Near] | Instant[Near] | CounterSample[Near] | _UNTIMED
_WITH_TIMES_AS_TEXT: Any = CompleteEvent[Raw] | Instant[Raw] | CounterSample[Raw] | _UNTIMED
NEAR: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[_WITH_NEAR_TIMES])
"""Decodes a JSON array of events whose times all are numbers that a float holds to the nanosecond;
raises as `STRICT`, and where one is not."""
STRICT: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[_WITH_TIMES_AS_TEXT])
"""Decodes a JSON array of events; raises `msgspec.DecodeError` on text, `ValidationError` on types
it does not know."""
LAX: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(
    list[_WITH_TIMES_AS_TEXT], strict=False
)
"""Decodes as `STRICT`, and takes numbers written as text."""


def group_of(category: str) -> RowGroup:
    """Where rows of this category go; any vendor's `*_runtime` and `*_driver` are API calls."""
    name = category.lower()
    return (
        RowGroup.API if name.endswith(("_runtime", "_driver")) else _GROUPS.get(name, RowGroup.SKIP)
    )
