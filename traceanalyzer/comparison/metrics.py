"""Figures of two reports that are not parts of the step time, by path; and the time for each sample
or token."""

import dataclasses
from dataclasses import fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.analysis.tables.throughput import Throughput
from traceanalyzer.base import MS_PER_S
from traceanalyzer.comparison.model import MetricDifference, PerUnit
from traceanalyzer.diagnosis.finding import Summary
from traceanalyzer.report.figures.names import SUMMARY
from traceanalyzer.report.figures.step_times import step_ms
from traceanalyzer.report.format import is_figure
from traceanalyzer.report.model import TOP_ROWS, Metrics, Report

PARTS = (
    "step_time_ms.",
    "budget_ms.",
    "idle_ms.",
    SUMMARY,
)  # the step time and its parts are compared as such


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a report: its value, None where the recording cannot support it, and its unit."""

    value: float | None
    unit: str


NOT_THERE = Figure(None, "")


ROW_FIGURES = {
    "kernels": {"device_ms": "total_ms", "calls": "calls"},
    "ops": {"device_ms": "device_self_ms", "host_ms": "host_self_ms", "calls": "calls"},
    "modules": {"device_ms": "device_ms", "host_ms": "host_ms", "calls": "calls"},
}
"""Figures of rows that limits can be on, and the columns that have them."""
LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "latency_ms", "queue_ms")
CLASSES = ("compute", "memory", "launch", "communication", "sync", "input", "host", "transfer")


def figures_by_path(report: Report) -> dict[str, Figure]:
    """Every figure of `metrics` by its path (`step_time_ms.median`), and of `summary` by its own
    (`summary.step_ms`), with `serving.ttft_ms` and other latencies, `syncs.calls`,
    `syncs.gpu_idle_ms`, `syncs.unprofiled_idle_ms`,
    `headroom_ms.CLASS` (the findings' headroom by class), and those of rows: classes of kernels,
    kernels, operators and modules (`kernels.gemm.device_ms`, `ops.aten::mm.calls`)."""
    found = dict(_walk("", Metrics, report.metrics)) | dict(_walk(SUMMARY, Summary, report.summary))
    found |= _typical_times(report)
    waits = _syncs(report)
    for name in ("calls", "gpu_idle_ms", "unprofiled_idle_ms"):
        found[f"syncs.{name}"] = Figure(_total(waits, name), _unit(name))
    if report.metrics.unprofiled is None:
        found["syncs.unprofiled_idle_ms"] = Figure(None, "ms")
    for cls in CLASSES:
        claimed = sum(filter(None, (f.headroom_ms for f in report.findings if f.cls == cls)))
        found[f"headroom_ms.{cls}"] = Figure(float(claimed), "ms")
    for prefix, name, row in _rows(report):
        for figure, column in ROW_FIGURES[prefix].items():
            path = f"{prefix}.{name}.{figure}"
            found[path] = Figure(
                (found.get(path, NOT_THERE).value or 0.0) + getattr(row, column), _unit(figure)
            )
    return found


def _typical_times(report: Report) -> dict[str, Figure]:
    """Latencies of a server's requests by their own names (`serving.ttft_ms`): the median, else the
    mean."""
    serving = report.metrics.serving
    found = {}
    for name in LATENCIES:
        times = getattr(serving, name, None)
        found[f"serving.{name}"] = Figure(None if times is None else times.typical, "ms")
    return found


def _syncs(report: Report) -> list[SyncRow] | None:
    """The syncs of the rank that the report speaks of; None where it has no table of them."""
    rows: list[SyncRow] | None = report.tables.get("syncs")
    ranks: list[RankRow] = report.tables.get("ranks", [])
    if report.metrics.launches_per_step is None:
        return None  # a log of step times records no calls
    if rows is None or len(ranks) < 2:
        return rows
    spoken = {row.rank for row in rows if row.unprofiled_idle_ms is not None} or {ranks[0].rank}
    return [row for row in rows if row.rank in spoken]


def _total(rows: list[SyncRow] | None, name: str) -> float | None:
    """The sum of a column; None where there is no table, or a row lacks the figure."""
    if rows is None:
        return None
    values = [getattr(row, name) for row in rows]
    return None if None in values else float(sum(values))


def _unit(name: str) -> str:
    return "ms" if name.endswith("_ms") else ""


def _rows(report: Report) -> list[tuple[str, str, Any]]:
    """Rows with the first and the second part of their path: of classes before kernels of the same
    name."""
    tables = report.tables
    classes = [("kernels", row.cls, row) for row in tables.get("kernel_classes", [])]
    known = {name for _, name, _ in classes}
    kernels = [
        ("kernels", row.name, row) for row in tables.get("kernels", []) if row.name not in known
    ]
    named = [
        (prefix, row.name, row) for prefix in ("ops", "modules") for row in tables.get(prefix, [])
    ]
    return [*classes, *kernels, *named]


def absent(report: Report, path: str) -> Figure | None:
    """The figure of a row that the report does not have: 0, unless its table is cut; None for no
    such figure."""
    prefix = path.partition(".")[0]
    figure = path.rpartition(".")[2]
    if figure not in ROW_FIGURES.get(prefix, {}):
        return None
    rows = report.tables.get("kernel_classes" if is_class(path) else prefix, [])
    is_whole = 0 < len(rows) < TOP_ROWS
    return Figure(0.0 if is_whole else None, _unit(figure))


def is_class(path: str) -> bool:
    """Whether the figure is of a class of kernels (`kernels.gemm.calls`)."""
    prefix, _, rest = path.partition(".")
    return prefix == "kernels" and rest.rpartition(".")[0] in KernelClasses.load().names


def _walk(prefix: str, kind: Any, value: Any) -> list[tuple[str, Figure]]:
    """Figures of a measurement of that type, all None where there is none."""
    rows: list[tuple[str, Figure]] = []
    for f in dataclasses.fields(kind):
        inner = getattr(value, f.name, None)
        name = prefix + f.name
        types = _types(kind)[f.name]
        nested = next(filter(dataclasses.is_dataclass, types), None)
        if nested is not None:
            rows += _walk(f"{name}.", nested, inner)
        elif not {int, float}.isdisjoint(types):
            figure = Figure(inner if is_figure(inner) else None, f.metadata.get("unit", ""))
            rows.append((name, figure))
    return rows


@cache
def _types(kind: Any) -> dict[str, list[type]]:
    """The types that the values of each field may have."""
    return {
        name: [t for t in (hint, *get_args(hint)) if isinstance(t, type)]
        for name, hint in get_type_hints(kind).items()
    }


def metrics_between(a: Report, b: Report) -> list[MetricDifference]:
    """Figures that either report has and that are no parts of the step time."""
    of_a = figures_by_path(a)
    of_b = figures_by_path(b)
    rows = []
    for name in dict.fromkeys((*of_a, *of_b)):
        left = of_a.get(name, NOT_THERE)
        right = of_b.get(name, NOT_THERE)
        x = left.value
        y = right.value
        compared_as_such = name.startswith((*PARTS, *(f"{prefix}." for prefix in ROW_FIGURES)))
        if not compared_as_such and not (x is None and y is None):
            difference = None if x is None or y is None else y - x
            rows.append(MetricDifference(name, left.unit or right.unit, x, y, difference))
    return rows


def per_unit(a: Report, b: Report) -> PerUnit | None:
    """The time for each sample, else for each token, where both reports know how many a step has
    and these differ."""
    times = step_ms(a), step_ms(b)
    for unit in ("sample", "token"):
        x, y = _amounts(a, b, unit)
        if times[0] and times[1] and x and y:
            return None if x == y else PerUnit(unit, x, y, times[0] / x, times[1] / y)
    return None


def has_equal_amounts(a: Report, b: Report) -> bool:
    """Whether both reports know that their steps have as many samples."""
    x, y = _amounts(a, b, "sample")
    return x is not None and x == y


def _amounts(a: Report, b: Report, unit: str) -> tuple[float | None, float | None]:
    """The samples or tokens of a step of both, as far as they are known."""
    x, y = (getattr(one.metrics.throughput, f"{unit}s", None) for one in (a, b))
    return x, y


def with_amounts(report: Report, samples: float | None, tokens: float | None) -> Report:
    """The report of a run whose steps work through so much; what is None stays as it was."""
    time = step_ms(report)
    if not time or (samples is None and tokens is None):
        return report
    work = report.metrics.throughput or Throughput(
        **dict.fromkeys(f.name for f in fields(Throughput))
    )
    if samples is not None:
        rate = samples / time * MS_PER_S
        each = time / samples
        work = replace(
            work, samples=samples, samples_per_s=rate, ms_per_sample=each, source="given"
        )
    if tokens is not None:
        work = replace(work, tokens=tokens, tokens_per_s=tokens / time * MS_PER_S, source="given")
    return replace(report, metrics=replace(report.metrics, throughput=work))
