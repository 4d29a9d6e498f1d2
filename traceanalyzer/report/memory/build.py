"""A snapshot, and what the trace recorded with it adds, as a memory report."""

from __future__ import annotations

from dataclasses import replace

from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured
from traceanalyzer.diagnosis.memory import findings_of, recommendations_of
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.model import UNTRACED, MemoryReport, Traced, compared
from traceanalyzer.trace.snapshot import Snapshot

LEAST_TIMES = 1.05
"""A batch that is less than this much larger is the same one."""
OOM_CAUSES = {
    "fragmentation": "fragmentation",
    "leak": "a leak",
    "optimizer_state": "the optimizer state of the first step",
    "large_allocation": "one large allocation",
    "activations": "the activations of this batch",
    "parameters": "the parameters",
    "gradients": "the gradients",
    "too_large": "what lives across steps",
    "unknown": "what was allocated before the history begins",
}


def memory_report(
    snapshot: Snapshot, traced: Traced = UNTRACED, other: Snapshot | None = None, ranks: int = 8
) -> MemoryReport:
    """The report on a snapshot; `traced` adds times and the GPU's size, `other` a comparison by line."""
    devices = tuple(_with_speed(device, traced) for device in measured(snapshot, ranks, traced.capacity_bytes))
    notes = [*snapshot.notes, *(note for device in devices for note in device.notes)]
    report = MemoryReport(
        snapshot.path,
        devices,
        findings_of(devices),
        recommendations_of(devices, traced.forward_ms, traced.step_ms),
        list(dict.fromkeys(notes)),
        headline(devices),
        traced,
    )
    if other is None:
        return report
    return replace(report, other_path=other.path, compared=compared(devices, measured(other, ranks)))


def _with_speed(device: MemoryOfDevice, traced: Traced) -> MemoryOfDevice:
    """The device with what the largest batch would bring a sample, where the trace can be replayed."""
    batch = device.larger_batch
    if traced.sample_speedup is None or batch.largest_times is None or batch.largest_times < LEAST_TIMES:
        return device
    return replace(device, larger_batch=replace(batch, sample_speedup=traced.sample_speedup(batch.largest_times)))


def headline(devices: tuple[MemoryOfDevice, ...]) -> str:
    """The answer in a sentence."""
    if not devices:
        return "The snapshot holds no GPU memory."
    failed = next((d for d in devices if d.oom is not None), None)
    if failed is not None and failed.oom is not None:
        oom = failed.oom
        culprit = f", most of it {oom.culprits[0].site}" if oom.culprits and oom.culprits[0].site else ""
        return (
            f"GPU {failed.device} ran out of memory because of {OOM_CAUSES[oom.verdict]}{culprit}: "
            f"{figure(oom.requested_bytes, 'bytes')} were asked for, the largest hole was "
            f"{figure(oom.largest_free_block_bytes, 'bytes')}."
        )
    top = max(devices, key=lambda device: device.peak_bytes)
    where = f" in the {top.peak_phase} phase" if top.peak_phase else ""
    largest = max(top.at_peak, key=lambda name: top.at_peak[name]).replace("_", " ")
    text = (
        f"{figure(top.peak_bytes, 'bytes')} allocated at the peak of GPU {top.device}{where}, "
        f"{figure(top.at_peak[largest.replace(' ', '_')], 'bytes')} of it {largest}; "
        f"{figure(top.reserved_bytes, 'bytes')} reserved."
    )
    growth = top.growth
    if growth.verdict in ("leak", "growth") and growth.bytes_per_step:
        what = "Leaks" if growth.verdict == "leak" else "Grows by"
        site = f" at {growth.sites[0].site}" if growth.sites else ""
        text += f" {what} {figure(round(growth.bytes_per_step), 'bytes')} a step{site}."
    return text
