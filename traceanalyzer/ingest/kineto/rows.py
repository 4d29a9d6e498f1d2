"""The rows of every table of a Kineto trace, packed chunk by chunk."""

import collections
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.ingest.columns import Codes, Columns, StringCodes, copied
from traceanalyzer.ingest.kineto import arguments
from traceanalyzer.ingest.kineto.arguments import Collective, Occupancies, Operands
from traceanalyzer.ingest.kineto.events import (
    NO_ARGS,
    Args,
    CompleteEvent,
    CounterSample,
    Instant,
    Meta,
    RowGroup,
    group_of,
)
from traceanalyzer.ingest.kineto.names import overhead_kind, wait_kind
from traceanalyzer.ingest.kineto.repair import Decoded
from traceanalyzer.ingest.kineto.times import durations_ns, exact_ns, times_ns
from traceanalyzer.trace import I32, I64, DeviceOpKind, RangeKind, Table, Waits
from traceanalyzer.trace.events import (
    ApiCalls,
    DeviceOps,
    DeviceRanges,
    GpuMetrics,
    HostRanges,
    MemoryEvents,
    Overheads,
)

_DEVICE_KINDS = {
    RowGroup[kind.name]: kind
    for kind in (DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY, DeviceOpKind.MEMSET)
}
_COUNTERS = regex(r"GPU (\d{1,4}) Counters")
_OF_A_GRAPH = b'"Dispatch Task"'
_HOST_KINDS = {
    RowGroup.OP: RangeKind.OP,
    RowGroup.ANNOTATION: RangeKind.ANNOTATION,
    RowGroup.PYTHON: RangeKind.PYTHON,
}
TABLE_OF: dict[RowGroup, type[Table]] = {
    **dict.fromkeys(_DEVICE_KINDS, DeviceOps),
    **dict.fromkeys(_HOST_KINDS, HostRanges),
    RowGroup.API: ApiCalls,
    RowGroup.DEVICE_RANGE: DeviceRanges,
    RowGroup.SYNC: Waits,
    RowGroup.OVERHEAD: Overheads,
}
"""Where events of these groups are rows."""
_NOT_RECORDED = ("copy_kind", "source_memory", "target_memory", "error")
"""Columns that no event states: the names of copies tell the first three."""
_TABLES = (
    DeviceOps,
    ApiCalls,
    HostRanges,
    Waits,
    Overheads,
    DeviceRanges,
    MemoryEvents,
    GpuMetrics,
)
_RECORDED = {
    table: [column for column in fields(table) if column.name not in _NOT_RECORDED]
    for table in _TABLES
}
_LAYOUTS: dict[type[Table], dict[str, str]] = {
    table: {column.name: column.metadata["dtype"].char for column in columns}
    for table, columns in _RECORDED.items()
}
_DIMENSIONS: msgspec.json.Decoder[tuple[int, int, int]] = msgspec.json.Decoder(tuple[int, int, int])
Id = int | str
Spans = list[CompleteEvent[Any]]


class _Sorter(dict[str, "Callable[[Any], None]"]):
    """What adds an event of a category to the list of its group."""

    def __init__(self) -> None:
        self.groups: dict[RowGroup, list[Any]] = {group: [] for group in RowGroup}

    def __missing__(self, category: str) -> Callable[[Any], None]:
        append = self[category] = self.groups[group_of(category)].append
        return append


class _Sizes(dict[bytes, int]):
    """Product of the three dimensions of a grid or block, by their JSON text; -1 for anything
    else."""

    def __missing__(self, text: bytes) -> int:
        try:
            size = math.prod(_DIMENSIONS.decode(text)) if text else -1
        except (msgspec.DecodeError, ValueError):
            size = -1
        self[text] = size
        return size


class KinetoRows:
    """Takes decoded chunks; the columns of each table, its strings, threads and collectives are the
    result. `before`: rows from further to the front of the same file; strings, threads and
    collectives are these, and more."""

    def __init__(self, before: "KinetoRows | None" = None) -> None:
        self.texts: StringCodes = before.texts if before else StringCodes()
        self.threads: Codes[tuple[Id, Id]] = before.threads if before else Codes()
        self.collectives: Codes[Collective] = before.collectives if before else Codes()
        self.known = (
            len(self.texts),
            len(self.threads),
            len(self.collectives),
        )  # how many of each are from before
        self.tables = {
            kind: Columns(layout) for kind, layout in _LAYOUTS.items()
        }  # by what they become
        self._operands: Operands = before._operands if before else Operands(self.texts)
        self._sizes: _Sizes = before._sizes if before else _Sizes()
        self._occupancies: Occupancies = before._occupancies if before else Occupancies()
        self.window: tuple[int, int] | None = None
        self.window_end = 0  # time of the marker at the end of the recording, 0 if there is none
        self.names: dict[tuple[str, Id, Id], str] = {}
        """Text of the metadata rows by (`process_name` or `thread_name`, pid, tid)."""
        self.events = self.skipped = self.repaired = self.lost = self.memory_events = 0
        self.counts = collections.Counter(dict.fromkeys(RowGroup, 0))
        self._sorter = _Sorter()
        self._sinks: dict[RowGroup, Callable[[Spans, RowGroup], None]] = {
            **dict.fromkeys(_DEVICE_KINDS, self._add_device),
            **dict.fromkeys(_HOST_KINDS, self._add_host),
            RowGroup.API: self._add_api,
            RowGroup.DEVICE_RANGE: self._add_device_ranges,
            RowGroup.SYNC: self._add_waits,
            RowGroup.OVERHEAD: self._add_overheads,
            RowGroup.SPAN: self._add_recorder_span,
        }

    @property
    def kept(self) -> int:
        """Rows of host or device activity."""
        return sum(self.counts[group] for group in (*_DEVICE_KINDS, *_HOST_KINDS, RowGroup.API))

    @property
    def mended(self) -> int:
        """Values that did not fit their columns."""
        return sum(columns.mended for columns in self.tables.values())

    def add(self, chunk: Decoded) -> None:
        """Take the events of one chunk."""
        self.events += len(chunk.events)
        self.repaired += chunk.repaired
        self.lost += chunk.lost
        sorter = self._sorter
        for event in chunk.events:
            sorter[event.cat](event)
        for group, found in sorter.groups.items():
            if not found:
                continue
            self.counts[group] += len(found)
            if group in self._sinks:
                self._sinks[group](self._with_time(found), group)
            elif group is RowGroup.META:
                self._add_metadata(found)
            elif group is RowGroup.INSTANT:
                self._add_instants(found)
            elif group is RowGroup.COUNTER:
                self._add_counters(found)
            else:
                self.skipped += len(found)
            found.clear()

    def _add_counters(self, found: list[CounterSample[Any]]) -> None:
        """Samples of hardware counters; other counters (the viewer's) are left out."""
        kept = self._with_time([c for c in found if arguments.counter_value(c) is not None])
        self.skipped += len(found) - len(kept)
        self.tables[GpuMetrics].append(
            {
                "name": self.texts.codes([c.name for c in kept]),
                "start": self._starts if kept else [],
                "device": [_gpu_of(counter) for counter in kept],
                "value": [round(arguments.counter_value(c) or 0.0) for c in kept],
            }
        )

    def _with_time(self, found: list[Any]) -> list[Any]:
        """The events whose `ts` is a time, which nearly always are all; the others are lost."""
        try:
            self._starts = times_ns([event.ts for event in found])
        except (ValueError, TypeError):
            kept = [event for event in found if _is_time(event.ts)]
            self.lost += len(found) - len(kept)
            self.events -= len(found) - len(kept)
            self._starts = times_ns([event.ts for event in kept])
            return kept
        return found

    def _times(self, spans: Spans) -> dict[str, I64]:
        durations, mended = durations_ns([span.dur for span in spans])
        self.repaired += mended
        return {"start": self._starts, "end": self._starts + durations}

    def _named_times(self, spans: Spans) -> dict[str, Any]:
        return {"name": self.texts.codes([span.name for span in spans]), **self._times(spans)}

    def _thread_codes(self, spans: Spans) -> list[int]:
        ids = zip([span.pid for span in spans], [span.tid for span in spans], strict=True)
        return list(map(self.threads.__getitem__, ids))

    def _add_device(self, spans: Spans, group: RowGroup) -> None:
        args = [span.args or NO_ARGS for span in spans]
        occupancy = [self._occupancies[text] for text in copied([a.occupancy_limits for a in args])]
        self.tables[DeviceOps].append(
            self._named_times(spans)
            | _device(spans, args)
            | _as_they_stand(args, ("context", "correlation", "bytes", "registers", "shared_bytes"))
            | {
                "kind": np.full(len(spans), _DEVICE_KINDS[group], np.uint8),
                "external_id": [
                    a.external_id if a.external_id >= 0 else a.old_external_id for a in args
                ],
                # of a node of a graph whose id is not recorded: 0
                "graph": [
                    a.graph if a.graph > 0 else 0 if bytes(a.kind) == _OF_A_GRAPH else -1
                    for a in args
                ],
                "graph_node": [a.graph_node if a.graph_node > 0 else -1 for a in args],
                "annotation": self._annotations(args),
                "collective": self._collective_codes(args),
                "blocks": list(map(self._sizes.__getitem__, copied([a.grid for a in args]))),
                "threads": list(map(self._sizes.__getitem__, copied([a.block for a in args]))),
                "occupancy": [int(a.occupancy) for a in args],
                "resident_blocks": [one.blocks for one in occupancy],
                "limits": [one.limits for one in occupancy],
            }
        )

    def _annotations(self, args: list[Args]) -> I32 | list[int]:
        """The codes of what the program said of nodes of CUDA graphs."""
        if not any(a.module or a.region or a.annotation for a in args):
            return np.full(len(args), -1, np.int32)
        texts = [arguments.annotation(a) for a in args]
        return [self.texts.code(text) if text else -1 for text in texts]

    def _add_api(self, spans: Spans, _: RowGroup) -> None:
        correlation = [-1 if span.args is None else span.args.correlation for span in spans]
        where = {"thread": self._thread_codes(spans), "correlation": correlation}
        kernels = {"kernel": self._launched_kernels(spans)}
        self.tables[ApiCalls].append(self._named_times(spans) | where | kernels)

    def _launched_kernels(self, spans: Spans) -> I32 | list[int]:
        """The codes of the kernels' names that AMD's launches state."""
        named = [b"" if span.args is None else bytes(span.args.kernel) for span in spans]
        if not any(named):
            return np.full(len(spans), -1, np.int32)
        return [self.texts.code(arguments.json_text(name)) if name else -1 for name in named]

    def _add_host(self, spans: Spans, group: RowGroup) -> None:
        args = [span.args or NO_ARGS for span in spans]
        launches = [
            arguments.launch_options(a) if a.warps or a.kernel_options else "" for a in args
        ]
        self.tables[HostRanges].append(
            self._named_times(spans)
            | self._operands.codes(args)
            | _as_they_stand(args, ("sequence", "forward_thread"))
            | {
                "kind": np.full(len(spans), _HOST_KINDS[group], np.uint8),
                "thread": self._thread_codes(spans),
                "external_id": [
                    a.external_id if a.external_id >= 0 else a.old_external_id for a in args
                ],
                "launch": [self.texts.code(text) if text else -1 for text in launches],
                "collective": self._collective_codes(args),
            }
        )

    def _add_waits(self, spans: Spans, _: RowGroup) -> None:
        kinds = [wait_kind((span.args and span.args.sync_kind) or span.name) for span in spans]
        args = [span.args or NO_ARGS for span in spans]
        self.tables[Waits].append(
            self._times(spans)
            | {"kind": kinds, "device": _device(spans, args)["device"]}
            | _as_they_stand(
                args, ("context", "stream", "correlation", "event", "source_stream", "record")
            )
        )

    def _add_overheads(self, spans: Spans, _: RowGroup) -> None:
        kinds = [overhead_kind(span.name) for span in spans]
        self.tables[Overheads].append(
            self._named_times(spans) | {"kind": kinds, "thread": self._thread_codes(spans)}
        )

    def _add_device_ranges(self, spans: Spans, _: RowGroup) -> None:
        args = [span.args or NO_ARGS for span in spans]
        self.tables[DeviceRanges].append(self._named_times(spans) | _device(spans, args))

    def _add_recorder_span(self, spans: Spans, _: RowGroup) -> None:
        times = self._times(spans)
        self.skipped += len(spans)
        for span, start, end in zip(spans, times["start"], times["end"], strict=True):
            if span.name.startswith("PyTorch Profiler"):
                self.window = (int(start), int(end))

    def _add_metadata(self, rows: list[Meta]) -> None:
        self.skipped += len(rows)
        for row in rows:
            if row.args is not None and row.args.name:
                name = arguments.json_text(bytes(row.args.name))
                self.names[row.name, row.pid, row.tid] = name

    def _add_instants(self, instants: list[Instant[Any]]) -> None:
        found = [event for event in instants if event.args is not None and event.name == "[memory]"]
        self.skipped += len(instants) - len(found)
        ended = [event.ts for event in instants if event.name == "Record Window End"]
        ends = [int(times_ns([time])[0]) for time in filter(_is_time, ended)]
        self.window_end = max([self.window_end, *ends])
        if found:
            self._add_memory(self._with_time(found))

    def _add_memory(self, found: list[Instant[Any]]) -> None:
        args = [event.args for event in found if event.args is not None]
        addresses = [a.address for a in args]
        self.memory_events += len(args)
        self.tables[MemoryEvents].append(
            _as_they_stand(args, ("bytes", "allocated", "reserved"))
            | {
                "start": self._starts,
                "device": [
                    a.device if a.device_type else -1 for a in args
                ],  # c10::DeviceType::CPU is 0
                "address": [
                    i if isinstance(i, int) and 0 <= i <= sys.maxsize else -1 for i in addresses
                ],
            }
        )

    def _collective_codes(self, args: list[Args]) -> list[int]:
        return [
            self.collectives[arguments.collective_of(a, self.texts)] if a.collective else -1
            for a in args
        ]


def _as_they_stand(args: list[Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: list(map(attrgetter(name), args)) for name in names}


def _device(spans: Spans, args: list[Args]) -> dict[str, list[int]]:
    """Device and stream of device rows; where `args` do not say the device, it is the row's
    process. Of streams that are numbered by their addresses (ROCm) 31 bits tell them apart."""
    where = zip([span.pid for span in spans], args, strict=True)
    return {
        "device": [pid if a.device < 0 and isinstance(pid, int) else a.device for pid, a in where],
        "stream": [a.stream if a.stream < 2**31 else a.stream >> 4 & 2**31 - 1 for a in args],
    }


def _gpu_of(counter: CounterSample[Any]) -> int:
    """The GPU that a sample is of, by its row's process; -1 where that names none."""
    named = _COUNTERS.match(str(counter.pid))
    return -1 if named is None else int(named[1])


def _is_time(text: Any) -> bool:
    if isinstance(text, float):
        return True
    try:
        exact_ns(bytes(text))
    except ValueError:
        return False
    return True
