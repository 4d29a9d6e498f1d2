"""What a benchmark or a trainer prints at its end: means, percentiles and rates, as lines or as one
dictionary."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import digits, regex
from traceanalyzer.ingest.side_files import decoded, is_number
from traceanalyzer.ingest.timing.names import TIME_UNITS, meaning
from traceanalyzer.ingest.timing.pairs import value_of
from traceanalyzer.trace import PastedText

_LINE = regex(
    r"^[ \t|*>-]*(?P<name>[A-Za-z][\w /()@.-]{1,60}?)[ \t]*[:=][ \t]*(?P<value>\d[\d,.:]{0,24})"
    r"[ \t]?(?P<unit>[A-Za-zµ]{1,12}(?:/[A-Za-z]{1,12})?)?",
    re.MULTILINE,
)
_STATISTIC = regex(
    r"(?:^|[ _])(mean|average|avg|median|std|stdev|min|max|p\d{2}|\d{2}th percentile)(?=$|[ _(@])",
    re.IGNORECASE,
)
_TIMES = frozenset(("iter_s", "time_s", "mean_s"))
_PARTS = {"compute": "compute", "data": "loading"}
"""Parts of a step that are timed apart."""
_RATES = {"samples_per_s": "samples/s", "tokens_per_s": "tokens/s", "its_per_s": "steps/s"}
_WORDS = {"average": "mean", "avg": "mean", "median": "p50", "stdev": "std"}
_SHOWN = {"best": "best", "mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
NS_OF_NSEC = 1e-9  # timeit's name of a nanosecond
MOST_TEXT = 65_536  # characters of a dictionary that is printed
FEWEST = 2  # figures that make a summary
LOADING_SHARE = 0.2
"""From this share of a batch's time on, loading is worth a word."""
_PER_LOOP = regex(
    r"^(?P<mean>\d{1,12}\.?\d{0,12}) ?(?P<unit>ns|[uµμ]s|ms|s) ± "
    r"(?P<std>\d{1,12}\.?\d{0,12}) ?(?P<std_unit>ns|[uµμ]s|ms|s) per loop",
    re.MULTILINE,
)
_BEST = regex(
    r"best of \d{1,6}: (?P<best>\d{1,12}\.?\d{0,12}) (?P<unit>nsec|usec|msec|sec) per loop"
)
_MEASUREMENT = regex(r"Measurement object at 0x|^[^\S\n]++\d+ measurements, \d+ runs", re.MULTILINE)
_MEASURED = regex(
    r"^[^\S\n]*+(Median|Mean): (\d{1,12}\.?\d{0,12}) (ns|us|ms|s)$|^[^\S\n]*+(\d{1,12}\.?\d{0,12}) (ns|us|ms|s)$",
    re.MULTILINE,
)
_HYPERFINE = regex(
    r"Time \(mean ± σ\):\s+(\d{1,12}\.?\d{0,12}) (µs|us|ms|s) ±\s+(\d{1,12}\.?\d{0,12}) (µs|us|ms|s)"
)
RECORD = (
    "To see single slow steps, log the time of each: `traceanalyzer collect timing -- python "
    "train.py`; to see why they take as long, record some: `traceanalyzer collect torch -- python "
    "train.py`."
)


def recognise(text: str) -> bool:
    """Whether a text prints such figures."""
    if _timed_by_tools(text):
        return True
    found = _figures(text)
    return len(found) >= FEWEST and any(name.split(" ")[0] != "data" for name in found)


def summarise(text: str, path: Path) -> PastedText | None:
    """What the figures say."""
    figures = _figures(text)
    times = [
        f"{shown} {digits(figures[f'time {word}'] * 1e3)} ms"
        for word, shown in _SHOWN.items()
        if f"time {word}" in figures
    ]
    rates = [f"{digits(figures[rate])} {what}" for rate, what in _RATES.items() if rate in figures]
    parts = [
        f"{shown} {digits(figures[f'{part} mean'] * 1e3)} ms"
        for part, shown in _PARTS.items()
        if f"{part} mean" in figures
    ]
    sentence = ", ".join((*times, *parts, *rates))
    if not sentence:
        return None
    return PastedText(
        what="Figures that a benchmark or a trainer printed at its end",
        tells=f"{sentence[0].upper()}{sentence[1:]}.",
        record=RECORD,
        notes=tuple(_notes(figures)),
    )


def _notes(found: dict[str, float]) -> Iterator[str]:
    typical = found.get("time mean", found.get("time p50"))
    data = found.get("data mean")
    if typical is None and data is not None and "compute mean" in found:
        typical = found["compute mean"] + data  # neither holds the other
    if typical and data and LOADING_SHARE * typical <= data <= typical:
        yield (
            f"Loading is {data / typical:.0%} of the time: more workers, or a cheaper transform, "
            "if the GPU waits for it."
        )
    tail = found.get("time p99", found.get("time p95"))
    if typical and tail and tail > 2 * typical:
        yield f"The slowest take {tail / typical:.1f} times as long: look at single steps."


def _statistic(word: str) -> str:
    """A statistic by its usual name: `mean`, `p90`."""
    usual = _WORDS.get(word, word.replace("th percentile", "").strip())
    return f"p{usual}" if usual.isdigit() else usual


def _figures(text: str) -> dict[str, float]:
    """Figures by name: `time mean` and `data mean` in seconds, rates a second."""
    found = _timed_by_tools(text)
    for name, value, unit in _pairs(text):
        match = _STATISTIC.search(name)
        word = _statistic(match[1].lower()) if match else "mean"
        rest = f"{name[: match.start()]} {name[match.end() :]}".strip(" _") if match else name
        field, factor = _meaning(rest, unit)
        if field in _RATES and word == "mean":
            found.setdefault(field, value * factor)
        elif field in _TIMES and (match or field != "time_s"):
            found.setdefault(f"time {word}", value * factor)
        elif field in ("compute_s", "data_s") and match:
            found.setdefault(f"{field.removesuffix('_s')} {word}", value * factor)
    return found


def _timed_by_tools(text: str) -> dict[str, float]:
    """What timeit, torch.utils.benchmark and hyperfine print, in seconds."""
    per_loop = _PER_LOOP.search(text)
    if per_loop is not None:
        return {
            "time mean": _seconds(per_loop["mean"], per_loop["unit"]),
            "time std": _seconds(per_loop["std"], per_loop["std_unit"]),
        }
    best = _BEST.search(text)
    if best is not None:
        each = _seconds(best["best"], best["unit"])
        return {"time best": each}
    if _MEASUREMENT.search(text):
        found: dict[str, float] = {}
        for name, value, unit, bare, bare_unit in _MEASURED.findall(text):
            key = "time p50" if name == "Median" else "time mean"
            found.setdefault(key, _seconds(value or bare, unit or bare_unit))
        return found
    hyperfine = _HYPERFINE.search(text)
    if hyperfine is not None:
        mean, unit, spread, spread_unit = hyperfine.groups()
        return {"time mean": _seconds(mean, unit), "time std": _seconds(spread, spread_unit)}
    return {}


def _seconds(value: str, unit: str) -> float:
    try:
        return float(value) * (NS_OF_NSEC if unit == "nsec" else TIME_UNITS[unit])
    except ValueError:
        return 0.0


def _meaning(name: str, unit: str) -> tuple[str, float]:
    """The field that a name without its statistic stands for, and the factor to its unit."""
    if name.lower() in TIME_UNITS:  # `mean_ms`
        return "time_s", TIME_UNITS[name.lower()]
    meant = meaning(name or "time", unit)
    return (meant.field, meant.factor) if meant is not None else ("", 1.0)


def _pairs(text: str) -> Iterator[tuple[str, float, str]]:
    """Names, values and units."""
    plain = text.strip()
    if plain.startswith("{") and plain.endswith("}") and len(plain) <= MOST_TEXT:
        for name, value in _dictionary(plain).items():
            if isinstance(name, str) and is_number(value):
                yield name, float(value), ""
        return
    for match in _LINE.finditer(text):
        value = value_of(match["value"].rstrip(".,:"))
        if value == value:
            yield match["name"], value, match["unit"] or ""


def _dictionary(text: str) -> dict[object, object]:
    value = decoded(text)
    if value is None:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
