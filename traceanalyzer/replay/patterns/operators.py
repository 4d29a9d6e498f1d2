"""Operators as a recording describes them: what they are called, the tensors they take, the values of the rest."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from traceanalyzer.analysis.algebra import at
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.tensors import Input, Shape, Tensor, inputs_of, parse_values
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64

Told = TypeVar("Told")


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator, or all that were recorded alike; what was not recorded is empty."""

    name: str
    texts: tuple[str | None, str | None, str | None] = (None, None, None)
    """Its shapes, element types and values, as recorded."""

    def named(self, pattern: re.Pattern[str]) -> bool:
        """Whether it is called like this."""
        return pattern.search(self.name) is not None

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What it takes, told by shapes alone: an element type that is missing or damaged takes nothing away."""
        return inputs_of(self.texts[0])

    @cached_property
    def typed(self) -> tuple[Input, ...]:
        """What it takes, with element types."""
        return inputs_of(self.texts[0], self.texts[1])

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Texts of its arguments, empty ones for tensors."""
        return parse_values(self.texts[2])

    @cached_property
    def shapes(self) -> list[Shape]:
        """Of its tensors, without those in lists."""
        return [one.shape for one in self.inputs if isinstance(one, Tensor)]

    @cached_property
    def first(self) -> Shape:
        """The shape of its first argument, () where that is no tensor."""
        return self.inputs[0].shape if self.inputs and isinstance(self.inputs[0], Tensor) else ()

    @property
    def first_tensor(self) -> Shape:
        """The shape of the first of these, () without any."""
        return self.shapes[0] if self.shapes else ()

    @cached_property
    def lists(self) -> list[list[Shape]]:
        """Of the tensors in each of its lists."""
        return [[tensor.shape for tensor in one] for one in self.inputs if isinstance(one, tuple)]

    @property
    def listed(self) -> list[Shape]:
        """Of the tensors in its first argument, where that is a list."""
        return self.lists[0] if self.inputs and isinstance(self.inputs[0], tuple) else []


def count(run: Sequence[Operator], pattern: re.Pattern[str]) -> int:
    """How many of these operators are called like this."""
    return sum(one.named(pattern) for one in run)


class Operators:
    """The operators of a recording, each kind of them read once."""

    def __init__(self, linked: Linked) -> None:
        self._linked, self._known = linked, dict[tuple[int, ...], Operator]()

    def of_nodes(self, nodes: I32 | I64) -> list[Operator]:
        """Those that these nodes of the host tree are (ranges, no API calls); one without a name for -1."""
        return self.of_rows(at(self._linked.tree.row, nodes, -1))

    def of_rows(self, rows: I32 | I64) -> list[Operator]:
        """Those in these rows of `Trace.host_ranges`, one without a name for -1."""
        ranges, known = self._linked.trace.host_ranges, self._known
        columns = (ranges.name, ranges.shapes, ranges.dtypes, ranges.concrete)
        kinds = list(zip(*(at(column, rows, -1).tolist() for column in columns), strict=True))
        for kind in kinds:
            if kind not in known:
                name, shapes, dtypes, values = map(self._linked.trace.text, kind)
                known[kind] = Operator(name or "", (shapes, dtypes, values))
        return [known[kind] for kind in kinds]

    def tell(self, nodes: I32 | I64, of_one: Callable[[Operator], Told]) -> list[Told]:
        """What `of_one` says of each of these nodes, asked once for each kind."""
        found = self.of_nodes(nodes)
        known = {one: of_one(one) for one in set(found)}
        return [known[one] for one in found]


def operators(linked: Linked) -> Operators:
    """The operators of a recording."""
    return linked.memo(Operators)
