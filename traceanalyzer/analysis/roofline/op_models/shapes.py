"""Shapes of results, which recordings do not hold: they follow from the inputs."""

import math
from collections.abc import Sequence

from traceanalyzer.analysis.roofline.op_models.call import UnmodelledError


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
