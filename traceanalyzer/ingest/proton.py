"""Proton's trees (`.hatchet`, JSON or msgpack): sums of a run's kernels by name, with work where
the program states it.

A tree has no single events. Trees and Chrome traces that count cycles are refused: a cycle is no
time."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.base import NS_PER_MS, EmptyRecordingError, UnreadableInputError, regex
from traceanalyzer.ingest.side_files import NOT_JSON, is_number, items, mapping, mappings, whole
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace import Device, Health, ProfilerRow, Trace

_MSGPACK = b"\x92"  # an array of two: the tree, and the devices
_FRAME = regex(rb'"frame"\s*:\s*\{|\xa5frame')
_METRICS = regex(rb'"metrics"\s*:|\xa7metrics')
_CYCLES = b"[measure in clock cycle"
_FLOPS = regex(r"flops(8|16|32|64)?")
_MOST = 1e27  # of a year of the fastest GPUs
_RECORD = 'profile with proton.start(..., data="tree") and its default backend'


@dataclass
class _Sums:
    time_ns: float = 0.0
    calls: float = 0.0
    flops: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By the width of the type, in bits; "" where that is not stated."""
    bytes: float = 0.0

    def add_work(self, metrics: dict[str, Any]) -> None:
        """Add what a node states of operations and bytes."""
        self.bytes += _figure(metrics.get("bytes"))
        for name, value in metrics.items():
            width = _FLOPS.fullmatch(name)
            if width and _figure(value):
                self.flops[width[1] or ""] += _figure(value)


@dataclass
class _Node:
    name: str
    metrics: dict[str, Any]
    above: "_Node | None"
    kernel: tuple[str, int] | None = None  # that it has below it, where there is but one
    has_several: bool = False  # kernels below it

    def add(self, kernel: tuple[str, int]) -> bool:
        """Note a kernel below it; whether that is news to what is above it."""
        if self.has_several or self.kernel == kernel:
            return False
        self.has_several = self.kernel is not None
        self.kernel = self.kernel or kernel
        return True


def recognise(head: bytes, path: Path) -> bool:
    """Whether the file is one of Proton's. `head`: its first bytes, decompressed."""
    text = head.lstrip(b" \t\r\n")
    tree = (
        text[:1] in (b"[", _MSGPACK)
        and _FRAME.search(head) is not None
        and _METRICS.search(head) is not None
    )
    return tree or _CYCLES in head


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but sums. Raises UnreadableInputError, EmptyRecordingError."""
    with open_stream(path, progress) as stream:
        parts = _parts(path, b"".join(stream))
    nodes = list(chain.from_iterable(_nodes(part) for part in parts if "frame" in part))
    sums = _sums(nodes)
    if not sums:
        raise EmptyRecordingError(
            f"{path}: the tree holds no times of kernels ({_held(nodes)}); {_RECORD}"
        )
    rows = tuple(
        ProfilerRow(
            name,
            calls=of.calls,
            self_device_ms=of.time_ns / NS_PER_MS,
            device=None if device < 0 else device,
            flops=of.flops,
            bytes=of.bytes or None,
        )
        for (name, device), of in sums.items()
    )
    devices = tuple(device for part in parts if "frame" not in part for device in _devices(part))
    return [
        Trace(
            str(path),
            "proton",
            [],
            devices=devices,
            profiler_rows=rows,
            health=Health(events=len(nodes)),
        )
    ]


def _held(nodes: list[_Node]) -> str:
    units = sorted(
        {name for node in nodes for name, value in node.metrics.items() if _figure(value)}
    )[:6]
    return f"it counts {', '.join(units)}" if units else "it is empty"


def _parts(path: Path, text: bytes) -> list[dict[str, Any]]:
    """The trees and the table of devices in the text. Raises UnreadableInputError."""
    if _CYCLES in text and not _FRAME.search(text):
        raise UnreadableInputError(
            f"{path}: a trace of Proton's that counts clock cycles within kernels: no "
            f"times of kernels; {_RECORD}"
        )
    try:
        decode = msgspec.msgpack.decode if text[:1] == _MSGPACK else msgspec.json.decode
        parts = msgspec.to_builtins(decode(text), str_keys=True)
    except (*NOT_JSON, TypeError) as error:  # msgpack allows any keys
        raise UnreadableInputError(
            f"{path}: a tree of Proton's that is cut off or damaged; write it again"
        ) from error
    return mappings(parts)


def _nodes(tree: dict[str, Any]) -> Iterator[_Node]:
    """The nodes of a tree, each after the one above it; what is no node is left out."""
    waiting: list[tuple[Any, _Node | None]] = [(tree, None)]
    while waiting:
        raw, above = waiting.pop()
        if not isinstance(raw, dict):
            continue
        name = mapping(raw.get("frame")).get("name")
        node = _Node(str(name or "unnamed kernel"), mapping(raw.get("metrics")), above)
        yield node
        waiting += [(child, node) for child in items(raw.get("children"))]


def _sums(nodes: list[_Node]) -> dict[tuple[str, int], _Sums]:
    """Sums by kernel and device. Work that is stated of a scope alone is that of its kernel, where
    it has but one."""
    sums: dict[tuple[str, int], _Sums] = {}
    scopes = []
    for node in nodes:
        time = _figure(node.metrics.get("time (ns)"))
        if not time:
            scopes.append(node)
            continue
        key = node.name, whole(str(node.metrics.get("device_id", "")), 4)
        sums_of_key = sums.setdefault(key, _Sums())
        sums_of_key.time_ns += time
        sums_of_key.calls += _figure(node.metrics.get("count"))
        sums_of_key.add_work(node.metrics)
        above = node.above
        while above is not None and above.add(key):
            above = above.above
    without = {key for key, of in sums.items() if not (of.flops or of.bytes)}
    for node in scopes:
        kernel = node.kernel
        if kernel is not None and kernel in without and not node.has_several:
            sums[kernel].add_work(node.metrics)
    return sums


def _figure(value: object) -> float:
    """A figure above zero; 0 for anything else."""
    return float(value) if is_number(value, _MOST) and value > 0 else 0.0


def _devices(kinds: dict[str, Any]) -> Iterator[Device]:
    """The GPUs, by kind (`CUDA`, `HIP`) and number. Clocks are in kHz; memory transfers twice a
    cycle."""
    for devices in kinds.values():
        for number, about in mapping(devices).items():
            if not isinstance(about, dict) or not re.fullmatch(r"\d{1,4}", number):
                continue
            yield _device(int(number), about)


def _device(number: int, about: dict[str, Any]) -> Device:
    figures = {name: _figure(value) for name, value in about.items()}
    arch = str(about.get("arch", ""))
    is_number = re.fullmatch(r"\d{2,3}", arch)
    memory_hz = figures.get("memory_clock_rate", 0.0) * 1e3
    return Device(
        number,
        sm_count=int(figures.get("num_sms", 0.0)) or None,
        compute_capability=(int(arch[:-1]), int(arch[-1])) if is_number else None,
        bandwidth=2 * memory_hz * figures.get("bus_width", 0.0) / 8 or None,
        clock_hz=figures.get("clock_rate", 0.0) * 1e3 or None,
    )
