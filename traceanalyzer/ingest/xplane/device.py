"""What devices did: streams of GPUs, operators of TPUs; how these were launched, as text of one
stat each."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.ingest.columns import StringCodes, by_value
from traceanalyzer.ingest.kineto.names import copy_kind, memory_kind
from traceanalyzer.ingest.side_files import whole
from traceanalyzer.ingest.xplane.space import (
    GRAPH,
    NODE,
    Columns,
    Plane,
    XLine,
    joined_lines,
    operator_codes,
    timed,
)
from traceanalyzer.trace import I64, Bool, CopyKind, Device, DeviceOpKind, DeviceOps
from traceanalyzer.trace.table import distinct, distinct_places

_Read = Callable[[dict[str, str]], dict[str, int]]
_DETAIL = regex(r"\b(\w{1,40}):([\w,.]{1,60})")
_KERNEL = dict.fromkeys(("blocks", "threads", "registers", "shared_bytes", "occupancy"), -1)
_COPY = {"bytes": -1, "source_memory": 0, "target_memory": 0}
"""Columns that details tell, and what they are where there are none."""
_MOST_REGISTERS = 512
"""Of a thread: AMD's have as many, NVIDIA's half. ROCm's recorder has written addresses in their
place."""


_DEVICE = regex(r"/device:(GPU|TPU):(\d{1,4})(?!\d)")


def _columns(
    codes: I64, strings: list[str], read: _Read, columns: dict[str, int]
) -> dict[str, I64]:
    """What the details (codes) tell; each distinct text is read once."""
    known, place = distinct_places(codes)
    details = [strings[code] if code >= 0 else None for code in known.tolist()]
    rows = [{} if text is None else read(dict(_DETAIL.findall(text))) for text in details]
    return {
        name: np.array([row.get(name, none) for row in rows], np.int64)[place]
        for name, none in columns.items()
    }


def _kernel(details: dict[str, str]) -> dict[str, int]:
    registers = whole(details.get("regs"))
    found = {"blocks": _product(details.get("grid")), "threads": _product(details.get("block"))}
    if (
        registers > _MOST_REGISTERS
    ):  # the sizes of shared memory beside it are of the same damaged record
        return found
    shared = [whole(details.get(name)) for name in ("static_shared", "dynamic_shared", "group_mem")]
    known = [size for size in shared if size >= 0]
    return {
        **found,
        "registers": registers or -1,
        "shared_bytes": sum(known) if known else -1,
        "occupancy": whole(details.get("occ_pct", "").partition(".")[0]) or -1,
    }


def _copy(details: dict[str, str]) -> dict[str, int]:
    return {
        "bytes": whole(details.get("size")),
        "source_memory": memory_kind(details.get("kind_src", "")),
        "target_memory": memory_kind(details.get("kind_dst", "")),
    }


def _product(text: str | None) -> int:
    sizes = list(map(whole, (text or "").split(",")))
    size = math.prod(sizes)
    return size if min(sizes) >= 0 and size <= 2**62 else -1


Placed = tuple[int, XLine]  # a line and the number of its device


class DeviceLines(NamedTuple):
    """The lines of all devices."""

    ops: list[Placed]
    ranges: list[Placed]
    left_out: int  # events of lines that only repeat others


def device_lines(planes: tuple[Plane, ...]) -> DeviceLines:
    """The lines of devices in these planes. Lines of operators, modules and steps are work of a TPU; of a GPU they
    are XLA's own analysis of its streams."""
    ops = list[Placed]()
    ranges = list[Placed]()
    left_out = 0
    named = [(_DEVICE.match(plane.name), plane.lines) for plane in planes]
    of_devices = [(found, lines) for found, lines in named if found is not None]
    for found, line in [(found, line) for found, lines in of_devices for line in lines]:
        what = f"{found[1]} {line.name}"
        number = int(found[2])
        if what.startswith("GPU Stream"):
            ops.append((number, line))
        elif what == "TPU XLA Ops":
            innermost = _innermost(line.events["start"], line.events["end"])
            ops.append((number, line.take(innermost)))
        elif what in ("TPU XLA Modules", "TPU Steps"):
            ranges.append((number, line))
        else:
            left_out += len(line)
    return DeviceLines(ops, ranges, left_out)


def device_rows(lines: list[Placed]) -> Columns:
    """The events of the lines, with device and stream."""
    events, line = joined_lines([one for _, one in lines])
    ids = [one.id for _, one in lines]
    streams = [id_ if id_ < 2**31 else i for i, id_ in enumerate(ids)]
    device = np.array([number for number, _ in lines], np.int64)[line]
    return events | {"device": device, "stream": np.array(streams, np.int64)[line]}


def device_ops(rows: Columns, texts: StringCodes, base: int) -> DeviceOps:
    """Kernels, copies and memsets; times count from `base`."""
    strings = texts.in_order()
    copies = rows["memcpy_details"] >= 0
    sets = rows["memset_details"] >= 0
    kind = np.where(
        copies, DeviceOpKind.MEMCPY, np.where(sets, DeviceOpKind.MEMSET, DeviceOpKind.KERNEL)
    )
    directions = by_value(
        rows["name"], lambda code: copy_kind(strings[code]) if code >= 0 else CopyKind.UNKNOWN
    )
    columns = {
        **timed(rows, base),
        "kind": kind.astype(np.uint8),
        "device": rows["device"],
        "stream": rows["stream"],
        "correlation": np.where(rows["correlation_id"] > 0, rows["correlation_id"], -1),
        "graph": np.where(rows[GRAPH] > 0, rows[GRAPH], -1),
        "graph_node": np.where(rows[NODE] > 0, rows[NODE], -1),
        "copy_kind": np.where(copies | sets, directions, 0),
        **_columns(rows["kernel_details"], strings, _kernel, _KERNEL),
        **_columns(
            np.where(copies, rows["memcpy_details"], rows["memset_details"]), strings, _copy, _COPY
        ),
    }
    return DeviceOps.from_columns(columns, then="kind")


def launched_operators(rows: Columns, texts: StringCodes, correlation: I64) -> I64:
    """What launches with these ids belong to (codes): the operator where all rows of the launch
    have the same one (a replayed graph has many), else the module, -1 where that is not one
    either."""
    result = np.full(len(correlation), -1, np.int64)
    launched = rows["correlation_id"] > 0
    ids = rows["correlation_id"][launched]
    for every in operator_codes(rows, texts):
        codes = every[launched]
        order = np.lexsort((codes, ids))
        known, first = np.unique(ids[order], return_index=True)
        if not len(known):
            break
        last = np.append(first[1:], len(order)) - 1
        least = codes[order[first]]
        only = np.where(least == codes[order[last]], least, -1)
        place = np.minimum(np.searchsorted(known, correlation), len(known) - 1)
        is_known = (known[place] == correlation) & (only[place] >= 0)
        result = np.where(is_known, only[place], result)
    return result


def _innermost(start: I64, end: I64) -> Bool:
    """Which events of a line hold no other one: a loop holds the operators that it runs."""
    order = np.lexsort((-end, start))
    following = np.append(start[order][1:], np.iinfo(np.int64).max)
    result = np.empty(len(start), bool)
    result[order] = following >= end[order]
    return result


def xplane_devices(planes: tuple[Plane, ...], ops: DeviceOps) -> tuple[Device, ...]:
    """The devices that did work."""
    named = ((_DEVICE.match(plane.name), plane.stats) for plane in planes)
    stats = {int(match[2]): of_plane for match, of_plane in named if match is not None}
    return tuple(
        _described(number, stats.get(number, {})) for number in distinct(ops.device).tolist()
    )


def _described(number: int, stats: Mapping[str, int | str]) -> Device:
    known = {name: value for name, value in stats.items() if isinstance(value, int) and value > 0}
    name = stats.get("gpu_device_name")
    memory = known.get("memory_size")
    size = Device(
        number,
        name if isinstance(name, str) else None,
        known.get("core_count"),
        memory_bytes=memory,
    )
    # AMD's capabilities share their numbers with NVIDIA's, and its bandwidth is stated at half of
    # what it is.
    if str(stats.get("device_vendor")).upper() != "NVIDIA":
        return size
    return replace(
        size,
        compute_capability=(known.get("compute_cap_major", 0), known.get("compute_cap_minor", 0)),
        bandwidth=float(known["memory_bandwidth"]) if "memory_bandwidth" in known else None,
        clock_hz=known["clock_rate"] * 1e3 if "clock_rate" in known else None,
    )
