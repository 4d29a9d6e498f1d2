"""One recorded call of an operator, as models see it, and the work that they say it is."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from traceanalyzer.analysis.names.serving import Iteration
from traceanalyzer.analysis.roofline.op_models.tensors import (
    SCALAR_TYPES,
    UNKNOWN,
    DType,
    Input,
    Precision,
    Tensor,
    TensorList,
)
from traceanalyzer.base import dataclass


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of operands broadcast against each other."""
    width = max(map(len, shapes), default=0)
    padded = [(1,) * (width - len(shape)) + shape for shape in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


def per_dimension(values: Sequence[int], dimensions: int, otherwise: int) -> list[int]:
    """A parameter for each spatial dimension: one value stands for all, none for `otherwise`."""
    if not values:
        return [otherwise] * dimensions
    if len(values) not in {1, dimensions}:
        raise UnmodelledError("parameters do not fit the dimensions")
    return list(values) if len(values) == dimensions else [values[0]] * dimensions


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *,
    ceil: bool = False,
) -> list[int]:
    """How many windows fit each spatial dimension: floor((n + 2·p - d·(k - 1) - 1) / s) + 1.

    Source: documentation of torch.nn.Conv2d and MaxPool2d.
    """
    found = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        if s < 1:
            raise UnmodelledError("a stride below one")
        room = n + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        # A window that would start in the right padding is left out.
        found.append(count - 1 if ceil and (count - 1) * s >= n + p else count)
    return found


def reduced(shape: tuple[int, ...], dims: Sequence[int]) -> int:
    """Elements left when these dimensions are reduced; all of them where none is named."""
    if not dims:
        return 1
    gone = {d % len(shape) for d in dims} if shape else set()
    return math.prod(n for i, n in enumerate(shape) if i not in gone)


class UnmodelledError(Exception):
    """The recording does not say enough about this call."""


class Work(NamedTuple):
    """What a call has to do at least."""

    flops: float
    """Floating-point operations; a multiply-add is two."""
    bytes: float
    """DRAM traffic: every input read once, every output written once."""
    precision: Precision = Precision.UNKNOWN


@dataclass(frozen=True)
class Link:
    """Payload of a collective as its record states it."""

    name: str
    in_elements: int
    out_elements: int
    dtype: str
    group_size: int


@dataclass(frozen=True)
class Call:
    """An operator's name and inputs. Its accessors raise `UnmodelledError` where an input is not what they ask for."""

    name: str
    inputs: tuple[Input, ...]
    values: tuple[str, ...] = ()
    """Inputs that are no tensors, as text; empty text for the others."""
    link: Link | None = None
    iteration: Iteration | None = None
    """Of a serving engine, that it is part of."""

    def tensor(self, index: int) -> Tensor:
        """The tensor at this position."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(found, Tensor):
            raise UnmodelledError(f"input {index} is no tensor")
        return found

    def optional(self, index: int) -> Tensor | None:
        """The tensor at this position, None where there is none."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found if isinstance(found, Tensor) else None

    def tensor_list(self, index: int) -> TensorList:
        """The tensors of the list at this position; a list the recorder left out raises."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(found, tuple) or not found:
            raise UnmodelledError(f"input {index} is no recorded list of tensors")
        return found

    @property
    def tensors(self) -> list[Tensor]:
        """All tensor inputs, those of lists too."""
        found: list[Tensor] = []
        for given in self.inputs:
            if isinstance(given, Tensor):
                found.append(given)
            elif given:
                found.extend(given)
        return found

    def value(self, index: int) -> str:
        """The text of the value at this position."""
        if index >= len(self.values) or not self.values[index]:
            raise UnmodelledError(f"the value of input {index} was not recorded")
        return self.values[index]

    def flag(self, index: int) -> bool:
        """A boolean input."""
        return self.value(index).lower() in {"true", "1"}

    def integer(self, index: int) -> int:
        """An integer input."""
        try:
            return int(self.value(index))
        except ValueError as error:
            raise UnmodelledError(f"input {index} is no integer") from error

    def number(self, index: int) -> float:
        """A floating-point input."""
        try:
            return float(self.value(index))
        except ValueError as error:
            raise UnmodelledError(f"input {index} is no number") from error

    def integers(self, index: int) -> list[int]:
        """A list of integers."""
        try:
            return [int(item) for item in self._items(index)]
        except ValueError as error:
            raise UnmodelledError(f"input {index} is no list of integers") from error

    def flags(self, index: int) -> list[bool]:
        """A list of booleans (`output_mask`)."""
        return [item.lower() in {"true", "1"} for item in self._items(index)]

    def dtype(self, index: int, otherwise: DType = UNKNOWN) -> DType:
        """An element type that was passed as a number."""
        try:
            return SCALAR_TYPES.get(self.integer(index), UNKNOWN)
        except UnmodelledError:
            return otherwise

    def _items(self, index: int) -> list[str]:
        return [item.strip() for item in self.value(index).strip("[]()").split(",") if item.strip()]

    def with_list_dtype(self, dtype: DType) -> "Call":
        """The call with this type for the tensors of lists, whose types recordings leave out."""
        return replace(
            self,
            inputs=tuple(
                tuple(replace(t, dtype=dtype) for t in given) if isinstance(given, tuple) else given
                for given in self.inputs
            ),
        )

    def with_lists(self, tensors: TensorList) -> "Call":
        """The call with these tensors for each list that the recorder left out."""
        return replace(self, inputs=tuple(tensors if given == () else given for given in self.inputs))


def read(*tensors: Tensor | None) -> float:
    """Bytes of reading each of these once."""
    return sum((t.bytes for t in tensors if t is not None), 0.0)


def written(elements: int, dtype: DType) -> float:
    """Bytes of writing a fresh tensor."""
    return elements * dtype.bytes


Model = Callable[[Call], Work]
"""What one operator has to do; raises UnmodelledError."""


def formula(
    flops: float = 0.0, reads: tuple[int, ...] = (0,), like: int = 0, writes: float = 1.0, beside: float = 0.0
) -> Model:
    """The model of an operator that reads these inputs once and writes a tensor like input `like` (`writes` times as
    much) with so many bytes an element `beside` it; so many FLOPs for each element of that input."""

    def model(call: Call) -> Work:
        x = call.tensor(like)
        traffic = read(*(call.tensor(i) for i in reads)) + writes * x.dense_bytes + beside * x.numel
        return Work(flops * x.numel, traffic, x.dtype.precision)

    return model
