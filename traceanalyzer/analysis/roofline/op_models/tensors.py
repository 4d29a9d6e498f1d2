"""Tensors as a recording describes them: shape, strides and element type, parsed once for each
distinct text."""

import enum
import math
from functools import lru_cache
from typing import Any

import msgspec

from traceanalyzer.analysis.names.element_types import NAMES_OF_TYPES
from traceanalyzer.base import dataclass, regex

NAN = math.nan
MAX_DIMS = 64  # PyTorch's limit of dimensions; text that claims more is damaged


class Precision(enum.IntEnum):
    """Number format in which an operator calculates."""

    UNKNOWN, FP64, FP32, TF32, FP16, BF16, FP8, FP4, INT8 = range(9)


class ElementKind(enum.IntEnum):
    """Families of element types, in the order in which they win when types meet."""

    BOOL, INTEGER, FLOAT, COMPLEX = range(4)


@dataclass(frozen=True)
class DType:
    """An element type. `bytes` is NaN where it is not known."""

    bytes: float
    precision: Precision = Precision.UNKNOWN
    kind: ElementKind = ElementKind.FLOAT


UNKNOWN = DType(NAN)
DOUBLE = DType(8, Precision.FP64)
FLOAT = DType(4, Precision.FP32)
HALF = DType(2, Precision.FP16)
BFLOAT16 = DType(2, Precision.BF16)
FP8 = DType(1, Precision.FP8)
FP4 = DType(1, Precision.FP4)
COMPLEX = DType(8, Precision.FP32, ElementKind.COMPLEX)
COMPLEX_DOUBLE = DType(16, Precision.FP64, ElementKind.COMPLEX)
BYTE = DType(1, Precision.INT8, ElementKind.INTEGER)
SHORT, INT32, LONG = (DType(size, kind=ElementKind.INTEGER) for size in (2, 4, 8))
BOOL = DType(1, kind=ElementKind.BOOL)
DTYPES = {
    "double": DOUBLE,
    "float": FLOAT,
    "c10::Half": HALF,
    "c10::BFloat16": BFLOAT16,
    "c10::Float8_e4m3fn": FP8,
    "c10::Float8_e5m2": FP8,
    "c10::Float8_e4m3fnuz": FP8,
    "c10::Float8_e5m2fnuz": FP8,
    "c10::Float8_e8m0fnu": FP8,
    "c10::Float4_e2m1fn_x2": FP4,  # two values share a byte, and shapes count bytes
    "c10::complex<float>": COMPLEX,
    "c10::complex<double>": COMPLEX_DOUBLE,
    "c10::complex<c10::Half>": DType(4, Precision.FP16, ElementKind.COMPLEX),
    "long int": LONG,
    "long": LONG,
    "long long": LONG,
    "unsigned long": LONG,
    "int": INT32,
    "unsigned int": INT32,
    "c10::qint32": INT32,
    "short int": SHORT,
    "short": SHORT,
    "unsigned short": SHORT,
    "signed char": BYTE,
    "unsigned char": BYTE,
    "c10::qint8": BYTE,
    "c10::quint8": BYTE,
    "bool": BOOL,
}
"""Type names in `Input type`: `scalarTypeToTypeMeta(t).name()` of PyTorch
(c10/core/ScalarType.h)."""
SCALAR_TYPES = {number: DTYPES[name] for number, name in NAMES_OF_TYPES.items()}
"""`c10::ScalarType` as an argument (`aten::_to_copy`), by its number."""
_NO_TENSORS = frozenset({"", "Scalar", "ScalarList", "GenericList", "Device", "None"})
MAX_ELEMENTS = 2**44  # of one tensor: more is in no memory, and products of sizes would leave int64
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One tensor: sizes, strides in elements (None: not recorded) and element type."""

    shape: Shape
    dtype: DType = UNKNOWN
    strides: Shape | None = None

    @property
    def numel(self) -> int:
        """Elements that operators see."""
        return math.prod(self.shape)

    @property
    def stored(self) -> int:
        """Distinct elements in memory: a dimension with stride 0 is one element, windows that
        overlap count once."""
        if self.strides is None or not self.numel:
            return self.numel
        steps = [
            (size, abs(stride))
            for size, stride in zip(self.shape, self.strides, strict=True)
            if stride
        ]
        return min(
            math.prod(size for size, _ in steps),
            1 + sum((size - 1) * stride for size, stride in steps),
        )

    @property
    def bytes(self) -> float:
        """Bytes of its distinct elements."""
        return self.stored * self.dtype.bytes

    @property
    def dense_bytes(self) -> float:
        """Bytes of a fresh tensor of its shape and type."""
        return self.numel * self.dtype.bytes


_NO_NUMBER = regex(
    r"^(?:-?\d{19,}|-{2,}\d+)"
)  # what looks like a number that 64 bits hold, and is none
_TEMPLATE = regex(r"<(float|double|c10::Half|c10::BFloat16|long|int|bool)[,>]")
"""The first type in a kernel's template arguments, of `multi_tensor_apply_kernel`'s functor."""
_OPAQUE = regex(r"OpaqueType<(?:\([a-z ]+\))?(\d{1,18})u?>")
"""`CatArrayBatchedCopy<OpaqueType<2>>`: only the size matters to a copy. Nsight Systems writes the
number's type before it: `OpaqueType<(unsigned int)2>`."""
_VECTORISED = regex(r"CatArrayBatchedCopy_vectorized<char(?:, [^,>]+){4}, (\d{1,18}), (\d{1,18})>")
"""Its last arguments are the bytes of a vector and its elements."""


def _types(kind: ElementKind, tensors: list[Tensor] | tuple[Tensor, ...]) -> set[DType]:
    return {t.dtype for t in tensors if t.dtype.kind is kind}


def without_ones(shape: Shape) -> Shape:
    """The sizes of a shape that are greater than one, or zero."""
    return tuple(size for size in shape if size != 1)


def promoted(*tensors: Tensor) -> DType:
    """The type of a result: the highest family wins, within it the widest; those without dimensions
    only by family.

    PyTorch's rule (torch.result_type); half and bfloat16 make float, and so does a Python number
    with integers."""
    highest = max((t.dtype.kind for t in tensors), default=ElementKind.FLOAT)
    shaped = [t for t in tensors if t.shape]
    with_dimensions = _types(highest, shaped)
    types = with_dimensions or _types(highest, tensors)
    by_family = highest is ElementKind.FLOAT and not with_dimensions and shaped
    return (
        FLOAT
        if by_family or {HALF, BFLOAT16} <= types
        else max(types, key=lambda one: one.bytes, default=UNKNOWN)
    )


TensorList = tuple[Tensor, ...]
Input = Tensor | TensorList | None
"""A tensor, a list of tensors (empty where the recorder left a long one out), None for anything
else."""
_Dims = msgspec.json.Decoder(list[list[Any]])
_Types = msgspec.json.Decoder(list[str])
_Values = msgspec.json.Decoder(list[Any])


@lru_cache(maxsize=4096)
def parse_inputs(shapes: str, dtypes: str | None, strides: str | None) -> tuple[Input, ...] | None:
    """The inputs that `Input Dims`, `Input type` and `Input Strides` describe; None where the text
    is no such thing."""
    try:
        dims = _Dims.decode(shapes)
        # Old recordings may have shapes alone: whatever has dimensions is a tensor of unknown type.
        types = _Types.decode(dtypes) if dtypes else ["unknown" if d else "" for d in dims]
        if len(types) != len(dims):
            return None
        steps = _Dims.decode(strides) if strides else []
        known = len(steps) == len(dims)
        return tuple(map(_input, dims, types, steps if known else [None] * len(dims)))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None


def inputs_of(
    shapes: str | None, dtypes: str | None = None, strides: str | None = None
) -> tuple[Input, ...]:
    """`parse_inputs`; none where they were not recorded, or the text is damaged."""
    return parse_inputs(shapes or "", dtypes, strides) or ()


def tensors_of(
    shapes: str | None, dtypes: str | None = None, strides: str | None = None
) -> list[Tensor]:
    """The tensors among the inputs, lists of them left out."""
    return [one for one in inputs_of(shapes, dtypes, strides) if isinstance(one, Tensor)]


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
    element = DTYPES.get(dtype, UNKNOWN)
    if dtype != "TensorList" and not (dims and isinstance(dims[0], list)):
        return _tensor(dims, element, strides)
    steps = strides if strides and len(strides) == len(dims) else [None] * len(dims)
    return tuple(_tensor(d, element, s) for d, s in zip(dims, steps, strict=True))


def _tensor(dims: Any, dtype: DType, strides: Any) -> Tensor:
    shape = _sizes(dims)
    if min(shape, default=0) < 0 or math.prod(shape) > MAX_ELEMENTS:
        raise ValueError("a size below zero, or larger than any memory")
    return Tensor(
        shape, dtype, None if strides is None or len(strides) != len(shape) else _sizes(strides)
    )


def _sizes(values: Any) -> tuple[int, ...]:
    if (
        not isinstance(values, list)
        or len(values) > MAX_DIMS
        or not all(type(v) is int for v in values)
    ):
        raise ValueError("not a list of sizes")
    if not all(abs(v) <= MAX_ELEMENTS for v in values):
        raise ValueError("larger than any memory")
    return tuple(values)


def element_type(kernel: str) -> DType:
    """The type that a kernel on lists of tensors works on."""
    if found := _OPAQUE.search(kernel):
        return DType(int(found[1]))
    if (found := _VECTORISED.search(kernel)) and int(found[2]):
        return DType(int(found[1]) / int(found[2]))
    if found := _TEMPLATE.search(kernel):
        return LONG if found[1] == "long" else DTYPES[found[1]]
    return UNKNOWN
