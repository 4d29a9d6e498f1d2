"""What devices did: streams of GPUs, operators of TPUs; how these were launched, as text of one stat each."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.columns import Texts, by_value
from traceanalyzer.ingest.kineto.names import copy_kind, memory_kind
from traceanalyzer.ingest.side_files import whole
from traceanalyzer.ingest.xplane.space import GRAPH, NODE, Columns, Line, Plane, joined_lines, operators, timed
from traceanalyzer.trace import I64, Bool, CopyKind, Device, DeviceOpKind, DeviceOps, DeviceRanges
from traceanalyzer.trace.table import distinct, ranked

_Read = Callable[[dict[str, str]], dict[str, int]]
_DETAIL = re.compile(r"\b(\w{1,40}):([\w,.]{1,60})")
MOST_REGISTERS = 512
"""Of a thread: AMD's have as many, NVIDIA's half. ROCm's recorder has written addresses in their place."""
MOST_BLOCKS = 2**62


def kernel_columns(codes: I64, strings: list[str]) -> dict[str, I64]:
    """Launch configuration from `kernel_details` (codes); -1 where it is not recorded."""
    return _columns(codes, strings, _kernel, ("blocks", "threads", "registers", "shared_bytes", "occupancy"), -1)


def copy_columns(codes: I64, names: I64, strings: list[str]) -> dict[str, I64]:
    """Size and ends from `memcpy_details` or `memset_details` (codes); the direction from the names of the copies."""
    columns = _columns(codes, strings, _copy, ("bytes", "source_memory", "target_memory"), 0)
    columns["bytes"] = np.where(codes < 0, -1, columns["bytes"])
    kinds = by_value(names, lambda code: copy_kind(strings[code]) if code >= 0 else CopyKind.UNKNOWN)
    columns["copy_kind"] = np.where(codes < 0, 0, kinds)
    return columns


def _columns(codes: I64, strings: list[str], read: _Read, names: tuple[str, ...], fill: int) -> dict[str, I64]:
    """A column a name; each distinct text is read once."""
    known, place = ranked(codes)
    rows = [read(dict(_DETAIL.findall(strings[code]))) if code >= 0 else {} for code in known.tolist()]
    return {name: np.array([row.get(name, fill) for row in rows], np.int64)[place] for name in names}


def _kernel(details: dict[str, str]) -> dict[str, int]:
    registers = whole(details.get("regs"))
    found = {"blocks": _product(details.get("grid")), "threads": _product(details.get("block"))}
    if registers > MOST_REGISTERS:  # the sizes of shared memory beside it are of the same damaged record
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
    return size if min(sizes) >= 0 and size <= MOST_BLOCKS else -1


DEVICE = re.compile(r"/device:(GPU|TPU):(\d{1,4})(?!\d)")
STREAM = "Stream"
TPU_OPS, TPU_RANGES = "XLA Ops", (("TPU", "XLA Modules"), ("TPU", "Steps"))
"""Lines of a TPU; of a GPU such lines are XLA's own analysis of its streams, and no work beside it."""
LARGEST_ID = 2**31 - 1

Placed = tuple[int, Line]
"""A line and the number of its device."""


@dataclass(frozen=True, eq=False)
class DeviceLines:
    """The lines of all devices."""

    ops: list[Placed]
    ranges: list[Placed]
    left_out: int
    """Events of lines that only repeat others."""

    @classmethod
    def of(cls, planes: tuple[Plane, ...]) -> "DeviceLines":
        """Those of the planes."""
        ops, ranges, left_out = list[Placed](), list[Placed](), 0
        placed = [
            (found[1], int(found[2]), line)
            for plane in planes
            if (found := DEVICE.match(plane.name))
            for line in plane.lines
        ]
        for kind, number, line in placed:
            if kind == "GPU" and line.name.startswith(STREAM):
                ops.append((number, line))
            elif (kind, line.name) == ("TPU", TPU_OPS):
                ops.append((number, line.take(_innermost(line.events["start"], line.events["end"]))))
            elif (kind, line.name) in TPU_RANGES:
                ranges.append((number, line))
            else:
                left_out += len(line)
        return cls(ops, ranges, left_out)


def rows_of(lines: list[Placed]) -> Columns:
    """The events of the lines, with device and stream."""
    events, line = joined_lines([one for _, one in lines])
    streams = [one.id if one.id <= LARGEST_ID else i for i, (_, one) in enumerate(lines)]
    device = np.array([number for number, _ in lines], np.int64)[line]
    return events | {"device": device, "stream": np.array(streams, np.int64)[line]}


def device_ops(rows: Columns, texts: Texts, base: int) -> DeviceOps:
    """Kernels, copies and memsets; times count from `base`."""
    strings = texts.in_order()
    copies, sets = rows["memcpy_details"] >= 0, rows["memset_details"] >= 0
    kind = np.where(copies, DeviceOpKind.MEMCPY, np.where(sets, DeviceOpKind.MEMSET, DeviceOpKind.KERNEL))
    columns = {
        **timed(rows, base),
        "kind": kind.astype(np.uint8),
        "device": rows["device"],
        "stream": rows["stream"],
        "correlation": np.where(rows["correlation_id"] > 0, rows["correlation_id"], -1),
        "graph": np.where(rows[GRAPH] > 0, rows[GRAPH], -1),
        "graph_node": np.where(rows[NODE] > 0, rows[NODE], -1),
        **kernel_columns(rows["kernel_details"], strings),
        **copy_columns(np.where(copies, rows["memcpy_details"], rows["memset_details"]), rows["name"], strings),
    }
    return DeviceOps.from_columns(columns, then="kind")


def device_ranges(rows: Columns, base: int) -> DeviceRanges:
    """Modules and steps of a TPU."""
    return DeviceRanges.from_columns(timed(rows, base) | {"device": rows["device"], "stream": rows["stream"]})


def operators_of(rows: Columns, texts: Texts, correlation: I64) -> I64:
    """What launches with these ids belong to (codes): the operator where all rows of the launch have the same one (a
    replayed graph has many), else the module, -1 where that is not one either."""
    result = np.full(len(correlation), -1, np.int64)
    here = rows["correlation_id"] > 0
    ids = rows["correlation_id"][here]
    for every in operators(rows, texts):
        codes = every[here]
        order = np.lexsort((codes, ids))
        known, first = np.unique(ids[order], return_index=True)
        if not len(known):
            break
        last = np.append(first[1:], len(order)) - 1
        one = np.where(codes[order[first]] == codes[order[last]], codes[order[first]], -1)
        place = np.minimum(np.searchsorted(known, correlation), len(known) - 1)
        result = np.where((known[place] == correlation) & (one[place] >= 0), one[place], result)
    return result


def _innermost(start: I64, end: I64) -> Bool:
    """Which events of a line hold no other one: a loop holds the operators that it runs."""
    order = np.lexsort((-end, start))
    following = np.append(start[order][1:], np.iinfo(np.int64).max)
    result = np.empty(len(start), bool)
    result[order] = following >= end[order]
    return result


def devices(planes: tuple[Plane, ...], ops: DeviceOps) -> tuple[Device, ...]:
    """The devices that did work."""
    found = {int(match[2]): plane for plane in planes if (match := DEVICE.match(plane.name))}
    return tuple(_described(number, found.get(number)) for number in distinct(ops.device).tolist())


def _described(number: int, plane: Plane | None) -> Device:
    stats = {} if plane is None else plane.stats
    known = {name: value for name, value in stats.items() if isinstance(value, int) and value > 0}
    name = stats.get("gpu_device_name")
    size = Device(
        number,
        name if isinstance(name, str) else None,
        sm_count=known.get("core_count"),
        memory_bytes=known.get("memory_size"),
    )
    # AMD's capabilities share their numbers with NVIDIA's, and its bandwidth is stated at half of what it is.
    if str(stats.get("device_vendor")).upper() != "NVIDIA":
        return size
    bandwidth, clock_khz = known.get("memory_bandwidth"), known.get("clock_rate")
    return replace(
        size,
        compute_capability=(known.get("compute_cap_major", 0), known.get("compute_cap_minor", 0)),
        bandwidth=None if bandwidth is None else float(bandwidth),
        clock_hz=None if clock_khz is None else clock_khz * 1e3,
    )
