"""Which tensor an operator takes of those that others gave before it. A recording has no names of
tensors, so shapes tell: it is the latest of this shape that is still needed."""

from collections.abc import Sequence
from dataclasses import replace

from traceanalyzer.analysis.roofline.op_models.tensors import Shape, Tensor
from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.autocast_rules import CastRule, Kind
from traceanalyzer.replay.patterns.parameters import Parameters

MOST_HELD = 32
"""Tensors of one size that are looked through: without a backward pass nothing tells when one is
no longer needed."""


@dataclass(frozen=True, eq=False)
class HeldTensor:
    """A tensor, as far as it is known."""

    size: int
    """Its elements; of one that is taken apart those that are left."""
    shape: Shape | None
    narrow: bool = False
    """Whether it is in 16 bits."""
    trained: bool = False
    """Whether it has a gradient."""
    is_parameter: bool = False
    is_lasting: bool = False
    """Whether nothing tells when it is no longer needed."""
    is_unknown: bool = False
    """Whether its format is not known: it, or all that it was made of, comes from outside of the
    pass."""


class HeldTensors:
    """The tensors of a forward pass that are still needed. `trains`: whether a backward pass follows
    it."""

    def __init__(self, parameters: Parameters, *, trains: bool) -> None:
        self._parameters = parameters
        self._trains = trains
        self._of_size = dict[int, list[HeldTensor]]()
        self._last: HeldTensor | None = None
        """What the last operator gave, where its size is not known."""
        self._parts: HeldTensor | None = None
        """What was taken apart."""
        self._product: tuple[Shape, HeldTensor] | None = None
        """What the last product took."""
        self._follows = False
        """Whether nothing but views came after that."""

    def clear(self) -> None:
        """Another forward pass begins, which takes nothing of the one before."""
        self._of_size.clear()
        self._last = None
        self._parts = None
        self._product = None

    def taken_by(self, kind: Kind, *, needed: bool) -> list[HeldTensor]:
        """What an operator takes; `needed`: whether it is needed after that."""
        operands = list[HeldTensor]()
        for tensor in kind.floats:
            sibling = None if operands else self._sibling(kind, tensor, needed=needed)
            operands.append(sibling or self._found(tensor, operands))
        for operand in operands:
            alike = self._of_size.get(operand.size, [])
            if operand in alike and not operand.is_lasting and not needed:
                alike.remove(operand)
        return operands

    def given_by(
        self, kind: Kind, operands: Sequence[HeldTensor], *, narrow: bool, unknown: bool = False
    ) -> None:
        """An operator gives a tensor in 16 bits, or in fp32; `unknown`: or that is not known."""
        if kind.rule is CastRule.TO_16_BITS:
            self._product = (kind.floats[0].shape, operands[0])
            self._follows = True
        self._follows &= kind.is_view or kind.rule is CastRule.TO_16_BITS
        trained = any(operand.trained for operand in operands)
        size = kind.size or 0
        lasting = not self._trains
        result = HeldTensor(
            size, kind.shape, narrow, trained, is_lasting=lasting, is_unknown=unknown
        )
        if kind.takes_apart:
            self._parts = replace(result, size=kind.floats[0].numel)
        elif kind.size is None:
            self._last = result
        else:
            self._keep(result)

    def _sibling(self, kind: Kind, tensor: Tensor, *, needed: bool) -> HeldTensor | None:
        """What the product before took, where this one takes the same: queries, keys and values are
        made of one tensor."""
        if kind.rule is not CastRule.TO_16_BITS or self._product is None:
            return None
        shape, taken = self._product
        is_held = taken in self._of_size.get(tensor.numel, [])
        return taken if shape == tensor.shape and is_held and (needed or self._follows) else None

    def _found(self, tensor: Tensor, others: Sequence[HeldTensor]) -> HeldTensor:
        """The latest of this shape beside others; a parameter where there is none."""
        unsized = self._unsized(tensor)
        if unsized is not None:
            return unsized
        alike = [held for held in self._of_size.get(tensor.numel, []) if held not in others]
        shapes = (tensor.shape,) if others else (tensor.shape, None)
        same = [held for held in alike if held.shape in shapes]
        if not same and self._parameters.has(tensor) and (others or not alike):
            return HeldTensor(tensor.numel, tensor.shape, trained=self._trains, is_parameter=True)
        found = same or [held for held in alike if held.shape is None] or alike
        # What nobody gave comes from outside of the pass.
        return found[-1] if found else self._keep(_from_outside(tensor))

    def _unsized(self, tensor: Tensor) -> HeldTensor | None:
        """What the last operator gave, or a part of what was taken apart."""
        last = self._last
        self._last = None
        if last is None and self._parts is not None and tensor.numel <= self._parts.size:
            last = self._parts
            self._parts = replace(last, size=last.size - tensor.numel)
        return last and self._keep(replace(last, size=tensor.numel, shape=tensor.shape))

    def _keep(self, held: HeldTensor) -> HeldTensor:
        alike = self._of_size.setdefault(held.size, [])
        alike.append(held)
        del alike[:-MOST_HELD]
        return held


def _from_outside(tensor: Tensor) -> HeldTensor:
    """A tensor that no operator gave."""
    return HeldTensor(tensor.numel, tensor.shape, is_lasting=True, is_unknown=True)
