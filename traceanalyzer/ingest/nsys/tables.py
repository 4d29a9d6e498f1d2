"""All rows of an nsys export that traces are made of, each with its process, in one order whatever
order its tables have: SQLite promises none."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.columns import recoded
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.about import About, read_about
from traceanalyzer.ingest.nsys.device import device_events, memory_events
from traceanalyzer.ingest.nsys.events import ProcessEvents, Strings
from traceanalyzer.ingest.nsys.host import api_calls, call_ranges, overheads, waits
from traceanalyzer.ingest.nsys.nccl import Payloads, payloads
from traceanalyzer.ingest.nsys.nvtx import nvtx_ranges
from traceanalyzer.ingest.nsys.processes import Owners
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import I32, Table, Trace, narrowed, ordered


def canonical(traces: list[Trace]) -> list[Trace]:
    """The traces of one export with their common strings in alphabetical order, and rows that start
    at the same time in the order of their other columns."""
    strings = traces[0].strings
    order = sorted(range(len(strings)), key=strings.__getitem__)
    code = np.full(len(strings) + 1, -1, np.int32)  # the last one for -1: no text
    code[order] = np.arange(len(strings))
    texts = [strings[i] for i in order]
    for i, trace in enumerate(traces):
        tables: dict[str, Any] = {
            n: _canonical(t, code) for n, t in vars(trace).items() if isinstance(t, Table)
        }
        traces[i] = replace(trace, strings=texts, **tables)
    return traces


def _canonical(table: Table, code: I32) -> Table:
    columns = dict(vars(table))
    for f in (f for f in fields(table) if f.metadata["text"]):
        columns[f.name] = recoded(columns[f.name], narrowed(code) if f.metadata["narrow"] else code)
    result = type(table)(**columns)
    start = columns.pop("start", None)
    if start is None or (start[1:] > start[:-1]).all():
        return result
    return result.take(
        ordered(start, lambda rows: [column[rows] for column in reversed(columns.values())])
    )


@dataclass(frozen=True)
class NsysTables:
    """The rows of an export, or of one of its processes."""

    about: About
    strings: Strings
    tally: Tally
    payloads: Payloads
    ops: ProcessEvents
    calls: ProcessEvents
    nvtx: ProcessEvents
    library_calls: ProcessEvents
    system_calls: ProcessEvents
    waits: ProcessEvents
    overheads: ProcessEvents
    memory: ProcessEvents

    @classmethod
    def read(cls, database: Database, progress: Callable[[float], None]) -> "NsysTables":
        """Read every table once, in bulk. `progress` is called with the share done."""
        tally = Tally()
        strings = Strings(database)
        described = read_about(database)
        ops = device_events(database, strings, tally)
        progress(0.2)
        calls = api_calls(database, strings, tally)
        progress(0.4)
        found = payloads(database) if described.has_payloads else Payloads()
        nvtx = nvtx_ranges(database, strings, tally, with_rows=bool(found.messages))
        progress(0.8)
        owners = Owners(database, ops, calls, nvtx)
        calls = owners.assign(calls, tally, "CUDA API calls")
        library, system = call_ranges(database, strings, tally)
        waited = waits(database, strings, tally, calls, owners, described.schema)
        tables = cls(
            about=described,
            strings=strings,
            tally=tally,
            payloads=found,
            ops=owners.assign(ops, tally, "device operations"),
            calls=calls,
            nvtx=owners.assign(nvtx, tally, "NVTX ranges"),
            library_calls=owners.assign(library, tally, "library calls"),
            system_calls=owners.assign(system, tally, "operating-system calls"),
            waits=owners.assign(waited, tally, "synchronisations"),
            overheads=owners.assign(overheads(database, strings, tally), tally, "overheads"),
            memory=owners.assign(memory_events(database), tally, "memory events"),
        )
        progress(1.0)
        return tables

    def events(self) -> dict[str, ProcessEvents]:
        """All kinds of rows by the name of their field."""
        return {
            name: value for name, value in vars(self).items() if isinstance(value, ProcessEvents)
        }

    def processes(self) -> list[int]:
        """Keys of the processes that did GPU work; without any, of those that called CUDA or have
        ranges."""
        return self.ops.processes or sorted({*self.calls.processes, *self.nvtx.processes})

    def left_out(self) -> int:
        """How many processes have rows, but no trace of their own."""
        return len({key for events in self.events().values() for key in events.processes}) - len(
            self.processes()
        )

    def of(self, process: int) -> "NsysTables":
        """The rows of one process. Where no other process has any they are taken over, and none are
        left here."""
        changed: dict[str, Any] = {
            name: events.of_process(process) for name, events in self.events().items()
        }
        return replace(self, **changed)
