"""The figures of a step in groups, with their definitions, before they are drawn."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from traceanalyzer.analysis.algebra.lazy_rows import column_of
from traceanalyzer.analysis.tables.step_figures import StepTime
from traceanalyzer.base import definitions
from traceanalyzer.report.document import Fact
from traceanalyzer.report.format import NOT_AVAILABLE, figure, is_figure, label
from traceanalyzer.report.grid import FOR_PROGRAMS, TIMESTAMPS
from traceanalyzer.report.model import Metrics, Report
from traceanalyzer.report.table_entries import BY_NAME

STEP_GROUPS = {
    "throughput": "Throughput",
    "utilisation": "Utilisation",
    "critical_path": "Critical path",
    "unprofiled_critical_path": "Critical path without the profiler",
    "communication": "Communication",
    "coverage": "Coverage of the recording",
    "repeats": "Repeats within a step",
    "launches": "Launching",
    "host": "Host threads that launch",
    "roofline": "Roofline",
    "timing": "Timing log",
    "first_steps": "First steps of the process",
    "counters": "GPU counters",
    "regularity": "Regularity of the steps",
    "latency": "Latency, where a step is a request",
    "memory": "Memory",
    "program": "The program",
    "phases": "The step by what its work is for",
}
SUMMED_UP = (
    "step_time_ms",
    "budget_ms",
    "idle_ms",
    "unprofiled",
    "unprofiled_step_time_ms",
    "unprofiled_source",
    "unsteady_step_time_ms",
    "step_unit",
    "serving",
)
"""What the summary and the tables of step times and of a server's load say."""
OF_SOME_INPUTS = (
    "coverage",
    "repeats",
    "critical_path",
    "unprofiled_critical_path",
    "roofline",
    "timing",
    "memory",
    "program",
    "phases",
    "throughput",
    "utilisation",
    "first_steps",
    "counters",
    "regularity",
    "latency",
)
"""Groups that only some kinds of input have; a report of others need not say that they are
missing."""
AS_RECORDED = ("critical_path", "communication", "launches", "host", "roofline", "latency")
"""Groups that are of the recorded step, whatever the summary speaks of."""
QUOTED = (
    "samples_per_s",
    "tokens_per_s",
    "steps_per_s",
    "ms_per_sample",
    "mfu",
    "attainable_mfu",
    "sol",
    "gpu_busy_share",
    "least_bandwidth_gbs",
    "bandwidth_share",
    "mode",
)
"""Figures of throughput, utilisation and the program that stand above."""
ONLY_KNOWN = ("throughput", "utilisation", "program")  # most of their figures need to be asked for
EXPLAINED = "traceanalyzer explain {} says what it means and how it was decided."
GLOSSARY = (
    (
        "steady state",
        (
            "the recorded steps without warm-up; figures of a step are means over it, of the "
            "critical rank"
        ),
    ),
    ("critical rank", "the rank that the others wait for; the only one, where one was recorded"),
    (
        "headroom",
        "time a step that removing the cause would save at most; counted once over all findings",
    ),
    (
        "confidence",
        (
            "margin of the bottleneck over the next cause, less for thin or damaged "
            "evidence; 0 to 100%"
        ),
    ),
)
STEPS_FOR_P95 = 20  # of fewer a percentile is the slowest step in other words, and not shown
STEPS_FOR_P99 = 100
NONE_OF = {"communication": "none on the GPU in the measured steps"}
"""What is said of groups of figures that are all zero, where the host may have some."""


def shown_step_time(time: StepTime) -> Any:
    """The step time as people see it."""
    p95 = time.count >= STEPS_FOR_P95
    p99 = time.count >= STEPS_FOR_P99
    return dataclasses.replace(time, p95=time.p95 if p95 else None, p99=time.p99 if p99 else None)  # type: ignore[arg-type]


def step_figures(report: Report) -> list[Fact]:
    """The single figures of a step; without a GPU those that are known."""
    others = [*SUMMED_UP, *STEP_GROUPS]
    if report.metrics.compile is None:
        others.append("compile")  # most programs do not compile
    facts = [
        _fact(f, getattr(report.metrics, f.name))
        for f in dataclasses.fields(Metrics)
        if f.name not in others
    ]
    if report.devices:
        return facts
    return [fact for fact in facts if not fact.value.startswith(NOT_AVAILABLE)]


def step_groups(report: Report) -> list[tuple[str, list[Fact]]]:
    """Figures of a step that belong together, by title; of a GPU's step a group that was not
    recorded says so."""
    known = (
        (f, getattr(report.metrics, f.name))
        for f in dataclasses.fields(Metrics)
        if f.name in STEP_GROUPS
    )
    groups = [
        (STEP_GROUPS[f.name], _group(f, of))
        for f, of in known
        if of is not None or (report.devices and f.name not in OF_SOME_INPUTS)
    ]
    return [(title, facts) for title, facts in groups if facts]


def with_basis(report: Report, title: str) -> str:
    """A group's title, with what its figures are of where that is not the summary's step."""
    recorded = report.metrics.unprofiled is not None
    is_recorded = title in [STEP_GROUPS[name] for name in AS_RECORDED]
    return f"{title}, as recorded" if recorded and is_recorded else title


def _group(f: dataclasses.Field[Any], value: Any) -> list[Fact]:
    if value is None:
        return [_fact(f, None)]
    if f.name == "phases":
        times = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return [_phase(field, time) for field, time in times if time]
    if f.name in ONLY_KNOWN:
        facts = facts_of(value, without=QUOTED)
        return [fact for fact in facts if not fact.value.startswith(NOT_AVAILABLE)]
    if not any(filter(is_figure, vars(value).values())):
        return [Fact(label(f.name), NONE_OF.get(f.name, "none in the measured steps"))]
    return facts_of(value)


def _phase(f: dataclasses.Field[Any], time: Any) -> Fact:
    waits = f", {figure(time.waits)} waits" if time.waits else ""
    on_gpu = "" if time.device_ms is None else f"{figure(time.device_ms, 'ms')} GPU, "
    text = f"{on_gpu}{figure(time.host_ms, 'ms')} CPU{waits}"
    return Fact(f.name, text, f.metadata["definition"])


def facts_of(measurement: Any, without: Sequence[str] = ()) -> list[Fact]:
    """The figures of a measurement, each under a name of its own."""
    fields = [f for f in dataclasses.fields(measurement) if f.name not in without]
    facts = [_fact(f, getattr(measurement, f.name)) for f in fields]
    times = Counter(fact.label for fact in facts)
    return [
        dataclasses.replace(fact, label=f.name.replace("_", " "))
        if times[fact.label] > 1 and f.metadata.get("unit") == "share"
        else fact
        for f, fact in zip(fields, facts, strict=True)
    ]


def _fact(f: dataclasses.Field[Any], value: Any) -> Fact:
    unit = f.metadata.get("unit", "")
    definition = f.metadata.get("definition", "")
    shown = figure(value, unit)  # why it is null
    reason = definition.partition("; null ")[2]
    if shown == NOT_AVAILABLE and reason not in ("", "otherwise"):
        shown += f" ({reason})"
    return Fact(label(f.name, unit), shown, definition)


def moments_origin(report: Report) -> int | None:
    """The first moment in the report's tables: what all moments in it count from."""
    moments = chain.from_iterable(map(_moments, report.tables.values()))
    return min((moment for moment in moments if moment is not None), default=None)


def _moments(rows: Sequence[Any]) -> Iterator[int | None]:
    """The moments in the rows of a table, which all have the fields of the first."""
    for name in TIMESTAMPS:
        if rows and hasattr(rows[0], name):
            yield from column_of(rows, name)


def table_title(name: str) -> str:
    """A table's title."""
    return BY_NAME[name].title if name in BY_NAME else name.replace("_", " ").capitalize()


def command_of_table(name: str) -> str | None:
    """The command that prints all of a table."""
    return BY_NAME[name].command if name in BY_NAME else None


def definition_groups(report: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    """Names and definitions of the report's single figures and of its devices, by group."""
    nested = {
        "step_time_ms": "Step time",
        "budget_ms": "Budget",
        "idle_ms": "Idle by cause",
        **STEP_GROUPS,
    }
    single = [
        (label(d.name, d.unit), d.definition) for d in definitions(Metrics) if d.name not in nested
    ]
    groups = [("Words", list(GLOSSARY)), ("Figures of a step", single)]
    every = ((f.name, getattr(report.metrics, f.name)) for f in dataclasses.fields(Metrics))
    groups += [
        (nested[name], _defined(of)) for name, of in every if name in nested and of is not None
    ]
    return groups + ([("Devices", _defined(report.devices[0]))] if report.devices else [])


def table_definition_groups(report: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    """Names and definitions of the columns of the tables, by table."""
    return [(table_title(name), _defined(rows[0])) for name, rows in report.tables.items() if rows]


def _defined(measurement: Any) -> list[tuple[str, str]]:
    return [
        (label(d.name, d.unit), d.definition)
        for d in definitions(type(measurement))
        if d.name not in FOR_PROGRAMS
    ]
