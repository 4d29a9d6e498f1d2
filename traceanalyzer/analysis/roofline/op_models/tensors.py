"""Tensors as a recording describes them: shape, strides and element type, parsed once for each distinct text."""

import enum
import math
import re
from functools import lru_cache
from typing import Any

import msgspec

from traceanalyzer.base import dataclass

NAN = math.nan
MAX_DIMS = 64
"""PyTorch's limit of dimensions; text that claims more is damaged."""


class Precision(enum.IntEnum):
    """Number format in which an operator calculates."""

    UNKNOWN = 0
    FP64 = 1
    FP32 = 2
    TF32 = 3
    FP16 = 4
    BF16 = 5
    FP8 = 6
    FP4 = 7
    INT8 = 8


class Kind(enum.IntEnum):
    """Families of element types, in the order in which they win when types meet."""

    BOOL = 0
    INTEGER = 1
    FLOAT = 2
    COMPLEX = 3


@dataclass(frozen=True)
class DType:
    """An element type. `bytes` is NaN where it is not known."""

    bytes: float
    precision: Precision = Precision.UNKNOWN
    kind: Kind = Kind.FLOAT


UNKNOWN = DType(NAN)
FLOAT = DType(4, Precision.FP32)
INT32 = DType(4, kind=Kind.INTEGER)
LONG = DType(8, kind=Kind.INTEGER)
BOOL = DType(1, kind=Kind.BOOL)

DTYPES = {
    "double": DType(8, Precision.FP64),
    "float": FLOAT,
    "c10::Half": DType(2, Precision.FP16),
    "c10::BFloat16": DType(2, Precision.BF16),
    "c10::Float8_e4m3fn": DType(1, Precision.FP8),
    "c10::Float8_e5m2": DType(1, Precision.FP8),
    "c10::Float8_e4m3fnuz": DType(1, Precision.FP8),
    "c10::Float8_e5m2fnuz": DType(1, Precision.FP8),
    "c10::Float8_e8m0fnu": DType(1, Precision.FP8),
    # Two values share a byte, and shapes count bytes.
    "c10::Float4_e2m1fn_x2": DType(1, Precision.FP4),
    "c10::complex<float>": DType(8, Precision.FP32, Kind.COMPLEX),
    "c10::complex<double>": DType(16, Precision.FP64, Kind.COMPLEX),
    "c10::complex<c10::Half>": DType(4, Precision.FP16, Kind.COMPLEX),
    "long int": LONG,
    "long": LONG,
    "long long": LONG,
    "int": INT32,
    "short int": DType(2, kind=Kind.INTEGER),
    "short": DType(2, kind=Kind.INTEGER),
    "signed char": DType(1, Precision.INT8, Kind.INTEGER),
    "unsigned char": DType(1, Precision.INT8, Kind.INTEGER),
    "unsigned short": DType(2, kind=Kind.INTEGER),
    "unsigned int": DType(4, kind=Kind.INTEGER),
    "unsigned long": LONG,
    "bool": BOOL,
    "c10::qint8": DType(1, Precision.INT8, Kind.INTEGER),
    "c10::quint8": DType(1, Precision.INT8, Kind.INTEGER),
    "c10::qint32": DType(4, kind=Kind.INTEGER),
}
"""Type names in `Input type`: `scalarTypeToTypeMeta(t).name()` of PyTorch (c10/core/ScalarType.h)."""

SCALAR_TYPES = {
    0: DTYPES["unsigned char"],
    1: DTYPES["signed char"],
    2: DTYPES["short int"],
    3: DTYPES["int"],
    4: LONG,
    5: DTYPES["c10::Half"],
    6: FLOAT,
    7: DTYPES["double"],
    9: DTYPES["c10::complex<float>"],
    10: DTYPES["c10::complex<double>"],
    11: BOOL,
    15: DTYPES["c10::BFloat16"],
    23: DTYPES["c10::Float8_e5m2"],
    24: DTYPES["c10::Float8_e4m3fn"],
    45: DTYPES["c10::Float4_e2m1fn_x2"],
}
"""`c10::ScalarType` as an argument (`aten::_to_copy`), by its number."""

_NO_TENSORS = frozenset({"", "Scalar", "ScalarList", "GenericList", "Device", "None"})
TENSOR_LIST = "TensorList"
MAX_ELEMENTS = 2**44
"""Of one tensor: more is in no memory, and products of sizes would leave int64."""


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One tensor: sizes, strides in elements (None: not recorded) and element type."""

    shape: Shape
    dtype: DType = UNKNOWN
    strides: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        """Elements that operators see."""
        return math.prod(self.shape)

    @property
    def stored(self) -> int:
        """Distinct elements in memory: a dimension with stride 0 is one element, windows that overlap count once."""
        if self.strides is None or not self.numel:
            return self.numel
        steps = [(size, abs(stride)) for size, stride in zip(self.shape, self.strides, strict=True) if stride]
        reach = 1 + sum((size - 1) * stride for size, stride in steps)
        return min(math.prod(size for size, _ in steps), reach)

    @property
    def bytes(self) -> float:
        """Bytes of its distinct elements."""
        return self.stored * self.dtype.bytes

    @property
    def dense_bytes(self) -> float:
        """Bytes of a fresh tensor of its shape and type."""
        return self.numel * self.dtype.bytes


def promoted(*tensors: Tensor) -> DType:
    """The type of a result: the highest family wins, within it the widest; those without dimensions only by family.

    PyTorch's rule (torch.result_type); half and bfloat16 together make float, and so does a Python number (a
    double without dimensions) with integers.
    """
    kinds = [t.dtype.kind for t in tensors]
    highest = max(kinds, default=Kind.FLOAT)
    rivals = [t for t in tensors if t.dtype.kind is highest]
    wins_by_family = all(not t.shape for t in rivals) and any(t.shape for t in tensors)
    rivals = [t for t in rivals if t.shape] or rivals
    types = {t.dtype for t in rivals}
    if (wins_by_family and highest is Kind.FLOAT) or {DTYPES["c10::Half"], DTYPES["c10::BFloat16"]} <= types:
        return FLOAT
    return max(types, key=lambda dtype: dtype.bytes, default=UNKNOWN)


TensorList = tuple[Tensor, ...]
Input = Tensor | TensorList | None
"""A tensor, a list of tensors (empty where the recorder left a long one out), None for anything else."""

_Dims = msgspec.json.Decoder(list[list[Any]])
_Types = msgspec.json.Decoder(list[str])
_Values = msgspec.json.Decoder(list[Any])


@lru_cache(maxsize=4096)
def parse_inputs(shapes: str, dtypes: str | None, strides: str | None) -> tuple[Input, ...] | None:
    """The inputs that `Input Dims`, `Input type` and `Input Strides` describe; None where the text is no such thing."""
    try:
        dims = _Dims.decode(shapes)
        # Old recordings may have shapes alone: whatever has dimensions is a tensor of unknown type.
        types = _Types.decode(dtypes) if dtypes else ["unknown" if d else "" for d in dims]
        steps = _Dims.decode(strides) if strides else [None] * len(dims)
        if len(types) != len(dims):
            return None
        if len(steps) != len(dims):
            steps = [None] * len(dims)
        return tuple(map(_input, dims, types, steps))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None


def inputs_of(shapes: str | None, dtypes: str | None = None, strides: str | None = None) -> tuple[Input, ...]:
    """The same; none where they were not recorded, or the text is damaged."""
    return parse_inputs(shapes or "", dtypes, strides) or ()


def tensors_of(shapes: str | None, dtypes: str | None = None, strides: str | None = None) -> list[Tensor]:
    """Those of the inputs that are tensors, lists of them left out."""
    return [one for one in inputs_of(shapes, dtypes, strides) if isinstance(one, Tensor)]


_NO_NUMBER = re.compile(r"-?\d{19,}|-{2,}\d+")
"""What looks like a number that 64 bits hold, and is none."""


def parse_values(concrete: str | None) -> tuple[str, ...]:
    """The texts of `Concrete Inputs`, empty where they were not recorded."""
    try:
        found = [str(value) for value in _Values.decode(concrete)] if concrete else []
        return tuple("" if _NO_NUMBER.fullmatch(text) else text for text in found)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ()


def _input(dims: list[Any], dtype: str, strides: list[Any] | None) -> Input:
    if dtype in _NO_TENSORS:
        return None
    if dtype == TENSOR_LIST or (dims and isinstance(dims[0], list)):
        steps = strides if strides and len(strides) == len(dims) else [None] * len(dims)
        return tuple(_tensor(d, DTYPES.get(dtype, UNKNOWN), s) for d, s in zip(dims, steps, strict=True))
    return _tensor(dims, DTYPES.get(dtype, UNKNOWN), strides)


def _tensor(dims: Any, dtype: DType, strides: Any) -> Tensor:
    shape = _sizes(dims)
    if min(shape, default=0) < 0:
        raise ValueError("a size below zero")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError("larger than any memory")
    steps = None if strides is None or len(strides) != len(shape) else _sizes(strides)
    return Tensor(shape, dtype, steps)


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > MAX_DIMS or not all(type(v) is int for v in values):
        raise ValueError("not a list of sizes")
    if not all(-MAX_ELEMENTS <= v <= MAX_ELEMENTS for v in values):
        raise ValueError("larger than any memory")
    return tuple(values)


_TEMPLATE = re.compile(r"<(float|double|c10::Half|c10::BFloat16|long|int|bool)[,>]")
"""The first type in a kernel's template arguments, of `multi_tensor_apply_kernel`'s functor."""
_OPAQUE = re.compile(r"OpaqueType<(\d{1,18})u?>")
"""`CatArrayBatchedCopy<OpaqueType<2>>`: only the size matters to a copy."""
_VECTORISED = re.compile(r"CatArrayBatchedCopy_vectorized<char(?:, [^,>]+){4}, (\d{1,18}), (\d{1,18})>")
"""Its last arguments are the bytes of a vector and its elements."""


def element_type(kernel: str) -> DType:
    """The type that a kernel on lists of tensors works on."""
    if found := _OPAQUE.search(kernel):
        return DType(int(found[1]))
    if (found := _VECTORISED.search(kernel)) and int(found[2]):
        return DType(int(found[1]) / int(found[2]))
    if found := _TEMPLATE.search(kernel):
        return LONG if found[1] == "long" else DTYPES[found[1]]
    return UNKNOWN
