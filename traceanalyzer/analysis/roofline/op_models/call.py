"""One recorded call of an operator, as models see it, and the work that they say it is."""

from collections.abc import Callable, Iterable
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
)
from traceanalyzer.base import dataclass


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of operands broadcast against each other."""
    width = max(map(len, shapes), default=0)
    padded = [(1,) * (width - len(shape)) + shape for shape in shapes]
    return tuple(map(_broadcast_size, zip(*padded, strict=True)))


def _broadcast_size(sizes: tuple[int, ...]) -> int:
    return next((size for size in sizes if size != 1), 1)


class UnmodelledError(ValueError):
    """The recording does not say enough about this call."""


class Work(NamedTuple):
    """What a call has to do at least."""

    flops: float  # floating-point operations; a multiply-add is two
    bytes: float  # DRAM traffic: every input read once, every output written once
    precision: Precision = Precision.UNKNOWN


@dataclass(frozen=True)
class CollectivePayload:
    """Payload of a collective as its record states it."""

    name: str
    in_elements: int
    out_elements: int
    dtype: str
    group_size: int


@dataclass(frozen=True)
class Call:
    """An operator's name and inputs. Its accessors raise `ValueError` where an input is not what
    they ask for."""

    name: str
    inputs: tuple[Input, ...]
    values: tuple[str, ...] = ()  # inputs that are no tensors, as text; empty text for the others
    link: CollectivePayload | None = None
    iteration: Iteration | None = None  # of a serving engine, that it is part of
    read_after: tuple[Tensor, ...] = ()  # what the next operators read, where values are not known

    def tensor(self, index: int) -> Tensor:
        """The tensor at this position."""
        found = self.optional(index)
        if found is None:
            raise UnmodelledError(f"input {index} is no tensor")
        return found

    def optional(self, index: int | None) -> Tensor | None:
        """The tensor at this position, None where there is none."""
        found = self.inputs[index] if index is not None and index < len(self.inputs) else None
        return found if isinstance(found, Tensor) else None

    def optionals(self, indices: Iterable[int]) -> list[Tensor]:
        """The tensors that there are at these positions."""
        found = map(self.optional, indices)
        return [tensor for tensor in found if tensor is not None]

    def tensor_list(self, index: int) -> tuple[Tensor, ...]:
        """The tensors of the list at this position; a list the recorder left out raises."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(found, tuple) or not found:
            raise UnmodelledError(f"input {index} is no recorded list of tensors")
        return found

    @property
    def tensors(self) -> list[Tensor]:
        """All tensor inputs, those of lists too."""
        return [
            t
            for given in self.inputs
            for t in ((given,) if isinstance(given, Tensor) else given or ())
        ]

    def value(self, index: int) -> str:
        """The text of the value at this position."""
        if not self.has_value(index):
            raise UnmodelledError(f"the value of input {index} was not recorded")
        return self.values[index]

    def has_value(self, index: int) -> bool:
        """Whether there is one."""
        return index < len(self.values) and self.values[index] != ""

    def is_set(self, index: int) -> bool:
        """A boolean input; False where it was not recorded."""
        return self.has_value(index) and self.flag(index)

    def flag(self, index: int) -> bool:
        """A boolean input."""
        return self.value(index).lower() in {"true", "1"}

    def integer(self, index: int) -> int:
        """An integer input."""
        return int(self.value(index))

    def integers(self, index: int) -> list[int]:
        """A list of integers."""
        return [int(item) for item in self.items(index)]

    def items(self, index: int) -> list[str]:
        """The texts of a list."""
        items = self.value(index).strip("[]()").split(",")
        return [item.strip() for item in items if item.strip()]

    def dtype(self, index: int, otherwise: DType = UNKNOWN) -> DType:
        """An element type that was passed as a number."""
        try:
            return SCALAR_TYPES.get(self.integer(index), UNKNOWN)
        except ValueError:
            return otherwise

    def result_read_after(self, rank: int, batch: int, channels: int) -> Tensor:
        """The result as one of the next operators reads it: the first tensor of this rank, batch and
        channels."""
        for tensor in self.read_after:
            if len(tensor.shape) == rank and tensor.shape[:2] == (batch, channels):
                return tensor
        raise UnmodelledError("nothing that reads the result was recorded")

    def with_list_dtype(self, dtype: DType) -> "Call":
        """The call with this type for the tensors of lists, whose types recordings leave out."""
        typed = (
            tuple(replace(t, dtype=dtype) for t in one) if isinstance(one, tuple) else one
            for one in self.inputs
        )
        return replace(self, inputs=tuple(typed))

    def with_lists(self, tensors: tuple[Tensor, ...]) -> "Call":
        """The call with these tensors for each list that the recorder left out."""
        return replace(
            self, inputs=tuple(tensors if given == () else given for given in self.inputs)
        )


def read_bytes(*tensors: Tensor | None) -> float:
    """Bytes of reading each of these once."""
    return sum((t.bytes for t in tensors if t is not None), 0.0)


Model = Callable[[Call], Work]
"""What one operator has to do; raises ValueError where that is not known. `MODELS` gives further
parameters."""


def formula(
    call: Call,
    flops: float = 0.0,
    reads: tuple[int, ...] = (0,),
    like: int = 0,
    writes: float = 1.0,
    beside: float = 0,
) -> Work:
    """Of an operator that reads these inputs once and writes a tensor like input `like` (`writes`
    times as much) with so many bytes an element `beside` it; so many FLOPs for each element of that
    input."""
    x = call.tensor(like)
    traffic = read_bytes(*(call.tensor(index) for index in reads))
    traffic += writes * x.dense_bytes + beside * x.numel
    return Work(flops * x.numel, traffic, x.dtype.precision)
