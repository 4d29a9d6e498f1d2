"""The verdict that step times alone allow (a timing log).

They say that time is lost and how regularly, not why; only time spent waiting for data names its cause.
"""

from traceanalyzer.analysis.tables.timing import TimingStats
from traceanalyzer.base.figures import digits
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.diagnosis.measurements import Measurements

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


def timing_summary(m: Measurements) -> Summary:
    """The verdict on a run of which only step times are known."""
    stats = m.timing
    if stats is None or stats.median_ms is None:
        return Summary(
            "inconclusive", 0.0, f"Inconclusive: the log holds no step times.{_throughput(stats)} {FIND_OUT}"
        )
    if stats.data_share is not None and stats.data_share > INPUT_SHARE:
        confidence = INPUT_CONFIDENCE + (MAX_CONFIDENCE - INPUT_CONFIDENCE) * min(stats.data_share, 1.0)
        text = f"Input-bound: the step ({digits(m.mean_step_ms)} ms) waits {stats.data_share:.0%} of its time for data."
        return Summary("input", round(confidence, 2), text, "recorded", m.mean_step_ms)
    loader = "" if stats.data_share is None else f"; not the data loader ({stats.data_share:.0%})"
    text = f"{_steps(m, stats)}{loader}. Step times alone do not tell why. {FIND_OUT}"
    return Summary("inconclusive", 0.0, text, "recorded", m.mean_step_ms if m.timed.steps.found else None)


def _steps(m: Measurements, stats: TimingStats) -> str:
    """What the steps take, with what sets some of them apart."""
    if stats.slow_steps_share is not None and stats.fast_mode_ms is not None and stats.slow_mode_ms is not None:
        times = f"{digits(stats.fast_mode_ms)} or {digits(stats.slow_mode_ms)} ms"
        return f"Steps take {times} ({stats.slow_steps_share:.0%} slow)"
    if stats.outlier_excess_share >= OUTLIER_SHARE and stats.median_ms is not None:
        slow = f"{stats.outliers} of {stats.steps} take much longer ({stats.outlier_excess_share:.0%} of the time)"
        return f"Steps take {digits(stats.median_ms)} ms, and {slow}"
    timed = {"forward": stats.forward_ms, "backward": stats.backward_ms, "optimizer": stats.optimizer_ms}
    phases = ", ".join(f"{name} {digits(time)}" for name, time in timed.items() if time is not None)
    return f"A step takes {digits(m.mean_step_ms)} ms" + (f" ({phases} ms)" if phases else "")


def _throughput(stats: TimingStats | None) -> str:
    if stats is None:
        return ""
    if stats.tokens_per_s is not None:
        return f" It says {stats.tokens_per_s:,.0f} tokens/s."
    return "" if stats.samples_per_s is None else f" It says {stats.samples_per_s:,.4g} samples/s."


def timing_parts(m: Measurements) -> dict[str, float]:
    """Parts of the step that headroom may be taken from where only a log is known, ms."""
    stats = m.timing
    if stats is None or not m.timed.steps.found:
        return {}
    data = min(stats.data_time_ms or 0.0, m.mean_step_ms)
    return {"idle.input": data, "idle.other": m.mean_step_ms - data}
