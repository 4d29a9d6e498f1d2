"""A snapshot, and what the trace recorded with it adds, as a memory report."""

from dataclasses import replace

from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory
from traceanalyzer.diagnosis.memory import findings_of, memory_headline, memory_recommendations
from traceanalyzer.report.memory.model import UNTRACED, MemoryReport, Traced, compared
from traceanalyzer.trace.snapshot import Snapshot

LEAST_TIMES = 1.05  # a batch that is less than this much larger is the same one


def memory_report(
    snapshot: Snapshot, traced: Traced = UNTRACED, other: Snapshot | None = None, ranks: int = 8
) -> MemoryReport:
    """The report on a snapshot; `traced` adds times and the GPU's size, `other` a comparison by
    line."""
    devices = tuple(
        _with_speed(device, traced)
        for device in measured_memory(snapshot, ranks, traced.capacity_bytes)
    )
    notes = [*snapshot.notes, *(note for device in devices for note in device.notes)]
    advice = memory_recommendations(devices, traced.forward_ms, traced.step_ms)
    notes = list(dict.fromkeys(notes))
    report = MemoryReport(
        snapshot.path,
        devices,
        findings_of(devices),
        advice,
        notes,
        memory_headline(devices),
        traced,
    )
    if other is None:
        return report
    return replace(
        report, other_path=other.path, compared=compared(devices, measured_memory(other, ranks))
    )


def _with_speed(device: MemoryOfDevice, traced: Traced) -> MemoryOfDevice:
    """The device with what the largest batch would bring a sample, where the trace can be
    replayed."""
    batch = device.larger_batch
    if (
        traced.sample_speedup is None
        or batch.largest_times is None
        or batch.largest_times < LEAST_TIMES
    ):
        return device
    return replace(
        device,
        larger_batch=replace(batch, sample_speedup=traced.sample_speedup(batch.largest_times)),
    )
