"""A recording of JAX as a trace: its planes become devices and host of one process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from traceanalyzer.base import EmptyRecordingError, UnreadableInputError, regex
from traceanalyzer.ingest.columns import StringCodes
from traceanalyzer.ingest.foreign import is_converted
from traceanalyzer.ingest.protobuf.wire import BYTES, fields_before_damage
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.ingest.xplane.chrome import read_chrome
from traceanalyzer.ingest.xplane.device import (
    DeviceLines,
    device_lines,
    device_ops,
    device_rows,
    xplane_devices,
)
from traceanalyzer.ingest.xplane.host import Host
from traceanalyzer.ingest.xplane.proto import PLANE, PLANE_NAME, PLANE_STAT, read_space
from traceanalyzer.ingest.xplane.space import Space, XLine, timed
from traceanalyzer.trace import (
    Collected,
    Condition,
    DeviceRanges,
    Health,
    Process,
    RangeKind,
    Thread,
    Trace,
)

MOST_EVENTS = 1_000_000  # the profiler keeps no more of the host, nor of the devices


SUFFIX = ".xplane.pb"
EXACT_NOTE = (
    f"Times in this JSON are rounded, and it says less: the {SUFFIX} of the same profile is exact."
)
HEAD = bytes((PLANE << 3 | BYTES,))
_PLANES = regex(rb"[/#]|Task Environment")
_PROCESS = regex(rb'"/(?:host:CPU|device:[GT]PU:)')


def xplane_trace(path: str, space: Space, texts: StringCodes) -> Trace:
    """The trace of a recording."""
    lines = device_lines(space.planes)
    on_host = [plane for plane in space.planes if plane.name.startswith("/host:")]
    host_lines = [line for plane in on_host for line in plane.lines]
    start = space.time("profile_start_time")
    on_device = [line for _, line in (*lines.ops, *lines.ranges)]
    base = start if _first(on_device + host_lines) >= start else 0
    rows = device_rows(lines.ops)
    host = Host.of(host_lines, rows, texts)
    ops = device_ops(rows, texts, base)
    memory = host.memory(texts, base)
    calls = host.calls(base)
    ranges = host.ranges(base)
    return Trace(
        path=path,
        source="xplane",
        strings=texts.all(),
        process=Process(pid=space.stat("process_id"), host=space.host),
        threads=tuple(Thread(str(line.id), line.name) for line in host_lines),
        devices=xplane_devices(space.planes, ops),
        device_ops=ops,
        api_calls=calls,
        host_ranges=ranges,
        device_ranges=_device_ranges(lines, base),
        memory_events=memory,
        conditions=_versions(space),
        collected=Collected(
            device=len(ops) > 0,
            api=len(calls) > 0,
            ops=bool((ranges.kind == RangeKind.OP).any()),
            stacks=bool((ranges.kind == RangeKind.PYTHON).any()),
            memory=len(memory) > 0,
        ),
        health=_health(space, host, lines),
        epoch_ns=start,
        window=_window(space),
    )


def _device_ranges(lines: DeviceLines, base: int) -> DeviceRanges:
    """Modules and steps on the devices."""
    rows = device_rows(lines.ranges)
    places = {name: rows[name] for name in ("device", "stream")}
    return DeviceRanges.from_columns(timed(rows, base) | places)


def _window(space: Space) -> tuple[int, int] | None:
    """The time that was recorded; None where the recording does not say."""
    start = space.time("profile_start_time")
    stop = space.time("profile_stop_time")
    return (0, stop - start) if stop > start > 0 else None


def _first(lines: list[XLine]) -> int:  # in old recordings times count from the epoch
    starts = [line.events["start"] for line in lines if len(line)]
    return min((int(start.min()) for start in starts), default=-1)


def _versions(space: Space) -> tuple[Condition, ...]:
    stats = {name: value for plane in space.planes for name, value in plane.stats.items()}
    names = (
        name
        for name in ("jax_version", "jaxlib_version", "cuda_version", "rocm_version")
        if name in stats
    )
    return tuple(Condition(name.replace("_", " "), str(stats[name])) for name in names)


def _health(space: Space, host: Host, lines: DeviceLines) -> Health:
    read = sum(len(line) for _, line in (*lines.ops, *lines.ranges))
    on_device = read + lines.left_out
    on_host = len(host.is_range)
    notes = (
        space.truncated and "The file is cut off or damaged: what follows is missing.",
        space.lost and f"{space.lost:,} events were damaged and are missing from all figures.",
        max(on_device, on_host) >= MOST_EVENTS
        and (
            f"The profiler stops at {MOST_EVENTS:,} events: what happened after is missing. "
            "Record fewer steps."
        ),
        lines.left_out
        and (
            f"{lines.left_out:,} rows on devices repeat others (XLA's own analysis) and are "
            "left out."
        ),
        *(f"The recorder reports: {text}" for text in space.messages),
    )
    unused = int((~(host.is_call | host.is_memory | host.is_range)).sum())
    return Health(
        events=on_device + on_host,
        skipped=space.skipped + lines.left_out + unused,
        lost=space.lost,
        truncated=space.truncated,
        notes=tuple(note for note in notes if note),
    )


def recognise(head: bytes, path: Path) -> bool:
    """Whether these are planes of XLA's profiler, or the JSON in which processes are planes."""
    if head[:1] == b"{":
        return b'"process_name"' in head and _PROCESS.search(head) is not None
    if not head.startswith(HEAD) or is_converted(head):
        return False
    planes = fields_before_damage(head)[0]
    _, _, start, end = planes[0] if planes else (0, 0, 0, 0)
    found = fields_before_damage(head, start, end)[0]
    names = [(start, end) for number, _, start, end in found if number == PLANE_NAME]
    named = any(_PLANES.match(head, *place) for place in names)
    return named and all(number <= PLANE_STAT for number, *_ in found)


def repeats(path: Path) -> bool:
    """Whether a file is the JSON form of an XPlane in the same folder: of the two in a folder that
    one is read."""
    return not path.name.endswith(SUFFIX) and any(path.parent.glob(f"*{SUFFIX}"))


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """The trace in the file. Raises UnreadableInputError, EmptyRecordingError."""
    texts = StringCodes()
    with open_stream(path, progress) as stream:
        data = b"".join(stream)
        is_proto = data.startswith(HEAD)
        try:
            space = (read_space if is_proto else read_chrome)(data, texts)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = stream.damage or "it is cut off or damaged"
            refusal = f"{path}: not a readable trace of JAX: {why}; give the {SUFFIX} beside it"
            raise UnreadableInputError(refusal) from error
        if stream.damage:
            space = replace(space, truncated=True)
    trace = xplane_trace(str(path), space, texts)
    if not is_proto:
        trace = replace(
            trace, health=replace(trace.health, notes=(*trace.health.notes, EXACT_NOTE))
        )
    if not any(map(len, (trace.device_ops, trace.host_ranges, trace.api_calls))):
        if space.truncated or space.lost:
            raise UnreadableInputError(
                f"{path}: too damaged or cut off: not one event could be read; record it again"
            )
        raise EmptyRecordingError(
            f"{path}: the profile holds no events; record some steps with jax.profiler.trace"
        )
    return [trace]
