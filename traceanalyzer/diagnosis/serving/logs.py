"""The verdict on a server's log alone: whether requests wait and for what, and how long its iterations take,
by kind."""

from traceanalyzer.analysis.serving.kinds import IterationKind, iteration_kinds
from traceanalyzer.base import digits, plural
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.faults import FIND_HANG, crash_of, faults, is_stalled
from traceanalyzer.diagnosis.serving.load import load_sentence, running_sentence
from traceanalyzer.trace.engines import with_profiler_of

NOT_SAID = "A log does not say why"
FEW = 100  # iterations of a kind below which the slowest hundredth is one of them


def server_summary(m: Measurements) -> Summary:
    """What the log says: times by kind where it has them, else its rate."""
    wrong = list(faults(m))
    load = _load(m, is_well=not wrong)
    to_record = f"record some iterations {with_profiler_of(m.trace.logged_by)} and analyse them."
    find_out = _find_out(
        m, f"To see what the GPU does: {to_record}" if load else f"{NOT_SAID}: {to_record}"
    )
    times = _times(m)
    if times:
        text = " ".join(filter(None, (*wrong, load, times, find_out)))
        return Summary("inconclusive", 0.0, text, "recorded", m.mean_step_ms)
    rate = _rate(m)
    if load:
        tokens = f"{digits(rate)} generated tokens/s." if rate is not None else ""
        return Summary(
            "inconclusive", 0.0, " ".join(filter(None, (*wrong, load, tokens, find_out)))
        )
    known = f" It says {digits(rate)} tokens/s." if rate is not None else ""
    unknown = f"Inconclusive: the log holds no times of iterations.{known}"
    text = " ".join(filter(None, (*wrong, unknown, find_out)))
    return Summary("inconclusive", 0.0, text)


def _find_out(m: Measurements, usual: str) -> str:
    """What tells more: of a server that died its error does, of one that hangs its stacks."""
    if crash_of(m):
        return ""
    return FIND_HANG if m.serving is not None and is_stalled(m.serving) else usual


def _load(m: Measurements, *, is_well: bool) -> str:
    """What the log says of its load; of a server that stalled or died not that it keeps up."""
    if m.serving is None:
        return ""
    sentence = load_sentence(m.serving) if is_well else running_sentence(m.serving)
    engines = m.serving.engines or 0.0
    if sentence and engines > 1:
        return f"{sentence} These are means of {digits(engines)} engines; tokens/s are of all."
    return sentence


def _rate(m: Measurements) -> float | None:
    """Generated tokens a second, over the lines in which the server has requests."""
    if m.serving is not None and m.serving.output_tokens_per_s is not None:
        return m.serving.output_tokens_per_s
    return m.timing.tokens_per_s if m.timing is not None else None


def _times(m: Measurements) -> str:
    """How long iterations take, by kind where the log has them; empty where it does not say."""
    kinds = iteration_kinds(m.iterations)
    if kinds:
        count = sum(kind.iterations for kind in kinds)
        times = "; ".join(map(_about, kinds))
        return f"{digits(count)} {plural('iteration', count)}: {times}."
    if m.timing is not None and m.timing.median_ms is not None:
        return f"An iteration takes {digits(m.mean_step_ms)} ms."
    return ""


def _about(kind: IterationKind) -> str:
    tail = f" (p99 {digits(kind.p99_ms)} ms)" if kind.iterations >= FEW else ""
    return f"{digits(kind.iterations)} {kind.phase}, median {digits(kind.p50_ms)} ms{tail}"
