"""The log of llama.cpp's server: for each request the time of its prompt, of its answer, and how many
guessed tokens were right."""

import re
from pathlib import Path
from statistics import fmean, median

from traceanalyzer.base import MS_PER_S, counted, digits, ratio, regex
from traceanalyzer.ingest.texts.serving.names import percentiles_of
from traceanalyzer.trace import PastedText, ServingSummary

_N = r"(\d{1,12}(?:\.\d{1,6})?)"
_TIME = regex(
    rf"^(?:\[\d{{1,9}}\])?[ \t]*(?:print_timings?:[ \t]*)?(prompt eval|eval|total) time[ \t]*=[ \t]*{_N} ms /[ \t]*"
    r"(\d{1,12}) tokens\b",
    re.MULTILINE,
)
_ACCEPTED = regex(
    r"draft acceptance rate = [\d.]{1,12} \(\s*(\d{1,12}) accepted /\s*(\d{1,12}) generated\)"
)
RECORD = (
    "To see what the GPU does meanwhile: record some seconds of the server with nsys (nsys profile ..., nsys export -t "
    "sqlite), and analyse that. What waits is in its metrics (--metrics, then GET /metrics)."
)


def recognise(text: str) -> bool:
    """Whether a text has the times of a request."""
    return {"prompt eval", "eval", "total"} <= {name for name, _, _ in _TIME.findall(text)}


def summarise(text: str, path: Path) -> PastedText | None:
    """The requests of the log."""
    times: dict[str, list[tuple[float, float]]] = {}
    for name, ms, tokens in _TIME.findall(text):
        times.setdefault(name, []).append((float(ms), float(tokens)))
    prompts, answers, totals = (times.get(name, []) for name in ("prompt eval", "eval", "total"))
    each = [ms / tokens for ms, tokens in answers if tokens]
    if not prompts or not each or not totals:
        return None
    guesses = [(int(right), int(made)) for right, made in _ACCEPTED.findall(text)]
    load = ServingSummary(
        engine="llama_cpp",
        requests=float(len(totals)),
        tpot=percentiles_of(each),
        latency=percentiles_of([ms for ms, _ in totals]),
        prompt_tokens=fmean(tokens for _, tokens in prompts),
        output_tokens=fmean(tokens for _, tokens in answers),
        accepted_share=ratio(sum(right for right, _ in guesses), sum(made for _, made in guesses)),
    )
    return PastedText(
        what=f"The log of llama.cpp's server, {counted(len(totals), 'request')}",
        tells=(
            f"A request takes {digits(median(ms for ms, _ in totals))} ms in its slot: its prompt "
            f"{digits(median(ms for ms, _ in prompts))} ms at {_rate(prompts)} tokens/s, its answer "
            f"{digits(median(each))} ms a token (medians)."
        ),
        record=RECORD,
        serving=load,
    )


def _rate(times: list[tuple[float, float]]) -> str:
    """Tokens a second of all requests together."""
    spent_ms = sum(ms for ms, _ in times)
    tokens = sum(count for _, count in times)
    return digits(MS_PER_S * tokens / spent_ms) if spent_ms else "?"
