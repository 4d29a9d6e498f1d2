"""Lists of tensors among the input shapes that PyTorch's `emit_nvtx` writes: it writes the tensors
of a list one by one, as if each were an input. Which belong together follows from the operator."""

from typing import Any

import msgspec

from traceanalyzer.base import regex

_JOINS = regex(r"aten::(cat|concat|concatenate|stack|hstack|vstack|dstack)$")
"""Operators on one list, with or without a dimension behind it."""
_FOREACH = regex(r"aten::_foreach_(?P<does>[a-z0-9]+(?:_[a-z0-9]+)*)_?$")
_FUSED = regex(r"aten::_fused_(?P<rule>adamw?|sgd|adagrad)_$")
_OF_OPTIMIZER = {"adam": 4, "adamw": 4, "sgd": 3, "adagrad": 3}
"""Parameters, gradients and states; SGD without momentum has one less."""
_ON_THREE = frozenset({"addcmul", "addcdiv"})
_ON_TWO = frozenset({"add", "sub", "mul", "div", "maximum", "minimum", "pow", "lerp", "copy"})
"""What is done with two lists; for some also with one list and a number."""
_WITH_NUMBER = frozenset({"add", "sub", "lerp", "copy"})
"""Those of them that take a number, or a switch, behind two lists."""
_Sizes = msgspec.json.Decoder(list[list[Any]])
Sizes = list[list[Any]]


def grouped(operator: str, sizes: str) -> str:
    """The sizes as JSON text, those of a list of tensors in a list of their own."""
    joins = _JOINS.match(operator)
    fused = _FUSED.match(operator)
    foreach = _FOREACH.match(operator)
    if not (joins or fused or foreach):
        return sizes
    try:
        flat = _Sizes.decode(sizes)
    except msgspec.DecodeError:
        return sizes
    tensors = _without_numbers(flat)
    numbers: Sizes = flat[len(tensors) :]
    most = 1
    if fused:
        most = _OF_OPTIMIZER[fused["rule"]]
    elif foreach:
        most = _most_lists(foreach["does"], len(numbers))
    lists = _alike(tensors, most)
    return msgspec.json.encode([*lists, *numbers]).decode()


def _without_numbers(flat: Sizes) -> Sizes:
    """The inputs but for numbers at the end, which have no sizes, as tensors without dimensions
    have none; where all have none the last one is a number."""
    last = max((place for place, sizes in enumerate(flat) if sizes), default=len(flat) - 2)
    return flat[: last + 1]


def _most_lists(does: str, numbers: int) -> int:
    """How many lists there may be, with so many numbers behind them."""
    if does in _ON_THREE:
        return 3
    may_be_two = numbers == 0 or does in _WITH_NUMBER
    return 2 if does in _ON_TWO and may_be_two else 1


def _alike(tensors: Sizes, most: int) -> list[Sizes]:
    """The tensors in lists of equal shapes, at most so many of them."""
    has_sizes = any(tensors)
    for count in range(most if has_sizes else 1, 1, -1):
        length, rest = divmod(len(tensors), count)
        parts = [tensors[i * length : (i + 1) * length] for i in range(count)]
        if not rest and all(part == parts[0] for part in parts):
            return parts
    return [tensors]
