"""Two runs with other batch sizes: their time for each sample, and for each token."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from traceanalyzer.analysis.tables.throughput import Throughput
from traceanalyzer.comparison.model import PerUnit
from traceanalyzer.figures import MS_PER_S
from traceanalyzer.report.outline import step_ms

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report


def per_unit(a: Report, b: Report) -> PerUnit | None:
    """The time for each sample, else for each token, where both reports know how many a step has and these differ."""
    times = step_ms(a), step_ms(b)
    for unit in ("sample", "token"):
        units = tuple(getattr(one.metrics.throughput, f"{unit}s", None) for one in (a, b))
        if times[0] and times[1] and units[0] and units[1]:
            return (
                None
                if units[0] == units[1]
                else PerUnit(unit, units[0], units[1], times[0] / units[0], times[1] / units[1])
            )
    return None


def with_amounts(report: Report, samples: float | None, tokens: float | None) -> Report:
    """The report of a run whose steps work through so much; what is None stays as it was."""
    time = step_ms(report)
    if not time or (samples is None and tokens is None):
        return report
    work = report.metrics.throughput or Throughput(**dict.fromkeys(f.name for f in fields(Throughput)))
    if samples is not None:
        rate, each = samples / time * MS_PER_S, time / samples
        work = replace(work, samples=samples, samples_per_s=rate, ms_per_sample=each, source="given")
    if tokens is not None:
        work = replace(work, tokens=tokens, tokens_per_s=tokens / time * MS_PER_S, source="given")
    return replace(report, metrics=replace(report.metrics, throughput=work))
