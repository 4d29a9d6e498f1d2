"""The events of a recording as DataFrames: the same names and columns whatever recorded it.

Times are ns on the recording's clock (int64), text is decoded, what was not recorded is missing.
Each frame has the row's number in the recording as its index."""

import enum
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import at
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.export.event_columns import meanings
from traceanalyzer.trace import (
    CopyKind,
    DeviceOpKind,
    MemoryKind,
    OverheadKind,
    RangeKind,
    WaitKind,
)
from traceanalyzer.trace.table import Table

if TYPE_CHECKING:
    import pandas as pd

OWN_IDS = ("collective", "forward_thread", "limits", "record", "context")
"""Columns that only tie rows of one recording to each other; what they tie stands in columns of its
own."""
ENUMS: dict[str, type[enum.IntEnum]] = {
    "copy_kind": CopyKind,
    "source_memory": MemoryKind,
    "target_memory": MemoryKind,
}
EVENTS = (
    "device_ops",
    "api_calls",
    "host_ranges",
    "memory_events",
    "waits",
    "overheads",
    "device_ranges",
)
"""The tables of events."""
MISSING = -1


def event_frame(m: Measurements, table: str) -> "pd.DataFrame":
    """The events of one rank. `device_ops` (kernels, copies, memsets: operator, API call and step
    of each), `api_calls` (which operator calls it, whether it waits for the device), `host_ranges`
    (operators, annotations, Python), `memory_events`, `waits` (CUDA's own synchronisation events),
    `overheads` (of the profiler and the driver), `device_ranges` (annotations on a stream).
    `attrs["definitions"]` has what each column means. Raises KeyError for a table that there is
    not."""
    frame = _events(m, table)
    frame.attrs = {"definitions": meanings(table, list(frame.columns))}
    return frame


def _events(m: Measurements, table: str) -> "pd.DataFrame":
    match table:
        case "device_ops":
            return _device_ops(m)
        case "api_calls":
            return _api_calls(m)
        case "host_ranges":
            return _frame(m, m.trace.host_ranges, RangeKind)
        case "memory_events":
            return _frame(m, m.trace.memory_events, None)
        case "waits":
            return _frame(m, m.trace.waits, WaitKind)
        case "overheads":
            return _frame(m, m.trace.overheads, OverheadKind)
        case "device_ranges":
            return _frame(m, m.trace.device_ranges, None)
    raise KeyError(table)


def _device_ops(m: Measurements) -> "pd.DataFrame":
    ops = m.trace.device_ops
    tree = m.linked.tree
    steps = m.timed.steps
    operator = at(tree.operator, m.joined.launch_node[:], MISSING)
    calls = m.trace.api_calls
    launch = m.linked.launch[:]
    step = np.asarray(steps.of_op[:], np.int64)
    return _frame(
        m,
        ops,
        DeviceOpKind,
        operator=_named(
            m.trace.strings, at(tree.names(np.arange(len(tree.is_call))), operator, MISSING)
        ),
        api_call=_named(m.trace.strings, at(calls.name, launch, MISSING)),
        api_call_id=_number(launch),
        launched_ns=_number(at(calls.start, launch, MISSING)),
        step=_number(
            np.where(step < 0, MISSING, step + steps.first)
            if steps.found
            else np.full(len(step), MISSING)
        ),
        **{"class": _named(m.linked.classes.names, m.linked.op_class[:])},
    )


def _api_calls(m: Measurements) -> "pd.DataFrame":
    tree = m.linked.tree
    operator = at(tree.operator, tree.node_of_call[:], MISSING)
    names = at(tree.names(np.arange(len(tree.is_call))), operator, MISSING)
    more = {
        "operator": _named(m.trace.strings, names),
        "waits": np.asarray(m.joined.blocks[:], bool),
    }
    return _frame(m, m.trace.api_calls, None, **more)


def _frame(
    m: Measurements, table: Table, kinds: type[enum.IntEnum] | None, **more: Any
) -> "pd.DataFrame":
    """The columns of a table that say something by themselves, and what was joined to them."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for f in fields(table):
        values = getattr(table, f.name)
        if f.name in ("start", "end"):
            columns[f"{f.name}_ns"] = np.asarray(values, np.int64)
        elif f.name not in OWN_IDS:
            members = kinds if f.name == "kind" else ENUMS.get(f.name)
            columns[f.name] = _column(m, f, values, members)
        if f.name == "end":
            columns["duration_ns"] = columns["end_ns"] - columns["start_ns"]
    return pd.DataFrame(columns | more)


def _column(
    m: Measurements, f: "Field[Any]", values: Any, members: type[enum.IntEnum] | None
) -> Any:
    if members is not None:
        names = [member.name.lower() for member in members]
        return _named(names, values, [member.value for member in members])
    if f.name == "thread":
        return _named([thread.name or thread.tid for thread in m.trace.threads], values)
    return (
        _named(m.trace.strings, values)
        if f.metadata["text"]
        else _number(values, f.metadata["fill"])
    )


def _number(values: Any, fill: int = MISSING) -> Any:
    """Integers; nullable ones where something may not be recorded, whether or not it was here."""
    import pandas as pd

    column = np.asarray(values, np.int64)
    return pd.arrays.IntegerArray(column, column == fill) if fill < 0 else column


def _named(
    names: Sequence[str],
    codes: NDArray[Any],
    values: Sequence[int] | None = None,
) -> Any:
    """Text by code as a categorical column; of many names only those that occur."""
    import pandas as pd

    distinct, place = np.unique(np.asarray(codes[:], np.int64), return_inverse=True)
    name_of: Callable[[int], str | None] = names.__getitem__
    if values is not None:
        name_of = dict(zip(values, names, strict=True)).get
    texts = [name_of(code) if code >= 0 else None for code in distinct.tolist()]
    categories: list[Any] = list(dict.fromkeys(text for text in texts if text is not None))
    index = {text: i for i, text in enumerate(categories)}
    category_of = np.array([-1 if text is None else index[text] for text in texts], np.int64)
    category_codes: Any = category_of[place]
    return pd.Categorical.from_codes(category_codes, categories=pd.Index(categories, dtype=object))
