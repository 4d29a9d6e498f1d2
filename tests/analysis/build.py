"""Traces written out by hand: a few rows of (name, start, end, ...) in microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.trace import (
    ApiCalls,
    Collected,
    DeviceOpKind,
    DeviceOps,
    HostRanges,
    OverheadKind,
    Overheads,
    RangeKind,
    Thread,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

US = 1000


class TraceBuilder:
    """Collects rows, then `build()` makes the trace. Times are microseconds; extra columns go by
    name."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {
            "op": [],
            "call": [],
            "range": [],
            "overhead": [],
        }

    def code(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _add(self, table: str, name: str, start: float, end: float, **columns: Any) -> TraceBuilder:
        row = {
            "name": self.code(name),
            "start": round(start * US),
            "end": round(end * US),
            **columns,
        }
        self.rows[table].append(row)
        return self

    def kernel(
        self, name: str, start: float, end: float, correlation: int = -1, **columns: Any
    ) -> TraceBuilder:
        kind = columns.pop("kind", DeviceOpKind.KERNEL)
        return self._add(
            "op", name, start, end, correlation=correlation, kind=kind, **({"device": 0} | columns)
        )

    def call(
        self,
        name: str,
        start: float,
        end: float,
        correlation: int = -1,
        thread: int = 0,
        kernel: str | None = None,
    ) -> TraceBuilder:
        launched = {} if kernel is None else {"kernel": self.code(kernel)}
        return self._add(
            "call", name, start, end, correlation=correlation, thread=thread, **launched
        )

    def op(
        self, name: str, start: float, end: float, thread: int = 0, **columns: Any
    ) -> TraceBuilder:
        if "shapes" in columns:
            columns["shapes"] = self.code(columns["shapes"])
        return self._add(
            "range", name, start, end, thread=thread, **({"kind": RangeKind.OP} | columns)
        )

    def annotation(self, name: str, start: float, end: float, thread: int = 0) -> TraceBuilder:
        return self.op(name, start, end, thread, kind=RangeKind.ANNOTATION)

    def python(self, name: str, start: float, end: float, thread: int = 0) -> TraceBuilder:
        return self.op(name, start, end, thread, kind=RangeKind.PYTHON)

    def overhead(self, kind: OverheadKind, start: float, end: float) -> TraceBuilder:
        return self._add("overhead", kind.name, start, end, kind=kind)

    def build(self, **fields: Any) -> Trace:
        threads = 1 + max((r.get("thread", 0) for t in self.rows.values() for r in t), default=0)
        kinds = {r["kind"] for r in self.rows["range"]}
        collected = Collected(
            device=bool(self.rows["op"]),
            api=bool(self.rows["call"]),
            ops=RangeKind.OP in kinds,
            stacks=RangeKind.PYTHON in kinds,
        )
        return Trace(
            "built by hand",
            "kineto",
            list(self.strings),
            threads=tuple(Thread(str(i)) for i in range(threads)),
            device_ops=_table(DeviceOps, self.rows["op"]),
            api_calls=_table(ApiCalls, self.rows["call"]),
            host_ranges=_table(HostRanges, self.rows["range"]),
            overheads=_table(Overheads, self.rows["overhead"]),
            collected=collected,
            **fields,
        )


def _table(cls: Any, rows: Iterable[dict[str, Any]]) -> Any:
    rows = list(rows)
    names = {name for row in rows for name in row}
    defaults = {name: column.metadata["fill"] for name, column in cls.__dataclass_fields__.items()}
    return cls.from_columns(
        {n: [row.get(n, defaults[n]) for row in rows] for n in names}, rows=len(rows)
    )
