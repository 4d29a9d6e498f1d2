"""The planes of a recording as one trace: devices and host of one process."""

from __future__ import annotations

from traceanalyzer.ingest.columns import Texts
from traceanalyzer.ingest.xplane.device import DeviceLines, device_ops, device_ranges, devices, rows_of
from traceanalyzer.ingest.xplane.host import Host
from traceanalyzer.ingest.xplane.space import Line, Space
from traceanalyzer.trace import Collected, Condition, Health, Process, RangeKind, Thread, Trace

MOST_EVENTS = 1_000_000
"""The profiler keeps no more of the host, nor of the devices."""
_VERSIONS = ("jax_version", "jaxlib_version", "cuda_version", "rocm_version")


def make_trace(path: str, space: Space, texts: Texts) -> Trace:
    """The trace of a recording."""
    lines = DeviceLines.of(space.planes)
    host_lines = [line for plane in space.planes if plane.name.startswith("/host:") for line in plane.lines]
    base = _base(space, [*(line for _, line in (*lines.ops, *lines.ranges)), *host_lines])
    rows = rows_of(lines.ops)
    host = Host.of(host_lines, rows, texts)
    ops, calls, ranges, memory = (
        device_ops(rows, texts, base),
        host.calls(base),
        host.ranges(base),
        host.memory(texts, base),
    )
    start, stop = space.stat("profile_start_time"), space.stat("profile_stop_time")
    return Trace(
        path=path,
        source="xplane",
        strings=texts.all(),
        process=Process(pid=space.stat("process_id"), host=space.host),
        threads=tuple(Thread(str(line.id), line.name) for line in host_lines),
        devices=devices(space.planes, ops),
        device_ops=ops,
        api_calls=calls,
        host_ranges=ranges,
        device_ranges=device_ranges(rows_of(lines.ranges), base),
        memory_events=memory,
        conditions=_conditions(space),
        collected=Collected(
            device=len(ops) > 0,
            api=len(calls) > 0,
            ops=bool((ranges.kind == RangeKind.OP).any()),
            stacks=bool((ranges.kind == RangeKind.PYTHON).any()),
            memory=len(memory) > 0,
        ),
        health=_health(space, host, lines),
        epoch_ns=start or 0,
        window=(0, stop - start) if start and stop and stop > start else None,
    )


def _base(space: Space, lines: list[Line]) -> int:
    """What the times count from: the start of the profile, or, in old recordings, the epoch."""
    start = space.stat("profile_start_time")
    firsts = [int(line.events["start"].min()) for line in lines if len(line)]
    return start if start and firsts and min(firsts) >= start else 0


def _conditions(space: Space) -> tuple[Condition, ...]:
    stats = {name: value for plane in space.planes for name, value in plane.stats.items()}
    return tuple(Condition(name.replace("_", " "), str(stats[name])) for name in _VERSIONS if name in stats)


def _health(space: Space, host: Host, lines: DeviceLines) -> Health:
    on_device = sum(len(line) for _, line in (*lines.ops, *lines.ranges)) + lines.left_out
    on_host = len(host.is_range)
    notes = (
        space.truncated and "The file is cut off or damaged: what follows is missing.",
        space.lost and f"{space.lost:,} events were damaged and are missing from all figures.",
        max(on_device, on_host) >= MOST_EVENTS
        and f"The profiler stops at {MOST_EVENTS:,} events: what happened after is missing. Record fewer steps.",
        lines.left_out and f"{lines.left_out:,} rows on devices repeat others (XLA's own analysis) and are left out.",
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
