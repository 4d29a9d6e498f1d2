"""`.item()` without waiting: what it gives is read when the program first needs the value."""

import functools
import operator
from collections.abc import Callable
from typing import Any, Self

MOST_PENDING = 64
"""Operations on values that have not come: a sum over a whole epoch would be a chain too deep."""
Ready = Callable[[], bool]
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def deferred(_: Any) -> None:
    """`.item()` of a tensor on the GPU starts a copy and returns at once. The number that it gives
    waits for the copy where it is printed, compared or turned into Python's own number."""
    import torch

    item = torch.Tensor.item

    @functools.wraps(item)
    def read(tensor: Any) -> Any:
        busy = torch.compiler.is_compiling() or not tensor.is_cuda or tensor.numel() != 1
        if busy or torch.cuda.is_current_stream_capturing():
            return item(tensor)
        return DeferredNumber.copied(tensor, item)

    torch.Tensor.item = read


class DeferredNumber:
    """A Python number that the device has not computed yet, or one made of such."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ready: Ready, make: Callable[[], Any], pending: int) -> None:
        self._ready = ready
        self._make = make
        self._pending = pending  # operations behind it
        self._value: Any = None
        self._is_known = False

    @classmethod
    def copied(cls, tensor: Any, item: Callable[[Any], Any]) -> Self:
        """The value of a tensor on the GPU, on its way to the host."""
        import torch

        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor.detach(), non_blocking=True)
        event = torch.cuda.Event()
        event.record()

        def make() -> Any:
            event.synchronize()
            return item(host)

        return cls(event.query, make, 1)

    @property
    def has_come(self) -> bool:
        """Whether the value can be had without waiting."""
        return self._is_known or self._ready()

    def resolve(self) -> Any:
        """The number, waiting for it if need be."""
        if not self._is_known:
            self._value = self._make()
            self._is_known = True
            # what it was made of is needed no more
            self._ready = bool
            self._make = bool
        return self._value

    def __float__(self) -> float:
        return float(self.resolve())

    def __int__(self) -> int:
        return int(self.resolve())

    def __index__(self) -> int:
        return operator.index(self.resolve())

    def __bool__(self) -> bool:
        return bool(self.resolve())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.resolve(), digits)

    def __repr__(self) -> str:
        return repr(self.resolve())

    def __str__(self) -> str:
        return str(self.resolve())

    def __format__(self, form: str) -> str:
        return format(self.resolve(), form)

    def __neg__(self) -> Any:
        return put_off(operator.neg, self)

    def __abs__(self) -> Any:
        return put_off(operator.abs, self)

    def __getattr__(self, name: str) -> Any:
        # methods of the number itself, as `is_integer`
        return getattr(self.resolve(), name)


def put_off(operation: Callable[..., Any], *operands: Any) -> Any:
    """An operation on numbers some of which may not have come: done now if all have, or if too much
    has piled up; put off otherwise."""
    waiting = [one for one in operands if isinstance(one, DeferredNumber)]
    pending = 1 + sum(one._pending for one in waiting)
    if pending > MOST_PENDING or all(one.has_come for one in waiting):
        return operation(*(_number(one) for one in operands))
    return DeferredNumber(
        lambda: all(one.has_come for one in waiting),
        lambda: operation(*(_number(one) for one in operands)),
        pending,
    )


def _number(operand: Any) -> Any:
    return operand.resolve() if isinstance(operand, DeferredNumber) else operand


def _arithmetic(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    operation = getattr(operator, name)

    def forward(this: DeferredNumber, other: Any) -> Any:
        if isinstance(other, int | float | DeferredNumber):
            return put_off(operation, this, other)
        return operation(this.resolve(), other)

    def backward(this: DeferredNumber, other: Any) -> Any:
        if isinstance(other, int | float):
            return put_off(operation, other, this)
        return operation(other, this.resolve())

    return forward, backward


def _comparison(name: str) -> Callable[..., Any]:
    operation = getattr(operator, name)

    def compared(this: DeferredNumber, other: Any) -> Any:
        return operation(this.resolve(), _number(other))

    return compared


for _name in ARITHMETIC:
    _forward, _backward = _arithmetic(_name)
    setattr(DeferredNumber, f"__{_name}__", _forward)
    setattr(DeferredNumber, f"__r{_name}__", _backward)
for _name in COMPARISONS:
    setattr(DeferredNumber, f"__{_name}__", _comparison(_name))
