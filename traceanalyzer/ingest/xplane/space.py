"""What both of XLA's formats say: planes (a device, the host) with lines (a stream, a thread) of
events."""

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.columns import StringCodes, concatenated
from traceanalyzer.trace import I64, Bool, distinct_places
from traceanalyzer.trace.table import MOST_IDS

GRAPH = "cuda_graph_id"
NODE = "cuda_graph_node_id"
"""Of a kernel that a replayed CUDA graph (XLA's command buffer) launched."""
TEXTS = (
    "kernel_details",
    "memcpy_details",
    "memset_details",
    "hlo_op",
    "hlo_module",
    "allocator_name",
)
STATS = (
    "correlation_id",
    "step_num",
    "bytes_allocated",
    "bytes_reserved",
    "allocation_bytes",
    "addr",
    GRAPH,
    NODE,
    *TEXTS,
)
"""What is read of an event's stats: -1 where it has no such stat; texts are codes."""
COLUMNS = ("name", "start", "end", *STATS)
LONGEST_MODULE = 200
"""Characters of a module's name before that of each of its operators; names are written once in the
file, and a long one would be repeated thousands of times here."""
LONGEST_OPERATOR = 512
"""Characters of an operator behind its module's, and of a step before its number: one operator may
stand in any number of modules, and one name in any number of steps."""
Columns = dict[str, I64]


@dataclass(frozen=True, eq=False)
class XLine:
    """Events of a stream or thread, one row each."""

    id: int
    name: str
    events: Columns  # the `COLUMNS`: names are codes, times ns

    def __len__(self) -> int:
        return len(self.events["start"])

    def take(self, rows: Bool) -> "XLine":
        """The line with these events alone."""
        return replace(self, events={name: column[rows] for name, column in self.events.items()})


@dataclass(frozen=True, eq=False)
class Plane:
    """A device or the host."""

    name: str
    lines: tuple[XLine, ...]
    stats: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Space:
    """A recording."""

    planes: tuple[Plane, ...]
    host: str | None = None
    messages: tuple[str, ...] = ()  # errors and warnings of the recorder
    lost: int = 0
    skipped: int = 0
    truncated: bool = False

    def stat(self, name: str) -> int | None:
        """A number that one of the planes states of the recording."""
        values = (plane.stats[name] for plane in self.planes if name in plane.stats)
        value = next(values, None)
        return value if isinstance(value, int) else None

    def time(self, name: str) -> int:
        """A moment that one of the planes states, ns since the epoch; 0 for what can be none."""
        value = self.stat(name) or 0
        return value if 0 < value < MOST_IDS else 0


def joined_lines(lines: list[XLine]) -> tuple[Columns, I64]:
    """The events of all lines, and the index of the line of each."""
    columns = {name: _column(lines, name) for name in COLUMNS}
    return columns, np.repeat(np.arange(len(lines)), list(map(len, lines)))


def _column(lines: list[XLine], name: str) -> I64:
    parts = [line.events[name] for line in lines]
    return concatenated(parts or [np.empty(0, np.int64)])


def timed(rows: Columns, base: int) -> Columns:
    """Names, and times that count from `base`."""
    return {"name": rows["name"], "start": rows["start"] - base, "end": rows["end"] - base}


def operator_codes(rows: Columns, texts: StringCodes) -> tuple[I64, I64]:
    """Codes of the HLO module and of `module/operator` of each event, -1 where it has none."""
    strings = texts.in_order()
    wide = len(strings) + 1
    pairs, place = distinct_places((rows["hlo_module"] + 1) * wide + rows["hlo_op"] + 1)
    codes = []
    for pair in pairs.tolist():
        module, operator = divmod(pair, wide)
        parts = [strings[module - 1][:LONGEST_MODULE]] if module else []
        name = "/".join([*parts, strings[operator - 1][: LONGEST_OPERATOR if module else None]])
        codes.append(texts.code(name) if operator else -1)
    return rows["hlo_module"], np.array(codes, np.int64)[place]
