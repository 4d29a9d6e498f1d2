"""A table for people, before it is drawn: rows of an analysis dataclass as headers, cells and
definitions. Headers and units come from the fields' `metric()`. What is the same in every row stands
once, without a column; what no row has is left out."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from types import NoneType
from typing import Any

from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.report.format import (
    Scale,
    figure,
    is_figure,
    label,
    number,
    plain,
    recorded_scale,
    scale_for,
    scaled,
)
from traceanalyzer.report.names.kernel_labels import LABEL_WIDTH, kernel_labels

TIMESTAMPS = (
    "start_ns",
    "end_ns",
)  # fields that hold a moment, not a length: three digits of it would say nothing
IDENTIFIERS = ("rank", "device", "step", "id")  # fields that hold an integer which is not a figure
FULL_NAME = "full_name"
"""The field of a kernel as recorded: rows that have it are kernels."""
FOR_PROGRAMS = (
    FULL_NAME,
    "end_ns",
)  # fields that people get in a shorter form as well: the name, start and duration
# Fields by which rows are in order, or that a row is about.
MAIN = (
    "total_ms",
    "device_self_ms",
    "calls",
    "gpu_idle_ms",
    "idle_ms",
    "duration_ns",
    "duration_ms",
    "step_ms",
    "device_ms",
)
DECIDING = (
    "bound_by",
    "sol",
    "headroom_ms",
    "op",
    "module",
    "python",
    "cause",
    "detail",
    "share_of_step",
    "outcome",
    "verdict",
)
"""Fields that say what to do about a row: shown first where there is not room for all."""
OF_TRAINING = ("backward_ms", "backward_share", "backward_device_ms", "recomputed_ms")
OF_A_GPU = (
    "device_total_ms",
    "device_self_ms",
    "device_ms",
    "forward_ms",
    "self_ms",
    "share_of_step",
    "share_of_device",
)
"""Fields that are no column where every row has nothing of it: a server does not train, and a
recording of the CPU alone has no GPU."""
DISTRIBUTION = (
    "p50",
    "p95",
    "p99",
    "min",
    "max",
    "std",
)  # parts of names of fields that come last: few need them
NOT_RECORDED = "-"  # a cell without a value; most of a column may be such, so it has to be quiet


@dataclass(frozen=True)
class ShownColumn:
    """A column as shown. `unit` is the one that its cells are in."""

    name: str
    label: str
    unit: str
    is_text: bool
    cells: list[str]
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What kernels are called where their names have no room; empty of other columns."""

    @property
    def worth(self) -> int:
        """Its place where there is not room for all: 0 before 1 and so on."""
        if self.name in MAIN:
            return 0
        if self.name in DECIDING:
            return 1
        return 4 if _is_distribution(self.name) else 3 if self.is_text else 2

    @property
    def header(self) -> str:
        """Label and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Grid:
    """A table as shown."""

    columns: list[ShownColumn]
    constant: list[
        tuple[str, str]
    ]  # labels and values of the fields that are the same in every row
    origin_ns: int | None  # what the moments in the table count from, on the recording's clock
    rows: int
    definitions: list[tuple[str, str]]  # label and definition of each field that is shown

    @property
    def remarks(self) -> list[str]:
        """What has to be known to read it, in sentences."""
        same = ", ".join(f"{name} {value}" for name, value in self.constant)
        return [f"In every row: {same}."] if same else []

    def head(self, count: int) -> "Grid":
        """The first rows; remarks on every row still hold."""
        columns = [dataclasses.replace(c, cells=c.cells[:count]) for c in self.columns]
        return dataclasses.replace(self, columns=columns, rows=min(count, self.rows))


def make_grid(
    rows: Sequence[Any],
    origin_ns: int | None = None,
    chosen: Sequence[str] | None = None,
    *,
    folded_from: int = 1,
    width_of_labels: int = LABEL_WIDTH,
) -> Grid:
    """The table of some rows (instances of one dataclass; at least one). `origin_ns`: what moments
    count from; `chosen`: names of the fields to show, in order. What is the same in every row is no
    column from `folded_from` rows on. Kernels are called by labels of `width_of_labels`
    characters."""
    fields = _fields(rows, chosen)
    moments = [value for f in fields if f.is_moment for value in filter(is_figure, f.values)]
    scales = _scales(fields)
    origin = min(moments, default=0) if origin_ns is None else origin_ns
    grid = Grid([], [], origin if moments else None, len(rows), [])
    for f in fields:
        if not f.is_shown:
            continue
        definition = f.metadata.get("definition")
        if definition:
            grid.definitions.append((label(f.name, f.unit), definition))
        if f.is_constant and len(rows) >= folded_from:
            grid.constant.append((label(f.name), f.constant))
        else:
            column = f.column(scales, origin)
            if f.name == "name" and hasattr(rows[0], FULL_NAME):
                column = dataclasses.replace(
                    column, labels=kernel_labels(column.cells, width_of_labels)
                )
            grid.columns.append(column)
    return grid


@dataclass(frozen=True)
class _Field:
    name: str
    metadata: Mapping[Any, Any]
    values: list[Any]

    @property
    def unit(self) -> str:
        return self.metadata.get("unit", "")

    @property
    def is_optional(self) -> bool:
        """Whether it is of a training step or of a GPU: other recordings' tables go without."""
        return self.name in (*OF_TRAINING, *OF_A_GPU)

    @property
    def is_moment(self) -> bool:
        return self.name in TIMESTAMPS

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value, or text, or what is in a collection."""
        numbers = any(
            isinstance(value, int | float) for value in self.values
        )  # 0 and False are said
        return not numbers and not any(self.values)

    @property
    def is_shown(self) -> bool:
        """Whether a row has something in it; in an optional one more than 0."""
        return not self.is_empty and (not self.is_optional or any(self.values))

    @property
    def is_constant(self) -> bool:
        """Whether every row has the same value, which is no figure."""
        if (
            self.is_moment
            or isinstance(self.values[0], float)
            or (len(self.values) == 1 and self.name != "rank")
        ):
            return False
        return all(value == self.values[0] for value in self.values)

    @property
    def constant(self) -> str:
        """The value of every row, with its unit."""
        value = self.values[0]
        with_unit = self.unit and is_figure(value) and self.name not in IDENTIFIERS
        return figure(value, self.unit) if with_unit else _cell(self.name, value)

    @property
    def has_figures(self) -> bool:
        return any(
            issubclass(kind, int | float) and kind is not bool
            for kind in set(map(type, self.values))
        )

    @property
    def largest(self) -> float:
        """Whatever its sign; 0 where there is none."""
        if self.is_moment or not self.has_figures:
            return 0.0
        hashable = set(map(type, self.values)) <= {
            int,
            float,
            NoneType,
        }  # values come again and again
        return max(
            map(abs, filter(is_figure, set(self.values) if hashable else self.values)), default=0.0
        )

    def column(self, scales: dict[str, Scale], origin_ns: int) -> ShownColumn:
        """Its column; moments count from `origin_ns`."""
        if self.is_moment:
            cells = [
                NOT_RECORDED if v is None else f"{(v - origin_ns) / NS_PER_MS:,.3f}"
                for v in self.values
            ]
            return ShownColumn(self.name, label(self.name), "ms", False, cells)
        if not self.has_figures or self.name in IDENTIFIERS:
            cells = _each(partial(_cell, self.name), self.values)
            return ShownColumn(self.name, label(self.name), "", not self.has_figures, cells)
        unit = self.unit
        scale = scales[self.unit]

        def cell(value: Any) -> str:
            """A figure in the column's unit; one that is too small for it in its own."""
            if not is_figure(value):
                return _cell(self.name, value)
            shown = number(scaled(value, scale))
            return (
                figure(value, unit)
                if shown.lstrip("-").startswith("<") and recorded_scale(unit) != scale
                else shown
            )

        return ShownColumn(
            self.name, label(self.name, unit), scale.label, False, _each(cell, self.values)
        )


def _fields(rows: Sequence[Any], chosen: Sequence[str] | None) -> list[_Field]:
    every = {f.name: f.metadata for f in dataclasses.fields(rows[0])}
    chosen = chosen or _in_order(list(every))
    return [_Field(name, every[name], list(map(attrgetter(name), rows))) for name in chosen]


def _in_order(fields: list[str]) -> list[str]:
    """The fields for people: how a figure is distributed last, what decides right behind the share
    of the step."""
    names = [name for name in fields if name not in FOR_PROGRAMS]
    first = names.index("share_of_step") if "share_of_step" in names else len(names)

    def place(name: str) -> int:
        behind = names.index(name) > first
        return 3 if _is_distribution(name) else behind + (behind and name not in DECIDING)

    return sorted(names, key=place)


def _is_distribution(name: str) -> bool:
    return any(part in DISTRIBUTION for part in name.split("_"))


def _scales(fields: Sequence[_Field]) -> dict[str, Scale]:
    """The unit to show figures in, by recorded unit: the columns of a table are read across."""
    largest: dict[str, float] = {}
    for f in fields:
        largest[f.unit] = max(largest.get(f.unit, 0.0), f.largest)
    # The unit they were recorded in, which other tables use as well, where figures are readable in
    # it.
    readable = {unit for unit, most in largest.items() if most == 0 or 1 <= most < 10_000}
    return {
        unit: recorded_scale(unit) if unit in readable else scale_for(most, unit)
        for unit, most in largest.items()
    }


def _each(cell: Callable[[Any], str], values: Sequence[Any]) -> list[str]:
    """The cell of each value; values come again and again. True and 1.0 are not the value that 1
    is."""
    try:
        return list(map(lru_cache(maxsize=None, typed=True)(cell), values))
    except TypeError:  # tags, which may change
        return list(map(cell, values))


def _cell(name: str, value: Any) -> str:
    if value is None or value == "":
        return NOT_RECORDED
    if isinstance(value, bool) or not isinstance(value, int | float):
        return figure(value) if isinstance(value, bool) else plain(str(value))
    return str(value) if name in IDENTIFIERS and isinstance(value, int) else number(value)
