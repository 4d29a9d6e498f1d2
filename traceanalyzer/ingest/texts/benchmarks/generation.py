"""How fast local engines generate: llama.cpp and its `llama-bench`, ollama, MLC."""

import re
from pathlib import Path

from traceanalyzer.base import dataclass, digits, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import PastedText

_N = r"(\d[\d,]{0,12}(?:\.\d{1,9})?)"
_LLAMA = regex(
    rf"llama_(?:perf_context_print|print_timings):\s+(prompt eval|eval) time =\s*{_N} ms /\s*(\d{{1,12}}) "
    rf"(?:tokens|runs)\s*\(\s*{_N} ms per token,\s*{_N} tokens per second\)"
)
_OLLAMA = regex(rf"^(prompt eval|eval) rate:\s+{_N} tokens/s", re.MULTILINE)
_MLC = regex(rf"\b(prefill|decode): {_N} tok/s")
_BENCH = regex(
    rf"^\|[ \t]*+(?P<model>[^|\n]{{1,120}}?)[ \t]*+\|.*\|\s*(?P<kind>pp|tg)\s?(?P<tokens>\d{{1,9}})[^|\n]*\|\s*{_N} ±",
    re.MULTILINE,
)
RECORD = (
    "To see what the GPU does meanwhile: record it with nsys (nsys profile ..., nsys export -t sqlite) or "
    "rocprofv3, and analyse that."
)
_DECODE = ("eval", "decode", "tg")


@dataclass(frozen=True)
class _Speed:
    """How fast prompts are read, or tokens made."""

    decodes: bool
    per_s: float
    label: str  # the model, or how many tokens


def recognise(text: str) -> bool:
    """Whether a text says such speeds."""
    return bool(_speeds(text))


def summarise(text: str, path: Path) -> PastedText | None:
    """The speed of prompts and of generation."""
    speeds = _speeds(text)
    if not speeds:
        return None
    parts = [
        f"{'decode' if one.decodes else 'prefill'} {digits(one.per_s)} tokens/s{one.label}"
        for one in speeds
    ]
    each = [1e3 / one.per_s for one in speeds if one.decodes and one.per_s > 0]
    sentence = ", ".join(parts)
    return PastedText(
        what="How fast an engine generates",
        tells=f"{sentence[0].upper()}{sentence[1:]}.",
        record=RECORD,
        notes=tuple(f"A token takes {digits(ms)} ms (TPOT at one request)." for ms in each[:1]),
    )


def _speeds(text: str) -> list[_Speed]:
    found = [
        _Speed(kind in _DECODE, number_in(rate) or 0.0, f" ({int(count):,} tokens)")
        for kind, _, count, _, rate in _LLAMA.findall(text)
    ]
    if not found:
        found = [
            _Speed(kind in _DECODE, number_in(rate) or 0.0, f" ({model.strip()}, {kind}{tokens})")
            for model, kind, tokens, rate in _BENCH.findall(text)
        ]
    if not found:
        pairs = [*_OLLAMA.findall(text), *_MLC.findall(text)]
        found = [_Speed(kind in _DECODE, number_in(rate) or 0.0, "") for kind, rate in pairs]
    return [one for one in found if one.per_s > 0]
