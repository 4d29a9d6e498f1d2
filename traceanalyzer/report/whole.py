"""Sections of a whole report that the terminal and Markdown have in common: findings, advice,
figures, tables; and the figures that practitioners quote of a step."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from traceanalyzer.analysis.groups.first_steps import PaidBack
from traceanalyzer.analysis.tables.launches import HostStats
from traceanalyzer.analysis.tables.throughput import Throughput, Utilisation, mfu_is_least
from traceanalyzer.base import MEMORY
from traceanalyzer.report.document import (
    Fact,
    Facts,
    Item,
    Items,
    Section,
    Table,
    Weight,
    evidence_line,
)
from traceanalyzer.report.figures.step_times import figure_unit
from traceanalyzer.report.format import (
    NOT_AVAILABLE,
    figure,
    number,
    plain,
    scale_for,
    scaled,
)
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import gains, opening, step_facts
from traceanalyzer.report.parts.in_brief import rows_in_report

TITLE = "Key figures"
TOLD_FROM_STEPS = 10  # steady steps that first ones cost more, to be on the first screen
GROWS = {"leak": "Leaks", "growth": "Grows"}
CONDITIONS = "conditions"
SHOWN_WHOLE = (CONDITIONS, "serving")
"""Tables without a command of their own, all of which a reader of a report has to see."""
FEW = 3  # figures of a group that are zero or unknown: so many are left out
TABLE_ROWS = 5
"""Rows of a table within the report in a terminal; the table's own command prints all."""
SPARED_ROWS = 1  # to leave out so few takes as many lines as they do
CALL_OF = "call of "  # how a step's unit begins where a step is a call of a model
QUOTED_MFU = 0.01  # below, matmuls are not what the program is about
FIRST_EVIDENCE = 3  # figures of a finding where there is little room
SEVERITY_STYLES = {"high": "bold red", "medium": "yellow", "info": "dim"}
NO_METRICS = "Nothing was measured: the recording has no steps and no GPU work."
ONLY_SUMS = "Sums by name were measured, no steps: the profiler's table below lists them."
NO_RECORDING = "No recording was read."
NO_FINDING = "No finding: the recording supports none."


def figures_quoted(report: Report) -> list[Fact]:
    """Throughput, MFU, speed of light, GPU utilisation, bandwidth, kernels; empty where not even
    steps are known."""
    work = report.metrics.throughput
    used = report.metrics.utilisation
    kernels = report.metrics.kernels_per_step
    if work is None and used is None:
        return []
    light = f"{NOT_AVAILABLE} (too few operators have a model, or the GPU is not known)"
    bandwidth = f"{NOT_AVAILABLE} (no operators with a model)"
    if used is not None and used.sol is not None:
        light = f"{_most(report)}{figure(used.sol, 'share')}"
    if used is not None and used.least_bandwidth_gbs is not None:
        peak = (
            f" ({figure(used.bandwidth_share, 'share')} of peak)"
            if used.bandwidth_share is not None
            else ""
        )
        bandwidth = f"at least {figure(used.least_bandwidth_gbs, 'GB/s')}{peak}"
    busy = figure(used and used.gpu_busy_share, "share")
    return [
        Fact(
            "throughput",
            _throughput(report, work),
            "work per second of the summary's step; --samples N and --tokens N of a step give samples/s and tokens/s; "
            "`metrics.throughput` in JSON",
        ),
        Fact(
            "MFU",
            _mfu(report, used),
            "model FLOP/s utilisation, of what this step could reach at the roofline",
        ),
        Fact(
            "speed of light",
            light,
            "time of the step's computation at the roofline over the step time",
        ),
        Fact(
            "GPU utilisation", busy, "share of the step with any work on the GPU, from the timeline"
        ),
        *_cpu_busy(report.metrics.host),
        Fact(
            "memory bandwidth", bandwidth, "least traffic with the GPU's memory over the step time"
        ),
        Fact("kernels per step", figure(kernels), "kernels launched by a step"),
    ]


def _cpu_busy(host: HostStats | None) -> list[Fact]:
    """How much of the step the CPU works; empty where that is not known."""
    if host is None or host.busy_share is None:
        return []
    return [
        Fact(
            "CPU busy, as recorded",
            figure(host.busy_share, "share"),
            "share of the recorded step in which a thread that launches dispatches, allocates or works: waits are not "
            "in it; `metrics.host` in JSON",
        )
    ]


def _rates_seen(report: Report, work: Throughput) -> str:
    """Its rates; empty where they are of a replayed step, at which the program was not seen, and of
    a server, whose iterations hold unlike amounts and whose headline says its tokens."""
    is_of_server = figure_unit(report) == "iteration" or report.metrics.serving is not None
    unsteady = report.metrics.unsteady_step_time_ms is not None
    return "" if unsteady or is_of_server else _rates(work)


def _call_of_model(report: Report) -> str:
    """That a step is a call of a model, of which a turn of the program's loop may make several;
    empty where it is none."""
    unit = report.metrics.step_unit or ""
    return f"step = one {plain(unit)}" if unit.startswith(CALL_OF) else ""


def known_in_brief(report: Report) -> str:
    """What of it is known, on one line; empty where nothing is."""
    work = report.metrics.throughput
    used = report.metrics.utilisation
    parts = [_rates_seen(report, work)] if work is not None else []
    parts.append(_call_of_model(report))
    if used is not None:
        most = (
            f" of {figure(used.attainable_mfu, 'share')} reachable" if used.attainable_mfu else ""
        )
        is_quoted = used.mfu is not None and used.mfu >= QUOTED_MFU
        parts += [f"MFU {_least(report)}{figure(used.mfu, 'share')}{most}"] if is_quoted else []
        parts += (
            [f"{_most(report)}{figure(used.sol, 'share')} of speed of light"]
            if not is_quoted and used.sol is not None
            else []
        )
        parts += (
            [f"GPU busy {figure(used.gpu_busy_share, 'share')}"]
            if used.gpu_busy_share is not None
            else []
        )
    return " · ".join(part for part in parts if part)


def memory_sentence(report: Report) -> str:
    """GPU memory on a line or two; empty where it was not recorded."""
    memory_used = report.metrics.memory
    if memory_used is None or memory_used.peak is None:
        return ""
    scale = scale_for(memory_used.peak, MEMORY)
    every = (
        ("forward", memory_used.forward),
        ("backward", memory_used.backward),
        ("optimizer", memory_used.optimizer),
    )
    sizes = {name: size for name, size in every if size is not None}
    if memory_used.peak_phase not in sizes:
        sizes = {"peak": memory_used.peak, **sizes}
    parts = [
        f"{name} {number(scaled(size, scale))}{' (peak)' if name == memory_used.peak_phase else ''}"
        for name, size in sizes.items()
    ]
    parts += (
        [f"{number(scaled(memory_used.reserved, scale))} reserved"] if memory_used.reserved else []
    )
    text = f"GPU memory ({scale.label}): {', '.join(parts)}."
    # on a snapshot alone the headline says what grows
    if memory_used.growth not in GROWS or opening.companion(report):
        return text
    where = f": {memory_used.growth_at}" if memory_used.growth_at else ""
    return f"{text} {GROWS[memory_used.growth]} {figure(memory_used.growth_per_step, MEMORY)} per step{where}."


def first_step(report: Report) -> str:
    """The first step, and when compilation has paid for itself; empty where the first steps are not
    known, or cost less than a few steady ones."""
    paid = report.metrics.first_steps
    if paid is None or (
        paid.excess_ms < TOLD_FROM_STEPS * paid.steady_ms and paid.eager_ms is None
    ):
        return ""
    text = f"First step {figure(paid.first_ms, 'ms')}."
    if paid.eager_ms is None:
        return text
    pays = PaidBack(paid.pays_after_steps, paid.pays_low, paid.pays_high)
    return (
        f"{text} torch.compile: {figure(paid.eager_ms, 'ms')} → "
        f"{figure(paid.compiled_ms, 'ms')} per step, {pays}."
    )


def _rates(work: Throughput) -> str:
    rates = (
        (work.samples_per_s, "samples/s"),
        (work.tokens_per_s, "tokens/s"),
        (work.steps_per_s, "steps/s"),
    )
    given = [(work.tflops_per_s, "TFLOP/s")] if work.flops_source == "given" else []
    return ", ".join(
        f"{figure(rate)} {name}" for rate, name in (*rates, *given) if rate is not None
    )


def _throughput(report: Report, work: Throughput | None) -> str:
    if work is None:
        return NOT_AVAILABLE
    if report.metrics.unsteady_step_time_ms is not None:
        return f"{NOT_AVAILABLE} (the program's steps are unsteady, and this one is replayed)"
    each = (
        f" ({figure(work.ms_per_sample, 'ms')} a sample)" if work.ms_per_sample is not None else ""
    )
    return f"{_rates(work) or NOT_AVAILABLE}{each}"


def _mfu_is_least(report: Report) -> bool:
    """Whether the MFU is a lower bound: as kernels without a model do operations that are not
    counted, or where no MFU that could be reached is told beside it."""
    work = report.metrics.throughput
    if work is not None and work.is_given:
        return False
    used = report.metrics.utilisation
    if used is not None and used.mfu and used.sol and used.attainable_mfu is None:
        return True
    return _lacks_models(report)


def _lacks_models(report: Report) -> bool:
    """Whether the speed of light is an upper bound: kernels without a model count with their
    recorded time."""
    work = report.metrics.throughput
    return mfu_is_least(report.metrics.roofline, is_given=work is not None and work.is_given)


def _least(report: Report) -> str:
    return "at least " if _mfu_is_least(report) else ""


def _most(report: Report) -> str:
    return "at most " if _lacks_models(report) else ""


def _mfu(report: Report, used: Utilisation | None) -> str:
    if used is None or used.mfu is None:
        return (
            f"{NOT_AVAILABLE} (operations or the GPU's peak are not known: record shapes, or "
            "--flops N)"
        )
    if not used.mfu:
        return "0% (no matmuls ran)"
    most = (
        f" of {figure(used.attainable_mfu, 'share')} that this step could reach"
        if used.attainable_mfu
        else ""
    )
    return f"{_least(report)}{figure(used.mfu, 'share')}{most}"


def findings(report: Report) -> Items:
    """Every finding with its evidence."""
    items = []
    for finding in gains.findings_to_read(report):
        told = (finding.severity, finding.cls, plain(finding.id), gains.headroom(report, finding))
        about = " · ".join(part for part in told if part)
        evidence = [
            (item.metric, gains.evidence_value(item), item.where) for item in finding.evidence
        ]
        style = SEVERITY_STYLES.get(finding.severity, "")
        items.append(
            Item(
                finding.title,
                [(about, style)],
                list(gains.leads(report, finding)),
                evidence,
            )
        )
    return Items(items, noun="findings")


def brief_findings(report: Report) -> Items:
    """Every finding with its first evidence, without tables."""
    items = []
    for item in findings(report).items:
        first = (item.evidence or [])[:FIRST_EVIDENCE]
        items.append(replace(item, evidence=None, details=list(map(evidence_line, first))))
    return Items(items, noun="findings")


def recommendations(report: Report, against: bool = False, assumed: bool = True) -> Items:
    """Every recommendation with its gain and effort, `against` which finding it is, and what is
    `assumed`."""
    titles = {f.id: f.title for f in report.findings} if against else {}
    items = []
    for advice in report.recommendations:
        gain = gains.prediction(report, advice)
        lines = [(gains.in_full(gain, advice.effort, gains.named(advice)), "green")]
        lines += [(f"Addresses: {titles[advice.id]}", "")] if advice.id in titles else []
        head, *points = gains.assumed(advice) if assumed else [""]
        lines += [(head, "")] if head else []
        items.append(Item(advice.action, lines, points))
    return Items(items, noun="recommendations")


def key_figure_facts(report: Report) -> list[Section]:
    """The figures that practitioners quote."""
    key = figures_quoted(report)
    if report.metrics.budget_ms is None:  # no option of the recording would tell the others
        key = [fact for fact in key if not fact.value.startswith(NOT_AVAILABLE)]
    return [_facts(TITLE, key, Weight.METRICS)] if key else []


def step_time_facts(report: Report) -> list[Section]:
    """How step times are distributed."""
    time = report.metrics.step_time_ms
    return [] if time is None else [_table("Step time", [step_facts.shown_step_time(time)], report)]


def figures_of_step(report: Report) -> Section:
    """The single figures."""
    recorded = " in the recording" if report.metrics.unprofiled is not None else ""
    return _facts(f"Figures of a step{recorded}", step_facts.step_figures(report), Weight.FIGURES)


def groups_of_figures(report: Report) -> list[Section]:
    """Figures that belong together."""
    return [
        _facts(
            step_facts.with_basis(report, title),
            _without_nothing(facts),
            Weight.GROUP,
            folded=True,
        )
        for title, facts in step_facts.step_groups(report)
    ]


def _without_nothing(facts: Sequence[Fact]) -> list[Fact]:
    """The figures without those that are zero or unknown, where these are many: the JSON has them."""
    known = [fact for fact in facts if not _is_nothing(fact)]
    return known if len(facts) - len(known) >= FEW else list(facts)


def _is_nothing(fact: Fact) -> bool:
    return fact.value.split(" ")[0] in ("0", "0%") or fact.value.startswith(NOT_AVAILABLE)


def devices_overall(report: Report) -> list[Section]:
    """The GPUs over the whole recording."""
    if not report.devices:
        return []
    return [
        _table(
            "Devices, over the whole recording",
            report.devices,
            report,
            folded=len(report.devices) > 8,
        )
    ]


def tables_with_rows(
    report: Report,
    names: Sequence[str] | None = None,
    without: Sequence[str] = (),
    chart: Callable[[str, Sequence[Any]], Sequence[str]] | None = None,
) -> list[Section]:
    """The tables that have rows, of those `names` (None: all) and `without` others, with what
    `chart` makes of a name and its rows."""
    wanted = [name for name in report.tables if names is None or name in names]
    tables = {name: rows_in_report(report, name) for name in wanted if name not in without}
    return [
        _table(
            step_facts.table_title(name),
            rows,
            report,
            Weight.TABLE,
            folded=True,
            command=step_facts.command_of_table(name),
            chart=chart(name, rows) if chart else (),
            limit=None if name in SHOWN_WHOLE else TABLE_ROWS,
        )
        for name, rows in tables.items()
        if rows
    ]


def _facts(title: str, facts: Sequence[Fact], weight: Weight, *, folded: bool = False) -> Section:
    return Section(
        title, [Facts(facts, is_table=True)], is_minor=True, folded=folded, weight=weight
    )


def _table(
    title: str,
    rows: Sequence[Any],
    report: Report,
    weight: Weight = Weight.FIGURES,
    *,
    folded: bool = False,
    **of_table: Any,
) -> Section:
    options = {"limit": TABLE_ROWS, **of_table}
    if options["limit"] is not None and len(rows) <= options["limit"] + SPARED_ROWS:
        options["limit"] = None
    origin_ns = step_facts.moments_origin(report)
    table = Table(rows, origin_ns=origin_ns, every_column_in="json", **options)
    return Section(title, [table], is_minor=True, folded=folded, weight=weight)
