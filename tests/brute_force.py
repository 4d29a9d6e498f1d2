"""Figures of the report computed the slow and obvious way, straight from the raw files.

The tests hold the product against this module, so it shares no code with it: plain `json` and
`sqlite3`, integers of nanoseconds, one sweep over sorted edges with counters. Definitions are the
report contract's.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

KINETO_KINDS = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
}
NSYS_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernel",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "copy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memset",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "graph",
}


@dataclass(frozen=True)
class Op:
    """Something a device did; `kind` is kernel, collective, copy, memset or graph."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class Lane:
    """Which device an op ran on: the rank (nsys: the process) and the ordinal."""

    rank: int | None
    process: int | None
    device: int


@dataclass(frozen=True)
class Figures:
    """`devices[]` of the contract for one device; times in ns."""

    span: int
    busy: int
    idle: int
    compute: int
    communication: int
    exposed_communication: int
    copy: int
    exposed_copy: int
    largest_gap: int
    gaps: int
    kernels: int
    copies: int
    memsets: int

    TIMES = (
        "span",
        "busy",
        "idle",
        "compute",
        "communication",
        "exposed_communication",
        "copy",
        "exposed_copy",
        "largest_gap",
    )
    COUNTS = ("gaps", "kernels", "copies", "memsets")


def kernel_kind(name: str) -> str:
    """The naive rule: a kernel is a collective where its name starts with nccl."""
    return "collective" if name.lower().startswith("nccl") else "kernel"


def read(path: Path) -> dict[Lane, list[Op]]:
    """The device ops of a recording by device; gzipped or not, Kineto or nsys."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return read_nsys(raw) if raw.startswith(b"SQLite format 3") else read_kineto(raw)


def read_kineto(raw: bytes) -> dict[Lane, list[Op]]:
    """Device ops of a Kineto trace. Decimal keeps the digits of the file, so nanoseconds are
    exact."""

    def drop_host_rows(row: dict[str, Any]) -> Any:
        return row if "ph" not in row or str(row.get("cat")).lower() in KINETO_KINDS else None

    trace = json.loads(raw, parse_float=Decimal, object_hook=drop_host_rows)
    rank = trace.get("distributedInfo", {}).get("rank")
    lanes: dict[Lane, list[Op]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event is None or event["ph"] != "X":
            continue
        kind = KINETO_KINDS[event["cat"].lower()]
        if kind == "kernel":
            kind = kernel_kind(event["name"])
        start = Decimal(event["ts"]) * 1000
        end = start + Decimal(event["dur"]) * 1000
        assert start == int(start)
        assert end == int(end)
        lanes[Lane(rank, None, event["args"]["device"])].append(Op(kind, int(start), int(end)))
    return lanes


def read_nsys(raw: bytes) -> dict[Lane, list[Op]]:
    """Device ops of an nsys export, one lane for each process and device."""
    lanes: dict[Lane, list[Op]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        path.write_bytes(raw)
        database = sqlite3.connect(path)
        tables = {
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        strings = dict(database.execute("SELECT id, value FROM StringIds"))
        for table, kind in NSYS_TABLES.items():
            if table not in tables:
                continue
            name = "shortName" if kind == "kernel" else "NULL"
            query = f"SELECT globalPid, deviceId, start, end, {name} FROM {table}"
            for process, device, start, end, name_id in database.execute(query):
                found = kernel_kind(strings[name_id]) if kind == "kernel" else kind
                lanes[Lane(None, process, device)].append(Op(found, start, end))
        database.close()
    return lanes


def figures(ops: list[Op]) -> Figures:
    """`devices[]` of one device."""
    window = (min(op.start for op in ops), max(op.end for op in ops))
    covered, gaps = sweep(ops, window)
    counts = Counter(op.kind for op in ops)
    return Figures(
        span=window[1] - window[0],
        busy=covered["busy"],
        idle=covered["idle"],
        compute=covered["compute"],
        communication=covered["communication"],
        exposed_communication=covered["exposed_communication"],
        copy=covered["copy"],
        exposed_copy=covered["exposed_copy"],
        largest_gap=max((length for _, length in gaps), default=0),
        gaps=len(gaps),
        kernels=counts["kernel"] + counts["collective"],
        copies=counts["copy"],
        memsets=counts["memset"],
    )


def gaps_of(ops: list[Op]) -> list[tuple[int, int]]:
    """Start and length of every stretch of the device's span with no device op, ns."""
    return sweep(ops, (min(op.start for op in ops), max(op.end for op in ops)))[1]


def sweep(ops: list[Op], window: tuple[int, int]) -> tuple[Counter[str], list[tuple[int, int]]]:
    """Walk over the window from edge to edge, keeping count of what runs.

    Returns how long each state lasted (ns), and where each stretch in which nothing ran began and
    its length.
    """
    edges: dict[int, list[tuple[str, int]]] = defaultdict(list)
    edges[window[0]] += ()
    edges[window[1]] += ()
    for op in ops:
        edges[op.start].append((op.kind, 1))
        edges[op.end].append((op.kind, -1))
    running: Counter[str] = Counter()
    lasted: Counter[str] = Counter()
    gaps: list[tuple[int, int]] = []
    gap = 0
    previous = None
    for time in sorted(edges):
        if previous is not None and previous >= window[0] and time <= window[1]:
            states = states_of(running)
            for state in states:
                lasted[state] += time - previous
            if "idle" in states:
                gap += time - previous
            elif gap:
                gaps.append((previous - gap, gap))
                gap = 0
        for kind, change in edges[time]:
            running[kind] += change
        previous = time
    if gap:
        gaps.append((window[1] - gap, gap))
    return lasted, gaps


def states_of(running: Counter[str]) -> list[str]:
    """What the device is doing, given how many ops of each kind are running."""
    compute = running["kernel"] + running["memset"] + running["graph"] > 0
    communication = running["collective"] > 0
    copy = running["copy"] > 0
    states = ["busy"] if compute or communication or copy else ["idle"]
    if compute:
        states.append("compute")
    if communication:
        states.append("communication")
    if communication and not compute:
        states.append("exposed_communication")
    if copy:
        states.append("copy")
    if copy and not compute and not communication:
        states.append("exposed_copy")
    return states


def same_as(report_row: Any, expected: Figures, tolerance_ns: int) -> list[str]:
    """What of a row of the report's `devices` differs from the expected figures."""
    wrong = []
    for field in fields(expected):
        unit = "" if field.name in Figures.COUNTS else "_ms"
        reported = getattr(report_row, field.name + unit)
        wanted = getattr(expected, field.name)
        off = abs(reported - wanted) if not unit else abs(reported * 1e6 - wanted)
        if off > (tolerance_ns if unit else 0):
            wrong.append(
                f"{field.name}: {reported} instead of {wanted if not unit else wanted / 1e6}"
            )
    return wrong
