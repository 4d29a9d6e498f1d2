"""The verdict that a printed table of sums, or step times alone (a timing log), allow.

Sums tell where the time is in all, but not what waits for what. Step times say that time is lost and how regularly, not
why; only time spent waiting for data names its cause.
"""

from collections.abc import Iterator

from traceanalyzer.analysis.tables.profiled import Profiled
from traceanalyzer.analysis.tables.timing import TimingStats
from traceanalyzer.base import digits
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.diagnosis.measurements import Measurements

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "hipStreamSynchronize",
         "hipDeviceSynchronize", "hipEventSynchronize")  # fmt: skip
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "hipLaunchKernel", "hipExtModuleLaunchKernel")
SPENT_IN = dict.fromkeys(WAITS, "in which the CPU waits {} ms") | dict.fromkeys(LAUNCHES, "{} ms of CPU time")
"""What the CPU's time in a call is."""
FIND_OUT_OF_SUMS = {
    "key_averages": "Export the trace (prof.export_chrome_trace) and analyse that.",
    "proton": 'Record a trace (proton.start(..., data="trace")), or one of torch.profiler, and analyse that.',
}
"""By what recorded the sums."""
INPUT_SHARE = 1 / 6
"""Above this share of the step, which is a fifth of the iteration without its data, waiting for data is an input
bottleneck. A loader that keeps up costs a few percent (taking a batch from its queue)."""
DRIFT_SHARE = 0.05
"""A smaller trend is that of clocks and temperature."""
OUTLIER_SHARE = 0.01
"""Outliers that cost less of the time are within the spread of steps."""
INPUT_CONFIDENCE = 0.5
"""At the threshold. The host may wait for data while the GPU still works, which a log does not show."""
MAX_CONFIDENCE = 0.8
"""However large the share: the log shows the host's time, not the GPU's."""
FIND_OUT = "Record a few steps with `traceanalyzer collect torch` and analyse the trace."


def profiled_summary(table: Profiled, source: str) -> Summary:
    """The verdict: always inconclusive, because sums do not tell what waits for what."""
    of = "a step" if table.steps else "the profile"
    cpu = f", operators and calls {digits(table.cpu_ms)} ms of CPU time" if table.cpu_ms else ""
    why = f"kernels take {digits(table.device_ms)} ms of GPU time{cpu}. {FIND_OUT_OF_SUMS[source]}"
    text = f"Inconclusive: a table of sums does not tell what waits for what. In {of} {why}"
    return Summary("inconclusive", 0.0, text, "recorded", None)


def profiled_notes(table: Profiled) -> Iterator[str]:
    """What stands out in the table."""
    each = " a step" if table.steps else ""
    if table.step_ms and table.device_ms < table.step_ms:
        share, step = table.device_ms / table.step_ms, f"A step takes {digits(table.step_ms)} ms on the CPU"
        yield f"{step}, with the profiler; GPU work is {share:.0%} of that at most."
    for share, cls in table.classes[:1]:
        yield f"{share:.0%} of the kernels' time is in {cls} kernels."
    for row in table.rows:
        if row.name in SPENT_IN and row.calls and row.self_cpu_ms:
            yield f"{row.name}: {row.calls:.4g} calls{each}, {SPENT_IN[row.name].format(digits(row.self_cpu_ms))}."


def timing_summary(m: Measurements) -> Summary:
    """The verdict on a run of which only step times are known."""
    if (stats := m.timing) is None or stats.median_ms is None:
        rate = ""
        if stats is not None and stats.tokens_per_s is not None:
            rate = f" It says {stats.tokens_per_s:,.0f} tokens/s."
        elif stats is not None and stats.samples_per_s is not None:
            rate = f" It says {stats.samples_per_s:,.4g} samples/s."
        return Summary("inconclusive", 0.0, f"Inconclusive: the log holds no step times.{rate} {FIND_OUT}")
    if stats.data_share is not None and stats.data_share > INPUT_SHARE:
        confidence = INPUT_CONFIDENCE + (MAX_CONFIDENCE - INPUT_CONFIDENCE) * min(stats.data_share, 1.0)
        text = f"Input-bound: waiting for data takes {stats.data_share:.0%} of each {digits(m.mean_step_ms)} ms step."
        return Summary("input", round(confidence, 2), text, "recorded", m.mean_step_ms)
    loader = "" if stats.data_share is None else f"; not the data loader ({stats.data_share:.0%})"
    text = f"{_steps(m, stats)}{loader}. Step times alone do not tell why. {FIND_OUT}"
    return Summary("inconclusive", 0.0, text, "recorded", m.mean_step_ms if m.timed.steps.found else None)


def _steps(m: Measurements, stats: TimingStats) -> str:
    if stats.slow_steps_share is not None and stats.fast_mode_ms is not None and stats.slow_mode_ms is not None:
        times = f"{digits(stats.fast_mode_ms)} or {digits(stats.slow_mode_ms)} ms"
        return f"Steps take {times} ({stats.slow_steps_share:.0%} slow)"
    if stats.outlier_excess_share >= OUTLIER_SHARE and stats.median_ms is not None:
        slow = f"{stats.outliers} of {stats.steps} take much longer ({stats.outlier_excess_share:.0%} of the time)"
        return f"Steps take {digits(stats.median_ms)} ms, and {slow}"
    timed = {"forward": stats.forward_ms, "backward": stats.backward_ms, "optimizer": stats.optimizer_ms}
    phases = ", ".join(f"{name} {digits(time)}" for name, time in timed.items() if time is not None)
    return f"A step takes {digits(m.mean_step_ms)} ms" + (f" ({phases} ms)" if phases else "")


def timing_parts(m: Measurements) -> dict[str, float]:
    """Parts of the step that headroom may be taken from where only a log is known, ms."""
    if (stats := m.timing) is None or not m.timed.steps.found:
        return {}
    data = min(stats.data_time_ms or 0.0, m.mean_step_ms)
    return {"idle.input": data, "idle.other": m.mean_step_ms - data}
