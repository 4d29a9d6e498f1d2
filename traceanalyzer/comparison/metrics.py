"""Figures of two reports that are not parts of the step time, by path; and the time for each sample or token."""

from __future__ import annotations

import dataclasses
from dataclasses import fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

from traceanalyzer.analysis.tables.throughput import Throughput
from traceanalyzer.base.figures import MS_PER_S
from traceanalyzer.comparison.model import MetricDifference, PerUnit
from traceanalyzer.report.format import measured
from traceanalyzer.report.model import Metrics, Report
from traceanalyzer.report.outline import step_ms

PARTS = ("step_time_ms.", "budget_ms.", "idle_ms.")
"""The step time and its parts are compared as such."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a report: its value, None where the recording cannot support it, and its unit."""

    value: float | None
    unit: str


def figures_by_path(report: Report) -> dict[str, Figure]:
    """Every figure of `metrics` by its path (`step_time_ms.median`), with `syncs.calls`, `syncs.gpu_idle_ms` and
    `headroom_ms.CLASS` (the findings' headroom by class) as well."""
    found = dict(_walk("", Metrics, report.metrics))
    for name in ("calls", "gpu_idle_ms"):
        waits = report.tables.get("syncs")
        value = None if waits is None else float(sum(getattr(row, name) for row in waits))
        found[f"syncs.{name}"] = Figure(value, "ms" if name.endswith("_ms") else "")
    for cls in CLASSES:
        claimed = [f.headroom_ms for f in report.findings if f.cls == cls and f.headroom_ms is not None]
        found[f"headroom_ms.{cls}"] = Figure(float(sum(claimed)), "ms")
    return found


CLASSES = ("compute", "memory", "launch", "communication", "sync", "input", "host", "transfer")


def _walk(prefix: str, kind: Any, value: Any) -> list[tuple[str, Figure]]:
    """Figures of a measurement of that type, all None where there is none."""
    rows: list[tuple[str, Figure]] = []
    for f in dataclasses.fields(kind):
        inner, name = getattr(value, f.name, None), prefix + f.name
        types = [t for t in (_types(kind)[f.name], *get_args(_types(kind)[f.name])) if isinstance(t, type)]
        nested = next((t for t in types if dataclasses.is_dataclass(t)), None)
        if nested is not None:
            rows += _walk(f"{name}.", nested, inner)
        elif {int, float} & set(types):
            rows.append((name, Figure(inner if measured(inner) else None, f.metadata.get("unit", ""))))
    return rows


@cache
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def metrics_between(a: Report, b: Report) -> list[MetricDifference]:
    """Figures that either report has and that are no parts of the step time."""
    of_a, of_b = figures_by_path(a), figures_by_path(b)
    rows = []
    for name in dict.fromkeys((*of_a, *of_b)):
        if name.startswith(PARTS):
            continue
        left, right = of_a.get(name), of_b.get(name)
        x, y = left.value if left else None, right.value if right else None
        if x is None and y is None:
            continue
        unit = (left or right or Figure(None, "")).unit
        rows.append(MetricDifference(name, unit, x, y, None if x is None or y is None else y - x))
    return rows


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
