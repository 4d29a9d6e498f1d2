"""What a recording without work of the GPU says: where the CPU's time goes, and how to record the GPU."""

from traceanalyzer.analysis.groups.ops import SHOWN, ApiTime, api_times
from traceanalyzer.base import digits
from traceanalyzer.diagnosis.finding import Words
from traceanalyzer.diagnosis.measurements import Measurements

RECORD_THE_GPU = Words(
    "Record the GPU, too: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) around code that runs on "
    "it, or traceanalyzer collect torch -- python train.py.",
    "Record the GPU, too: nsys profile -t cuda,nvtx, of a version that knows the driver, where CUPTI may record it.",
    "Record the GPU, too: jax.profiler.trace around steps that run on it.",
)


def top_operators(m: Measurements) -> list[ApiTime]:
    """The operators with the most CPU time of their own, over the whole recording; without any the phases."""
    steps = m.timed.steps.steady_count
    own = [(row.name, row.calls, row.host_self_ms) for row in m.ops if row.kind == "op"]
    own = own or [(row.name, row.calls or 0.0, row.host_ms) for row in m.phase_rows if not row.derived]
    rows = sorted(own, key=lambda row: -row[2])[:SHOWN]
    return [ApiTime(name, round(calls * steps), time * steps) for name, calls, time in rows if time]


def no_gpu_work(m: Measurements) -> str:
    """Why it is not known what the GPU did, the largest parts of the CPU's time, and what to record."""
    if m.launches is not None and m.launches.launch_calls:
        why = "launches were recorded, but no GPU work: what the GPU did is not known."
    else:
        cut = "; the file is cut off: copy or export it again" if m.trace.health.truncated else ""
        why = f"the recording holds no GPU work{cut}."
    times = top_operators(m) or api_times(m.linked)
    shown = [f"{row.name} {digits(row.ms)} ms ({row.calls:,} call{'s' * (row.calls != 1)})" for row in times[:3]]
    named = ", ".join(shown)
    most = f" Of {digits(m.coverage.recorded_ms)} ms recorded the CPU spends most in {named}." if times else ""
    return f"{why}{most} {RECORD_THE_GPU.of(m.joined.framework)}"
