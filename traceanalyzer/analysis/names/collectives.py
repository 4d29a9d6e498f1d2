"""What a collective does and how large its elements are, from the names frameworks and libraries
give."""

import math
import re

import msgspec

from traceanalyzer.base import regex

OTHER = "other"
BARRIER = "barrier"
KINDS = (
    OTHER,
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    BARRIER,
    "send",
    "recv",
    "send_recv",
)
CALLS = regex(r"^((nccl|rccl|gloo|mpi|ucc|xccl):|c10d::|record_param_comms$|[nr]ccl[A-Z])")
"""What torch.distributed and NCCL name around every call of a collective on the host."""
WIDE = ("Float", "float32", "float", "fp32")  # what frameworks call 32 bits
POINT_TO_POINT = frozenset({"send", "recv", "send_recv"})
SYNCHRONISING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", BARRIER})
"""No rank can finish one before every rank has begun it."""

# Searched for in names in lower case without underscores; the first that is found decides.
_PATTERNS = (
    ("reduce_scatter", "reducescatter"),
    ("all_reduce", "allreduce"),
    ("all_gather", "allgather"),
    ("all_to_all", "alltoall|all2all|a2a"),
    (BARRIER, "barrier"),
    ("broadcast", "broadcast|bcast"),
    ("send_recv", "sendrecv"),
    # Kernels of inference engines that do not say what they do: all of them reduce over all ranks.
    ("all_reduce", "crossdevicereduce|oneshot|twoshot|quickreduce|multimemreduce"),
    # Expert parallelism (DeepEP and its kin) exchanges tokens between all ranks.
    ("all_to_all", "dispatch|combine"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("recv", "recv"),
)
_BYTES = {
    1: "byte char bool int8 uint8 qint8 quint8",
    2: "half bfloat16 float16 short int16 uint16 bits16",
    4: "float float32 int int32 uint32 qint32 complexhalf complex32",
    8: "double float64 long int64 uint64 complexfloat complex64",
    16: "complexdouble complex128",
}
_DIMS = msgspec.json.Decoder(list[list[int]])
_TYPES = msgspec.json.Decoder(list[str])
_ELEMENT_BYTES = {name: size for size, names in _BYTES.items() for name in names.split()}


def collective_kind(name: str) -> str:
    """The kind (one of `KINDS`) of a collective, call or kernel with this name."""
    plain = name.lower().replace("_", "")
    return next((kind for kind, pattern in _PATTERNS if re.search(pattern, plain)), OTHER)


def element_bytes(dtype: str) -> int | None:
    """Size of an element of a type as PyTorch or NCCL spell it (`BFloat16`, `c10::Half`); None if
    not known."""
    plain = re.sub(r"^(c10::|torch\.|nccl)", "", dtype).lower()
    return 1 if plain.startswith("float8") else _ELEMENT_BYTES.get(plain)


def bus_factor(kind: str, ranks: int) -> float | None:
    """What the algorithm bandwidth is multiplied with to compare it with a link's, whatever the
    number of ranks.

    As nccl-tests defines it (PERFORMANCE.md there), for sizes as `message_bytes` has them. None
    where no bus is used (one rank) or where the kind has no definition."""
    if ranks < 2 or kind in (OTHER, BARRIER):
        return None
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    parted = kind in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
    return (ranks - 1) / ranks if parted else 1.0


def message_bytes(kind: str, into: int, out: int, ranks: int, size: int | None) -> int:
    """Size of a collective's message in bytes, -1 if not known: the whole buffer over all ranks
    where a collective gathers or scatters, else one rank's. `into` and `out` are elements (-1: not
    known), `size` the bytes of one."""
    if size is None or kind == BARRIER:
        return -1
    if kind in ("all_gather", "gather"):  # ranks that do not receive (gather) put out nothing
        elements = out if out > 0 else _of_all(into, ranks)
    elif kind in ("reduce_scatter", "scatter"):
        elements = into if into > 0 else _of_all(out, ranks)
    else:
        elements = into if into >= 0 else out
    return elements * size if elements >= 0 else -1


def operand_bytes(kind: str, shapes: str, dtypes: str) -> int:
    """Size of the message of a collective's operator from its tensors, as `message_bytes` has it;
    -1 if not known. The largest tensor is the whole buffer; where only what a rank puts in is
    given, a gather's is not known."""
    try:
        dims = _DIMS.decode(shapes)
        types = _TYPES.decode(dtypes)
    except (msgspec.DecodeError, RecursionError):
        return -1
    sized = (
        (dims_of_one, element_bytes(name)) for dims_of_one, name in zip(dims, types, strict=False)
    )
    tensors = [(math.prod(shape), size) for shape, size in sized if size and shape]
    if not tensors or (kind in ("all_gather", "gather") and len(tensors) < 2):
        return -1
    elements, size = max(tensors)
    return message_bytes(kind, elements, elements, -1, size)


def _of_all(elements: int, ranks: int) -> int:
    return elements * ranks if elements >= 0 and ranks > 0 else -1
