"""Recorded tensors at another batch and length.

The batch stands in a tensor's outermost dimension in memory, alone or times something (its tokens,
its heads, its windows); so does the length where the batch is not there. Other dimensions go with
the length where they are as long. Parameters stay. Sizes that only look like these are told apart
by what parameters have."""

from dataclasses import replace

from traceanalyzer.analysis.roofline.op_models.call import Call
from traceanalyzer.analysis.roofline.op_models.tensors import Input, Shape, Tensor
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.parameters import Parameters
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions

SHIFTED = 1
"""A model that predicts the next token drops one of each sequence before its loss."""
PRODUCT = regex(r"^aten::(mm|bmm|matmul)$")
CASTS = regex(r"^aten::(to|_to_copy|copy_|t|transpose|detach)$")
"""Operators that take parameters in a forward pass though they are no layers."""
WITH_BASE = regex(r"^aten::(addmm|baddbmm)$")
PLANE = 3
"""Dimensions of a batch of sequences: the last is of features."""


@dataclass(frozen=True)
class Sizes:
    """Batch and length as recorded, and as asked for."""

    now: Dimensions
    batch: int
    length: int | None

    @property
    def batch_ratio(self) -> float:
        """How many times the batch is larger."""
        return self.batch / self.now.batch

    @property
    def length_ratio(self) -> float:
        """How many times the length is larger."""
        now = self.now.context
        return self.length / now if self.length and now else 1.0

    @property
    def rows(self) -> frozenset[int]:
        """The recorded samples, and their tokens."""
        length = self.now.length or 1
        return self.now.folds | {self.now.batch, self.now.batch * length}

    def lengthened(self, size: int) -> int | None:
        """What becomes of a size that is a length; None where it is none."""
        if self.now.is_decode:
            kept = size > 1 and {size, size + 1} & self.now.cached
            return round(size * self.length_ratio) if kept else None
        now = self.now.length
        if now is None or now == 1 or self.length is None:
            return None
        for shift in (0, -SHIFTED, SHIFTED):
            if size == now + shift:
                return self.length + shift
        for shift in (0, SHIFTED):
            if size - shift in self.now.parts:
                return max(round((size - shift) * self.length_ratio), 1) + shift
        return None

    def has_length(self, size: int) -> bool:
        """Whether the length is in the outermost size of a tensor."""
        now = self.now.length
        tokens = self.now.batch * (now or 0)
        return self.lengthened(size) is not None or (tokens > self.now.batch and size % tokens == 0)

    def batched(self, size: int) -> int | None:
        """What becomes of the outermost size of a tensor of a batch; None where the batch is not in
        it."""
        now = self.now.length
        if now is not None and now > 1 and self.length is not None:
            for shift in (0, -SHIFTED):
                tokens = self.now.batch * (now + shift)
                if size and size % tokens == 0:
                    return size // tokens * self.batch * (self.length + shift)
        if size % self.now.batch == 0:
            return size // self.now.batch * self.batch
        return self.routed(size)

    def parted(self, size: int) -> int | None:
        """What becomes of a size that is the batch times a size in proportion to the length, and
        something else; None for others."""
        products = [self.now.batch * part for part in self.now.parts]
        if self.length is None or not any(size % one == 0 for one in products if one):
            return None
        return max(round(size * self.batch_ratio * self.length_ratio), 1)

    def is_folded(self, size: int) -> bool:
        """Whether a size is the batch times what each sample has, and something else."""
        return size > 0 and any(size % rows == 0 for rows in self.now.folds)

    def folded(self, size: int) -> int:
        """What becomes of such a size."""
        return size // self.now.batch * self.batch

    def inner(self, size: int) -> int | None:
        """What becomes of the rows that a weight's gradient is summed over; None where they stay."""
        tokens = self.now.batch * (self.now.length or 1)
        parted = None if size % tokens == 0 else self.parted(size)
        return self.batched(size) if parted is None else parted

    def routed(self, size: int) -> int | None:
        """What becomes of rows that are some of the samples or tokens; None for other sizes."""
        if size not in self.now.routed:
            return None
        return max(round(size * self.batch_ratio * self.length_ratio), 1)


@dataclass(frozen=True)
class Resizer:
    """Makes calls of operators at other sizes."""

    sizes: Sizes
    parameters: Parameters

    def call(self, call: Call, *, backward: bool = False, brings: bool = False) -> Call:
        """The call at the sizes asked for; `backward`: whether the backward pass makes it,
        `brings`: whether it brings input from the host."""
        casts = CASTS.match(call.name) is not None and not brings
        inputs = tuple(self._input(one, casts=casts) for one in call.inputs)
        resized = replace(call, inputs=inputs)
        places = _operands(call)
        return (
            resized if places is None else self._product(resized, call, places, backward=backward)
        )

    def _input(self, given: Input, *, casts: bool) -> Input:
        if isinstance(given, tuple):
            return tuple(self.tensor(one, casts=casts) for one in given)
        return None if given is None else self.tensor(given, casts=casts)

    def tensor(self, tensor: Tensor, *, casts: bool = True) -> Tensor:
        """The tensor at the sizes asked for. What has a parameter's shape is one, unless its rows
        are the recorded samples or tokens and the operator is none that `casts` parameters."""
        if not tensor.shape or (self.parameters.has(tensor) and not self._is_data(tensor, casts)):
            return tensor
        shape = self._shape(tensor)
        if shape == tensor.shape:
            return tensor
        return replace(tensor, shape=shape, strides=_strides(shape, tensor.strides))

    def _is_data(self, tensor: Tensor, casts: bool) -> bool:
        return not casts and len(tensor.shape) == 2 and tensor.shape[0] in self.sizes.rows

    def _product(
        self,
        resized: Call,
        call: Call,
        places: tuple[int, int],
        *,
        backward: bool,
    ) -> Call:
        """A product of matrices: of a layer the second operand is a weight; of a weight's gradient,
        whose first operand is transposed, the inner dimension goes with the sizes."""
        left = call.optional(places[0])
        right = call.optional(places[1])
        if left is None or right is None or min(len(left.shape), len(right.shape)) < 2:
            return resized
        if len(left.shape) != 2 or len(right.shape) != 2 or left.strides is None:
            return _agreed(resized, call, places)
        if backward and left.strides[0] < left.strides[1]:
            inner = self.sizes.inner(left.shape[1]) or left.shape[1]
            return _with_operands(resized, places, (left.shape[0], inner), (inner, right.shape[1]))
        if self.parameters.has(right):
            first = self.tensor(left, casts=False).shape
            return _with_operands(resized, places, (first[0], left.shape[1]), right.shape)
        return _agreed(resized, call, places)

    def _shape(self, tensor: Tensor) -> Shape:
        order = _outermost_first(tensor)
        outer = order[0]
        shape = list(tensor.shape)
        first = self._outer(tensor, outer)
        if first is not None:
            shape[outer] = first
        long = first is not None and self.sizes.has_length(tensor.shape[outer])
        for axis in order[1:]:
            size = tensor.shape[axis]
            longer = self.sizes.lengthened(size)
            if longer is not None and not (
                long and axis == order[-1] and self._may_be_feature(tensor, axis)
            ):
                shape[axis] = longer
                long = True
            elif long and axis == order[1] and size == self.sizes.now.batch:
                shape[axis] = self.sizes.batch
            elif first is None and axis == order[1]:
                shape[axis] = self.sizes.routed(size) or size
        return tuple(self._with_folds(shape, tensor, order[1:-1]))

    def _with_folds(self, shape: list[int], tensor: Tensor, inner: list[int]) -> list[int]:
        """The shape whose dimensions between the outermost and the innermost that are the batch
        times what each sample has go with the batch, too."""
        for axis in inner:
            if self._is_folded(shape[axis]) and shape[axis] == tensor.shape[axis]:
                shape[axis] = self.sizes.folded(shape[axis])
        return shape

    def _outer(self, tensor: Tensor, axis: int) -> int | None:
        """The outermost size; None where it stays."""
        size = tensor.shape[axis]
        longer = self.sizes.lengthened(size)
        if longer is not None and size != self.sizes.now.batch:
            return longer
        if size == 1 < self.sizes.now.batch:
            return None
        alone = len(tensor.shape) == 1
        if alone and size in self.parameters.sizes and size not in self.sizes.rows:
            return None
        is_data = not alone and size > 0 and not self.parameters.has_viewed(tensor)
        if is_data and not self._is_long_within(tensor, axis):
            parted = self.sizes.parted(size)
            if parted is not None:
                return parted
        return self.sizes.batched(size)

    def _is_long_within(self, tensor: Tensor, outer: int) -> bool:
        """Whether the length stands in a dimension other than the outermost, or in what the tokens
        of a batch are."""
        inner = (*tensor.shape[:outer], *tensor.shape[outer + 1 :])
        tokens = self.sizes.now.batch * (self.sizes.now.length or 1)
        has_tokens = tensor.shape[outer] % tokens == 0
        return has_tokens or any(self.sizes.lengthened(size) is not None for size in inner)

    def _is_folded(self, size: int) -> bool:
        """Whether an inner size is the batch times what each sample has, and none of a parameter."""
        return self.sizes.is_folded(size) and size not in self.parameters.sizes

    def _may_be_feature(self, tensor: Tensor, axis: int) -> bool:
        """Whether a size that equals the length may be that of features, as parameters have it."""
        return len(tensor.shape) <= PLANE and tensor.shape[axis] in self.parameters.sizes


def _outermost_first(tensor: Tensor) -> list[int]:
    """Its dimensions as they lie in memory."""
    axes = list(range(len(tensor.shape)))
    strides = tensor.strides
    if strides is None or 0 in strides or 1 in tensor.shape:
        return axes
    return sorted(axes, key=lambda axis: -strides[axis])


def _strides(shape: Shape, before: Shape | None) -> Shape | None:
    """Strides of a tensor of another shape whose dimensions lie in memory as before; a dimension
    that is expanded stays so."""
    if before is None:
        return None
    strides = [0] * len(shape)
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: before[axis]):
        if before[axis]:
            strides[axis] = step
            step *= shape[axis]
    return tuple(strides)


def _operands(call: Call) -> tuple[int, int] | None:
    """Places of the operands of a product; None for other calls."""
    if PRODUCT.match(call.name):
        return (0, 1)
    return (1, 2) if WITH_BASE.match(call.name) else None


def _with_operands(call: Call, places: tuple[int, int], left: Shape, right: Shape) -> Call:
    inputs = list(call.inputs)
    for place, shape in zip(places, (left, right), strict=True):
        given = inputs[place]
        if isinstance(given, Tensor):
            inputs[place] = replace(given, shape=shape, strides=_strides(shape, given.strides))
    return replace(call, inputs=tuple(inputs))


def _agreed(resized: Call, call: Call, places: tuple[int, int]) -> Call:
    """The call with inner dimensions of a product that agree: where one operand's goes with the
    sizes, so does the other's."""
    left = resized.optional(places[0])
    right = resized.optional(places[1])
    before = call.optional(places[0])
    if left is None or right is None or before is None:
        return resized
    inner = left.shape[-1]
    other = right.shape[-2]
    if inner == other:
        return resized
    changed = inner if inner != before.shape[-1] else other
    return _with_operands(
        resized,
        places,
        (*left.shape[:-1], changed),
        (*right.shape[:-2], changed, right.shape[-1]),
    )
