"""Runs that were never made as a document: the step at each setting, its range, throughput, memory,
what limits it and what that rests on."""

from collections.abc import Sequence

from traceanalyzer.base import dataclass, digits, metric
from traceanalyzer.replay.unmade.answer import Unmade
from traceanalyzer.replay.unmade.sweep import paying
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
from traceanalyzer.report.format import figure
from traceanalyzer.report.markdown.mermaid import bar_chart, text_bar
from traceanalyzer.report.printed import Printed, PrintedRows

ALIKE = 0.0005  # steps that differ by less are printed alike
TABLE = (
    "setting",
    "step_ms",
    "low_ms",
    "high_ms",
    "ms_per_sample",
    "tokens_per_s",
    "peak_bytes",
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
    about = [f"{digits(row.low_ms, 3)} to {digits(row.high_ms, 3)} ms in nine of ten cases"]
    known = [
        ("time per sample", figure(row.ms_per_sample, "ms") if row.ms_per_sample else None),
        ("samples/s", _rate(row.samples_per_s)),
        ("tokens/s", _rate(row.tokens_per_s)),
        ("bottleneck", row.bottleneck),
        ("the GPU is the limit from", _batch(row.gpu_limit_from)),
        ("peak memory", _memory(row)),
        ("MFU", None if row.mfu is None else figure(row.mfu, "share")),
        ("price of a million tokens", _rate(row.price_per_million_tokens)),
    ]
    facts = Facts.of(*((name, value) for name, value in known if value is not None))
    return [
        Section("", [Verdict(_sentence(row), about)]),
        Section("", [facts], is_minor=True),
        Section("What it rests on", [Bullets(row.basis)], is_minor=True),
    ]


def _several(rows: Sequence[Unmade], pays: str | None) -> list[Section]:
    longest = max(row.step_ms for row in rows)
    bars = [
        (row.setting, f"{digits(row.step_ms, 3)} ms", text_bar(row.step_ms / longest))
        for row in rows
    ]
    chart = bar_chart("Step time", "setting", "ms", [(row.setting, row.step_ms) for row in rows])
    limits = [f"{row.setting}: {row.bottleneck}" for row in rows]
    columns = [name for name in TABLE if any(getattr(row, name) is not None for row in rows)]
    heading = f"Step {digits(rows[0].now_ms, 4)} ms now, without the profiler."
    return [
        Section("", [Paragraph(heading), "", Table(list(rows), chosen=columns)]),
        Section("", [Paragraph(f"{pays}.", "bold") if pays else None], is_minor=True),
        Section(
            "Step time",
            [
                TextTable(("setting", "step", ""), (False, True, False), bars),
                Drawing(markdown=chart),
            ],
            is_minor=True,
        ),
        Section("Bottleneck", [Bullets(limits)], is_minor=True),
        Section("What it rests on", [Bullets(_shared(rows))], is_minor=True),
    ]


def _shared(rows: Sequence[Unmade]) -> list[str]:
    return list(dict.fromkeys(text for row in rows for text in row.basis))


def _sentence(row: Unmade) -> str:
    setting = row.setting.replace("gpu ", "GPU ")
    return f"{digits(row.step_ms, 4)} ms a step with {setting}: {_against_now(row)}."


def _against_now(row: Unmade) -> str:
    """How the step compares with that of now."""
    now = f"the {digits(row.now_ms, 4)} ms of now"
    times = row.step_ms / row.now_ms if row.now_ms else 1.0
    if abs(times - 1.0) < ALIKE:
        return f"as long as {now}"
    if times < 1.0:
        return f"{digits(1 / times, 3)}x as fast as {now}"
    return f"{digits(times, 3)} times {now}"


def _rate(value: float | None) -> str | None:
    return None if value is None else digits(value, 4)


def _batch(value: int | None) -> str | None:
    return None if value is None else f"batch {value} on"


def _memory(row: Unmade) -> str | None:
    if row.peak_bytes is None:
        return None
    text = figure(row.peak_bytes, "bytes")
    if row.fits is None:
        return text
    return f"{text}, which {'fits' if row.fits else 'does not fit'} the GPU"
