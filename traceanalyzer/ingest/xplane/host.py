"""What the host did: calls, ranges of the program and of XLA, Python's functions, allocations."""

import re

import numpy as np

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.columns import StringCodes
from traceanalyzer.ingest.xplane.device import launched_operators
from traceanalyzer.ingest.xplane.space import (
    LONGEST_OPERATOR,
    Columns,
    XLine,
    joined_lines,
    operator_codes,
    timed,
)
from traceanalyzer.trace import (
    I64,
    ApiCalls,
    Bool,
    HostRanges,
    MemoryEvents,
    RangeKind,
    distinct_places,
)

UNNAMED_LAUNCH = "LaunchKernel (call not named)"
"""ROCm's recorder of old gives a launch the name of its kernel."""
_API = regex(r"^(?:cu|cuda|hip)[A-Z]\w*(?: \(CudaGraph:\d+\))?$")
_VERSION = regex(r"_v\d{4,5}$| \(CudaGraph:\d+\)$")
_FRAME = regex(r"^\$(\S+\.\w+):(\d+) (.+)$")
_PYTHON = regex(r"\$")
_MARK = regex(r"^(?:ThreadpoolListener::|end: )")  # moments, which XLA writes as events
_MEMORY = regex(r"^Memory(?:Deall|All)ocation$")
_ALLOCATOR = regex(r"^GPU_(\d{1,4})_")


class _Names:
    """The names of rows; each distinct one is looked at once."""

    def __init__(self, codes: I64, texts: StringCodes) -> None:
        known, self._place = distinct_places(codes)
        self._texts = texts
        self._known = [*map(texts.in_order().__getitem__, known.tolist())]

    def match(self, pattern: re.Pattern[str]) -> Bool:
        """Which rows' names begin with the pattern."""
        return np.array([pattern.match(name) is not None for name in self._known], bool)[
            self._place
        ]

    def shown(self) -> I64:
        """The codes of the names as they are shown."""
        codes = [self._texts.code(_shown(name)) for name in self._known]
        return np.array(codes, np.int64)[self._place]


@dataclass(frozen=True, eq=False)
class Host:
    """Events of all threads, one row each; the tables are made of them."""

    rows: Columns  # with `thread`, and `kind` and `name` as the ranges have them
    is_call: Bool
    is_memory: Bool
    is_range: Bool
    operator: I64  # for each call what it launches, -1 where it is not recorded

    @classmethod
    def of(cls, lines: list[XLine], device: Columns, texts: StringCodes) -> "Host":
        """The host events of these lines; `device`: the rows of the devices."""
        rows, thread = joined_lines(lines)
        rows["thread"] = thread
        names = _Names(rows["name"], texts)
        module, operator = operator_codes(rows, texts)
        is_op = operator >= 0
        is_api = names.match(_API)
        is_memory = names.match(_MEMORY)
        is_call = is_api | (rows["correlation_id"] > 0)
        is_empty = names.match(_MARK) | (rows["end"] <= rows["start"])
        is_range = ~is_call & ~is_memory & ~is_empty
        name = names.shown()
        name[is_call & ~is_api] = texts.code(UNNAMED_LAUNCH)
        _number_steps(name, rows, texts)
        kind = np.where(names.match(_PYTHON), RangeKind.PYTHON, RangeKind.ANNOTATION)
        rows["name"] = np.where(is_range & is_op, operator, name)
        rows["kind"] = np.where(is_op, RangeKind.OP, kind)
        own = np.where(is_op, operator, module)
        launched = np.where(
            own >= 0, own, launched_operators(device, texts, rows["correlation_id"])
        )
        return cls(rows, is_call, is_memory, is_range, np.where(is_call, launched, -1))

    def _taken(self, chosen: Bool, base: int, *more: str) -> Columns:
        rows = {name: self.rows[name][chosen] for name in ("name", "start", "end", *more)}
        return rows | timed(rows, base)

    def calls(self, base: int) -> ApiCalls:
        """Calls into CUDA's or HIP's runtime or driver."""
        rows = self._taken(self.is_call, base, "thread", "correlation_id")
        correlation = rows.pop("correlation_id")
        return ApiCalls.from_columns(
            rows | {"correlation": np.where(correlation > 0, correlation, -1)}
        )

    def ranges(self, base: int) -> HostRanges:
        """What the program and XLA named, Python's functions, and around each launch the operator
        that it is of."""
        launches = self.operator >= 0
        own, around = (
            self._taken(rows, base, "thread", "kind") for rows in (self.is_range, launches)
        )
        around |= {
            "name": self.operator[launches],
            "kind": np.full(int(launches.sum()), RangeKind.OP, np.int64),
        }
        columns = {name: np.concatenate((own[name], around[name])) for name in own}
        return HostRanges.from_columns(
            columns | {"kind": columns["kind"].astype(np.uint8)}, then="kind"
        )

    def memory(self, texts: StringCodes, base: int) -> MemoryEvents:
        """Allocations and frees of XLA's allocator."""
        more = ("allocator_name", "allocation_bytes", "bytes_allocated", "bytes_reserved", "addr")
        rows = self._taken(self.is_memory, base, *more)
        strings = texts.in_order()
        allocators = [
            strings[code] if code >= 0 else "" for code in rows["allocator_name"].tolist()
        ]
        sign = np.where(rows["name"] == texts.code("MemoryDeallocation"), -1, 1)
        columns = {
            "start": rows["start"],
            "device": [_gpu_of(name) for name in allocators],
            "bytes": sign * np.maximum(rows["allocation_bytes"], 0),
            "allocated": rows["bytes_allocated"],
            "reserved": rows["bytes_reserved"],
            "address": rows["addr"],
        }
        return MemoryEvents.from_columns(columns, rows=len(sign))


def _number_steps(name: I64, rows: Columns, texts: StringCodes) -> None:
    """Put the number of each step into its name, of which the file has one for all of them."""
    steps = np.flatnonzero(rows["step_num"] >= 0)
    strings = texts.in_order()
    names = [strings[code][:LONGEST_OPERATOR] for code in rows["name"][steps].tolist()]
    numbered = zip(names, rows["step_num"][steps].tolist(), strict=True)
    name[steps] = [texts.code(f"{text} step_num={number}") for text, number in numbered]


def _gpu_of(allocator: str) -> int:
    """The GPU whose memory an allocator gives; -1 for that of the host."""
    named = _ALLOCATOR.match(allocator)
    return -1 if named is None else int(named[1])


def _shown(name: str) -> str:
    """The name of a host event: versions of entry points and ids of graphs left out, Python
    functions as other recorders name them."""
    if name.startswith("$"):
        frame = _FRAME.match(name)
        return (
            f"{frame[1]}({frame[2]}): {frame[3]}"
            if frame
            else f"<built-in function {name[1:].rpartition(' ')[2]}>"
        )
    return _VERSION.sub("", name) if _API.match(name) else name
