"""Why the first recommendation is for another part of the step than the verdict names, in a sentence."""

from traceanalyzer.diagnosis.finding import BottleneckClass, Recommendation, Summary
from traceanalyzer.diagnosis.shares import Shares

WITH_IT = 1.05
"""A change that gains this many times the part that it is for takes more than that part away."""
PARTS: dict[BottleneckClass, str] = {
    "compute": "kernels limited by arithmetic",
    "memory": "kernels limited by memory bandwidth",
    "communication": "communication",
    "transfer": "memory copies",
    "launch": "idle time while the CPU issues work",
    "sync": "idle time while the CPU waits for the GPU",
    "input": "idle time without input data",
    "host": "idle time during other CPU work",
}


def other_kind(summary: Summary, shares: Shares | None, first: Recommendation | None, whole: str) -> str:
    """The sentence; empty where the first recommendation is of a class that the headline names. `whole` is what the
    shares are of."""
    named = ("inconclusive", summary.bottleneck, summary.beside)
    if first is None or shares is None or first.cls in named or "inconclusive" in (summary.bottleneck, first.cls):
        return ""
    own = float(getattr(shares, first.cls))
    start = f"The first recommendation is for {PARTS[first.cls]} ({own:.0%} of {whole})"
    if first.predicted_speedup is None:
        return f"{start}: no change is known to shorten the larger part."
    gain = 1.0 - 1.0 / first.predicted_speedup
    if gain > WITH_IT * own:
        return f"{start}, but it shortens other parts with it: it is predicted to save {gain:.0%}."
    return f"{start}: no other single change is predicted to gain more."
