"""`.item()` without waiting: what it gives is read when the program first needs the value."""

import functools
import numbers
import operator
import sys
from collections.abc import Callable
from typing import Any, Self

MOST_PENDING = 64
"""Operations on values that have not come: a sum over a whole epoch would be a chain too deep."""
Ready = Callable[[], bool]


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


class Arithmetic:
    """The operators of a number whose value may be put off: what they give is put off with it, but
    a comparison needs the value."""

    __hash__ = None  # type: ignore[assignment]

    def resolve(self) -> Any:
        """The number itself."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return put_off(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return put_off(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return put_off(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return put_off(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return put_off(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return put_off(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return put_off(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return put_off(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return put_off(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return put_off(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return put_off(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return put_off(operator.mod, other, self)

    def __pow__(self, other: Any) -> Any:
        return put_off(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return put_off(operator.pow, other, self)

    def __neg__(self) -> Any:
        return put_off(operator.neg, self)

    def __abs__(self) -> Any:
        return put_off(operator.abs, self)

    def __eq__(self, other: object) -> Any:
        return operator.eq(self.resolve(), _number(other))

    def __ne__(self, other: object) -> Any:
        return operator.ne(self.resolve(), _number(other))

    def __lt__(self, other: Any) -> Any:
        return operator.lt(self.resolve(), _number(other))

    def __le__(self, other: Any) -> Any:
        return operator.le(self.resolve(), _number(other))

    def __gt__(self, other: Any) -> Any:
        return operator.gt(self.resolve(), _number(other))

    def __ge__(self, other: Any) -> Any:
        return operator.ge(self.resolve(), _number(other))


class DeferredNumber(Arithmetic):
    """A Python number that the device has not computed yet, or one made of such."""

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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # it is NumPy that asks
        return sys.modules["numpy"].array(self.resolve(), dtype)

    def __getattr__(self, name: str) -> Any:
        # methods of the number itself, as `is_integer`
        return getattr(self.resolve(), name)


def put_off(operation: Callable[..., Any], *operands: Any) -> Any:
    """An operation on numbers some of which may not have come: done now if all have, if too much has
    piled up, or if an operand is no number but a tensor or an array; put off otherwise."""
    waiting = [one for one in operands if isinstance(one, DeferredNumber)]
    plain = all(isinstance(one, int | float | DeferredNumber) for one in operands)
    pending = 1 + sum(one._pending for one in waiting)
    if not plain or pending > MOST_PENDING or all(one.has_come for one in waiting):
        return operation(*(_number(one) for one in operands))
    return DeferredNumber(
        lambda: all(one.has_come for one in waiting),
        lambda: operation(*(_number(one) for one in operands)),
        pending,
    )


def _number(operand: Any) -> Any:
    return operand.resolve() if isinstance(operand, DeferredNumber) else operand


# loggers ask whether a value is a number
numbers.Real.register(DeferredNumber)
