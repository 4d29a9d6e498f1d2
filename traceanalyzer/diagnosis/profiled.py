"""What a printed table of sums tells: where the time is in all, but not what waits for what."""

from collections.abc import Iterator

from traceanalyzer.analysis.tables.profiled import Profiled
from traceanalyzer.base.figures import digits
from traceanalyzer.diagnosis.finding import Summary

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "hipStreamSynchronize",
         "hipDeviceSynchronize", "hipEventSynchronize")  # fmt: skip
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "hipLaunchKernel", "hipExtModuleLaunchKernel")
FIND_OUT = {
    "key_averages": "Export the trace (prof.export_chrome_trace) and analyse that.",
    "proton": 'Record a trace (proton.start(..., data="trace")), or one of torch.profiler, and analyse that.',
}
"""By what recorded the sums."""


def profiled_summary(table: Profiled, source: str) -> Summary:
    """The verdict: always inconclusive, because sums do not tell what waits for what."""
    of = "a step" if table.steps else "the profile"
    cpu = f", operators and calls {digits(table.cpu_ms)} ms of CPU time" if table.cpu_ms else ""
    text = (
        f"Inconclusive: a table of sums does not tell what waits for what. In {of} kernels take "
        f"{digits(table.device_ms)} ms of GPU time{cpu}. {FIND_OUT[source]}"
    )
    return Summary("inconclusive", 0.0, text, "recorded", None)


def profiled_notes(table: Profiled) -> Iterator[str]:
    """What stands out in the table."""
    each = " a step" if table.steps else ""
    if table.step_ms:
        share = table.device_ms / table.step_ms
        if share < 1.0:
            yield (
                f"A step takes {digits(table.step_ms)} ms on the CPU, with the profiler; GPU work is {share:.0%} of "
                "that at most."
            )
    by_class: dict[str, float] = {}
    for row in table.rows:
        if row.cls is not None:
            by_class[row.cls] = by_class.get(row.cls, 0.0) + (row.share_of_device or 0.0)
    if by_class:
        most = max(by_class, key=lambda name: by_class[name])
        yield f"{by_class[most]:.0%} of the kernels' time is in {most} kernels."
    for row in table.rows:
        if row.name in WAITS and row.calls and row.self_cpu_ms:
            yield f"{row.name}: {row.calls:.4g} calls{each}, in which the CPU waits {digits(row.self_cpu_ms)} ms."
        if row.name in LAUNCHES and row.calls and row.self_cpu_ms:
            yield f"{row.name}: {row.calls:.4g} calls{each}, {digits(row.self_cpu_ms)} ms of CPU time."
