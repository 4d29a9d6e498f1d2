"""Runs that were never made as a document: the step at each setting, its range, throughput, memory,
what limits it and what that rests on."""

from collections.abc import Sequence

from traceanalyzer.base import MEMORY, dataclass, digits, metric
from traceanalyzer.replay.unmade.answer import Unmade
from traceanalyzer.replay.unmade.sweep import PAYING, paying
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Facts,
    Paragraph,
    Section,
    Table,
    TextTable,
    Verdict,
)
from traceanalyzer.report.format import figure, number
from traceanalyzer.report.markdown.mermaid import bar_chart, text_bar
from traceanalyzer.report.printed import Printed, PrintedRows

MEMORY_UNKNOWN = "not recorded, so whether it fits the GPU is not known"
ALIKE = 0.0005  # steps that differ by less are printed alike
TABLE = (
    "setting",
    "batch",
    "step_ms",
    "low_ms",
    "high_ms",
    "gpu_ms",
    "ms_per_sample",
    "work_gain",
    "tokens_per_s",
    "price_per_million_tokens",
    "peak_bytes",
    "fits",
    "mfu",
)
"""Columns of a sweep that people are shown."""


@dataclass(frozen=True)
class Settings:
    """The answer of `whatif` where it is asked for other settings."""

    now_ms: float = metric("step time of the recorded program without a profiler")
    settings: list[Unmade] = metric("the step at each setting asked for")
    paying: str | None = metric(
        "up to which batch a larger one pays; null without several batches", text="sentence"
    )


def settings_page(rows: Sequence[Unmade]) -> Printed:
    """One setting as figures, several as a table and a plot."""
    values = Settings(rows[0].now_ms, list(rows), paying(rows))
    sections = _one(rows[0]) if len(rows) == 1 else _several(rows, values.paying)
    return Printed(Document("", sections), values, PrintedRows("settings", list(rows), Unmade))


def _one(row: Unmade) -> list[Section]:
    about = [f"{number(row.low_ms)} to {number(row.high_ms)} ms in nine of ten cases."]
    known = [
        ("worth it", _worth(row)),
        ("work a second", _more_ranks(row)),
        ("time per sample", _each_sample(row)),
        (f"samples/s{_of_ranks(row)}", _rate(row.samples_per_s)),
        (f"tokens/s{_of_ranks(row)}", _rate(row.tokens_per_s)),
        ("bottleneck", row.bottleneck),
        ("the GPU is the limit from", _batch(row.gpu_limit_from)),
        ("peak memory", _memory(row) if _is_other_size(row) else _known_memory(row)),
        ("MFU", None if row.mfu is None else figure(row.mfu, "share")),
        (f"price of a million {_counted(row)}", _price(row)),
    ]
    facts = Facts.of(*((name, value) for name, value in known if value is not None))
    return [
        Section("", [Verdict(_sentence(row), about)]),
        Section("", [facts], is_minor=True),
        Section("What it rests on", [Bullets(row.basis)], is_minor=True),
    ]


def _several(rows: Sequence[Unmade], pays: str | None) -> list[Section]:
    settings: dict[str, list[str]] = {}
    for row in rows:
        settings.setdefault(row.bottleneck, []).append(row.setting)
    limits = [f"{', '.join(of)}: {bottleneck}" for bottleneck, of in settings.items()]
    relative = any(row.setting.endswith("x") for row in rows)
    known = [name for name in TABLE if any(getattr(row, name) is not None for row in rows)]
    columns = [name for name in known if name != "batch" or relative]
    each = rows[0].now_ms_per_sample
    sample = f", {figure(each, 'ms')} a sample" if each else ""
    heading = f"Now {figure(rows[0].now_ms, 'ms')} a step{sample}, without the profiler."
    room = _room(rows)
    return [
        Section("", [Paragraph(heading), "", Table(list(rows), chosen=columns)]),
        Section("", [Paragraph(f"{pays}.", "bold") if pays else None, room], is_minor=True),
        _steps(rows),
        Section("Bottleneck", [Bullets(limits)], is_minor=True),
        Section("What it rests on", [Bullets(_shared(rows))], is_minor=True),
    ]


def _steps(rows: Sequence[Unmade]) -> Section:
    """The step at each setting as a plot."""
    longest = max(row.step_ms for row in rows)
    bars = [
        (row.setting, f"{number(row.step_ms)} ms", text_bar(row.step_ms / longest)) for row in rows
    ]
    chart = bar_chart("Step time", "setting", "ms", [(row.setting, row.step_ms) for row in rows])
    table = TextTable(("setting", "step", ""), (False, True, False), bars)
    return Section("Step time", [table, Drawing(markdown=chart)], is_minor=True)


def _shared(rows: Sequence[Unmade]) -> list[str]:
    return list(dict.fromkeys(text for row in rows for text in row.basis))


def _sentence(row: Unmade) -> str:
    setting = row.setting.replace("gpu ", "GPU ")
    return f"{figure(row.step_ms, 'ms')} a step with {setting}: {_against_now(row)}."


def _against_now(row: Unmade) -> str:
    """How the step compares with that of now."""
    now = f"the {figure(row.now_ms, 'ms')} of now"
    times = row.step_ms / row.now_ms if row.now_ms else 1.0
    if abs(times - 1.0) < ALIKE:
        return f"as long as {now}"
    if times < 1.0:
        return f"{digits(1 / times, 3)}x as fast as {now}"
    return f"{digits(times, 3)} times {now}"


def _is_other_size(row: Unmade) -> bool:
    return row.setting.startswith(("batch", "length"))


def _worth(row: Unmade) -> str | None:
    """Whether another batch brings more work a second; None where samples are not known, or as many
    as now."""
    gain = row.work_gain
    if gain is None or not row.setting.startswith("batch"):
        return None
    if row.fits is False:
        return "no: it does not fit the GPU"
    counted = "samples" if row.samples_per_s is not None else "rows"
    times = f"{number(gain)}x the {counted} a second"
    if gain >= 1.0 + PAYING:
        return f"yes: {times}"
    return f"hardly: {times}" if gain >= 1.0 - ALIKE else f"no: {times}"


def _each_sample(row: Unmade) -> str | None:
    if row.ms_per_sample is None:
        return None
    now = "" if row.now_ms_per_sample is None else f", now {figure(row.now_ms_per_sample, 'ms')}"
    return f"{figure(row.ms_per_sample, 'ms')}{now}"


def _room(rows: Sequence[Unmade]) -> str | None:
    """Which of several sizes do not fit the GPU, or that this is not known."""
    if not any(_is_other_size(row) for row in rows):
        return None
    if all(row.peak_bytes is None for row in rows):
        return f"Memory: {MEMORY_UNKNOWN}."
    too_large = [row.setting for row in rows if row.fits is False]
    return f"Too large for the GPU: {', '.join(too_large)}." if too_large else None


def _rate(value: float | None) -> str | None:
    return None if value is None else number(value)


def _of_ranks(row: Unmade) -> str:
    """Whose rates they are, where several ranks share the work."""
    return f" of {row.ranks} ranks" if row.ranks > 1 else ""


def _counted(row: Unmade) -> str:
    """What has the price."""
    return "tokens" if row.tokens_per_s is not None else "samples"


def _price(row: Unmade) -> str | None:
    price = row.price_per_million_tokens
    return None if price is None else f"{number(price)}, in the currency of --price"


def _more_ranks(row: Unmade) -> str | None:
    """What so many ranks do in all, against those of now; None where their number was not asked."""
    if row.work_gain is None or "ranks" not in row.setting:
        return None
    return f"{number(row.work_gain)}x that of now, by all {row.ranks} ranks"


def _batch(value: int | None) -> str | None:
    return None if value is None else f"batch {value} on"


def _known_memory(row: Unmade) -> str | None:
    return None if row.peak_bytes is None else _memory(row)


def _memory(row: Unmade) -> str:
    if row.peak_bytes is None:
        return MEMORY_UNKNOWN
    text = figure(row.peak_bytes, MEMORY)
    if row.fits is None:
        return text
    return f"{text}, which {'fits' if row.fits else 'does not fit'} the GPU"
