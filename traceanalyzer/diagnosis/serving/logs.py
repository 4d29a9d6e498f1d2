"""The verdict on a server's log alone: how long its iterations take, by kind."""

from traceanalyzer.analysis.serving.kinds import IterationKind, iteration_kinds
from traceanalyzer.base import digits, plural
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.trace.engines import with_profiler_of

FEW = 100  # iterations of a kind below which the slowest hundredth is one of them


def server_summary(m: Measurements) -> Summary:
    """What the log says: times by kind where it has them, else its rate."""
    find_out = (
        f"A log does not say why: record some iterations {with_profiler_of(m.trace.logged_by)} and "
        "analyse them."
    )
    kinds = iteration_kinds(m.iterations)
    if kinds:
        count = sum(kind.iterations for kind in kinds)
        times = "; ".join(map(_about, kinds))
        iterations = f"{digits(count)} {plural('iteration', count)}"
        text = f"{iterations}: {times}. {find_out}"
        return Summary("inconclusive", 0.0, text, "recorded", m.mean_step_ms)
    if m.timing is not None and m.timing.median_ms is not None:
        text = f"An iteration takes {digits(m.mean_step_ms)} ms. {find_out}"
        return Summary("inconclusive", 0.0, text, "recorded", m.mean_step_ms)
    rate = m.timing.tokens_per_s if m.timing is not None else None
    known = f" It says {digits(rate)} tokens/s." if rate is not None else ""
    text = f"Inconclusive: the log holds no times of iterations.{known} {find_out}"
    return Summary("inconclusive", 0.0, text)


def _about(kind: IterationKind) -> str:
    tail = f" (p99 {digits(kind.p99_ms)} ms)" if kind.iterations >= FEW else ""
    return f"{digits(kind.iterations)} {kind.phase}, median {digits(kind.p50_ms)} ms{tail}"
