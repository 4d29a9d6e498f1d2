"""The figures of a report in little room: where it ran, the kernels, operators, waits and
collectives with the most time, and how to make the report again."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from traceanalyzer.analysis.groups.seen_conditions import PRODUCT_FORMATS
from traceanalyzer.base import dataclass, regex
from traceanalyzer.report.brief import STDIN
from traceanalyzer.report.document import Fact, Facts, Paragraph, Section, TextTable, Weight
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.format import figure, plain, shorten
from traceanalyzer.report.model import Report

INTERPRETER = regex(r"(?:python[\d.]*+)?")
"""A command that says nothing of what was run."""
TOP = 3  # rows of each table: a reader looks at three, and asks `show` for more
NAMED_RECORDINGS = 5
KEY_TABLES = ("serving", "kernels", "ops", "syncs", "collectives")
"""The tables that people ask for first: a server's load, what runs, who launched it, who waits."""
LONGEST_NAME = 120  # characters, as of a kernel in any table
LONGEST_VALUE = 90
ENVIRONMENT = (
    "PyTorch",
    "CUDA",
    "cuDNN",
    "NCCL",
    "JAX",
    "model",
    "batch",
    "batch size",
    "global batch",
    PRODUCT_FORMATS,
    "number format of the loss",
    "float32 matmul precision",
    "mode",
    "workers",
    "CPU",
    "usable CPU cores",
)
"""Conditions that say what ran, in this order; the table of conditions has all."""
MARKERS = ("ProfilerStep",)
"""Names that begin so are a recorder's marks of steps: no operator of the program."""


@dataclass(frozen=True)
class BriefColumn:
    """A column of a table in brief."""

    header: str
    text: Callable[[Any], str]
    is_figure: bool = True


@dataclass(frozen=True)
class Top:
    """A table of a report, by what its rows are worth."""

    title: str
    table: str
    columns: tuple[BriefColumn, ...]
    is_shown: Callable[[Any], bool]


def _named(header: str, text: Callable[[Any], str | None]) -> BriefColumn:
    return BriefColumn(header, lambda row: shorten(plain(text(row) or "?"), LONGEST_NAME), False)


def _where(row: Any) -> str:
    """The line of the program, where that was recorded, else the operator around the call."""
    place = row.python or (row.op or "").rpartition(" > ")[2]
    return f"{row.call} in {place}" if place else str(row.call)


def _ms(header: str, value: Callable[[Any], float | None]) -> BriefColumn:
    return BriefColumn(header, lambda row: figure(value(row), "ms"))


def _tables() -> tuple[Top, ...]:
    """The key tables, each with the columns that say most."""
    return (
        Top(
            "Top kernels",
            "kernels",
            (
                _named("Kernel", lambda row: row.name),
                BriefColumn("Calls a step", lambda row: figure(row.calls)),
                _ms("Time a step", lambda row: row.total_ms),
                BriefColumn("Of the step", lambda row: figure(row.share_of_step, "share")),
                BriefColumn("Bound by", lambda row: row.bound_by or "unknown", False),
            ),
            lambda row: bool(row.total_ms),
        ),
        Top(
            "Top operators",
            "ops",
            (
                _named("Operator", lambda row: row.name),
                BriefColumn("Calls a step", lambda row: figure(row.calls)),
                _ms("GPU time of its own", lambda row: row.device_self_ms),
                _ms("CPU time of its own", lambda row: row.host_self_ms),
            ),
            lambda row: not row.name.startswith(MARKERS),
        ),
        Top(
            "Syncs",
            "syncs",
            (
                _named("Where the CPU blocks", _where),
                BriefColumn("Calls a step", lambda row: figure(row.calls)),
                _ms("GPU idle a step", lambda row: row.gpu_idle_ms),
            ),
            lambda row: bool(row.gpu_idle_ms),
        ),
        Top(
            "Collectives",
            "collectives",
            (
                _named("Collective", lambda row: row.collective),
                BriefColumn("Calls a step", lambda row: figure(row.count)),
                _ms("Time a step", lambda row: row.total_ms),
                _ms("Exposed", lambda row: row.exposed_ms),
            ),
            lambda row: bool(row.total_ms),
        ),
    )


def tops(report: Report) -> list[Section]:
    """The first rows of the key tables. Their figures are the recording's, which the titles say
    where the report speaks of a step without the profiler."""
    recorded = " in the recording" if report.metrics.unprofiled is not None else ""
    tables = [(f"{top.title}{recorded}", _table(top, report)) for top in _tables()]
    return [
        Section(title, [table], is_minor=True, weight=Weight.METRICS)
        for title, table in tables
        if table.rows
    ]


def _table(top: Top, report: Report) -> TextTable:
    """The first rows of a table; operators are those with most time of their own."""
    rows = list(filter(top.is_shown, report.tables.get(top.table, [])))
    if top.table == "ops":
        own_ms = attrgetter("device_self_ms" if report.devices else "host_self_ms")
        rows = sorted(filter(own_ms, rows), key=own_ms, reverse=True)
    cells = [[column.text(row) for column in top.columns] for row in rows[:TOP]]
    headers = [column.header for column in top.columns]
    numeric = [column.is_figure for column in top.columns]
    return TextTable(headers, numeric, cells, is_whole=True)


def environment(report: Report) -> list[Section]:
    """What the recording ran on and with, as far as it says."""
    facts = _environment_facts(report)
    if not facts:
        return []
    part = Facts(facts, is_table=True)
    return [Section("Environment", [part], is_minor=True, weight=Weight.METRICS)]


def _environment_facts(report: Report) -> list[Fact]:
    known = {row.name: row.value for row in report.tables.get("conditions", [])}
    facts = _gpu_facts(report, known)
    facts += [Fact(name, known[name]) for name in ENVIRONMENT if name in known]
    program = report.metrics.program
    if program is not None and program.mode is not None:
        facts.append(Fact("mode", program.mode))
    return [Fact(fact.label, shorten(plain(fact.value), LONGEST_VALUE)) for fact in facts]


def rows_in_report(report: Report, name: str) -> list[Any]:
    """The rows of a table that a report has beside its environment: conditions that stand there are
    not said twice, unless they spoil figures, and marks of steps are no operators."""
    rows = report.tables.get(name, [])
    if name == "ops":
        return [row for row in rows if not row.name.startswith(MARKERS)]
    if name != "conditions":
        return rows
    in_environment = {(fact.label, fact.value) for fact in _environment_facts(report)}
    return [row for row in rows if row.spoils or (row.name, plain(row.value)) not in in_environment]


def _gpu_facts(report: Report, known: Mapping[str, str]) -> list[Fact]:
    """The GPUs by name, and what is known of the first one."""
    devices = [device for item in report.inputs for device in item.devices]
    names = dict.fromkeys(plain(device.name) for device in devices if device.name)
    of_gpus = [Fact(name, value) for name, value in known.items() if name.startswith("GPU ")]
    facts = of_gpus[:1]
    is_named = len(names) == 1 and any(fact.value.startswith(tuple(names)) for fact in facts)
    if names and not is_named:
        facts.insert(0, Fact("GPU", ", ".join(names)))
    return facts


def how_to_reproduce(report: Report) -> list[Section]:
    """The command that was recorded, the input with its hash, versions, and how to compare with
    another run, where there is something to compare."""
    known = {row.name: row.value for row in report.tables.get("conditions", [])}
    command = known.get("command", "")
    facts = [] if INTERPRETER.fullmatch(command) else [Fact("recorded command", command)]
    for item in report.inputs[:NAMED_RECORDINGS]:
        hashed = f", SHA-256 {item.sha256}" if item.sha256 else ""
        facts.append(Fact("recording", f"{item.path} ({item.kind}){hashed}"))
    if len(report.inputs) > NAMED_RECORDINGS:
        facts.append(Fact("recordings", f"{len(report.inputs) - NAMED_RECORDINGS} more"))
    paths = [*dict.fromkeys(item.path for item in report.inputs)]
    can_be_typed = 0 < len(paths) <= NAMED_RECORDINGS and STDIN not in paths
    given = " ".join(map(shlex.quote, paths)) if can_be_typed else "PATH..."
    run = given if len(paths) == 1 else "DIR"
    facts += [
        Fact("made by", f"{report.tool.name} {report.tool.version}"),
        Fact("again", f"traceanalyzer analyze {given}"),
    ]
    if recorded_ms(report) or report.metrics.serving is not None:
        facts.append(Fact("after a change", f"traceanalyzer compare {run} CHANGED"))
    part = Facts(facts, is_table=True)
    return [Section("How to reproduce", [part], weight=Weight.METRICS)]


def _environment_in_a_line(report: Report) -> list[Section]:
    texts = [f"{fact.label} {fact.value}" for fact in _environment_facts(report)]
    if not texts:
        return []
    part = Paragraph(" · ".join(texts))
    return [Section("Environment", [part], is_minor=True, weight=Weight.METRICS)]


def brief_sections(report: Report) -> Sequence[Section]:
    """First rows and the environment, for the part with the metrics."""
    return [*tops(report), *_environment_in_a_line(report)]
