"""What a report says to people, before it is drawn: the same words and figures in the terminal and in Markdown."""

import dataclasses
from typing import Any

from traceanalyzer.analysis.tables.budget import Budget, Idle, StepTime
from traceanalyzer.base.figures import MEMORY, definitions
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.diagnosis.finding import Evidence, Finding, Recommendation
from traceanalyzer.report.document import Fact
from traceanalyzer.report.format import (
    NOT_AVAILABLE,
    figure,
    label,
    measured,
    number,
    plain,
    scale_for,
    scaled,
    shorten,
)
from traceanalyzer.report.grid import FOR_PROGRAMS, TIMESTAMPS
from traceanalyzer.report.model import Input, Metrics, Report
from traceanalyzer.report.table_entries import BY_NAME

NO_STEPS = ("none", "recording")
COMPANIONS = {"memory_snapshot": "GPU memory", "torch_log": "torch.compile"}
"""What snapshots and logs are on, where they are all that was given."""
SHOWN_SHARE = 0.01
"""Parts of the step below this are not on the first screen."""
LONGEST_NAME = 40
"""Characters of GPUs' names on the first screen."""
WAITING = "waiting for ranks"
OF_COMMUNICATION = {
    "transfer": "time in collectives at which all ranks had arrived",
    WAITING: "time in collectives of which another rank had not arrived yet",
}
"""What the parts of exposed communication mean."""
CLEAR, LIKELY = 0.75, 0.5
"""From here on a verdict is clear, likely; below it is a close call."""
IN_HEADER = (
    "Without the profiler a step takes",
    "Tables show the recorded step",
    "Profiling slowed the step",
    "Without the profiler the recording takes",
)
"""How notes begin that the first line of the first screen makes superfluous: it has both step times."""
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
    "counters": "GPU counters",
    "regularity": "Regularity of the steps",
    "latency": "Latency of requests",
    "memory": "Memory",
    "program": "The program",
    "phases": "Phases of the step",
}
OF_SOME_INPUTS = (
    "coverage", "repeats", "critical_path", "unprofiled_critical_path", "roofline", "timing", "memory", "program",
    "phases", "throughput", "utilisation", "counters", "regularity", "latency",
)  # fmt: skip
"""Groups that only some kinds of input have; a report of others need not say that they are missing."""
ONLY_KNOWN = ("throughput", "utilisation", "program")
"""Groups most of whose figures need to be asked for; the key figures say what for."""
EXPLAINED = "traceanalyzer explain {} says what it means and how it was decided."
GLOSSARY = (
    ("steady state", "the recorded steps without warm-up; figures of a step are means over it, of the critical rank"),
    ("critical rank", "the rank that the others wait for; the only one, where one was recorded"),
    ("headroom", "time a step that removing the cause would save at most; counted once over all findings"),
    ("confidence", "margin of the bottleneck over the next cause, less for thin or damaged evidence; 0 to 100%"),
)


@dataclass(frozen=True)
class Share:
    """A part of the step's wall-clock time. `within` is the part that it is a part of, where it is one."""

    label: str
    ms: float
    share: float
    within: str = ""

    @property
    def name(self) -> str:
        """Its label, with what it is a part of."""
        return f"{self.within}: {self.label}" if self.within else self.label

    @property
    def colour(self) -> str:
        """The CSS variable's name."""
        name = self.label.partition(" for ")[0].replace(" ", "-")
        return {"waiting": "idle-communication", "transfer": "communication"}.get(
            name, f"{self.within}-{name}" if self.within else name
        )


def whole(report: Report) -> str:
    """What the figures are of: `step`, or `recording` where no steps were found."""
    return "recording" if report.metrics.step_source in NO_STEPS else "step"


def verdict(report: Report) -> str:
    """Bottleneck, and in a word how sure that is."""
    summary, alone = report.summary, companion(report)
    if alone:
        return alone
    if summary.bottleneck == "inconclusive":
        return "inconclusive"
    if summary.beside is not None:
        return f"{summary.bottleneck}- and {summary.beside}-bound"
    return f"{summary.bottleneck}-bound ({confidence(report)})"


def confidence(report: Report) -> str:
    """How sure the verdict is, in a word: the number in the JSON is a margin, not a probability."""
    sure = report.summary.confidence
    if not measured(sure):
        return NOT_AVAILABLE
    return "clear" if sure >= CLEAR else "likely" if sure >= LIKELY else "close call"


def step_times(report: Report) -> str:
    """The step with and without the profiler, in a few words."""
    time, plainly = report.metrics.step_time_ms, report.metrics.unprofiled_step_time_ms
    if time is None:
        total = recorded_ms(report)
        return "no steps" if total is None else f"no steps in {figure(total, 'ms')} of recording"
    if plainly is None:
        return f"{whole(report)} {figure(time.mean, 'ms')}{' as recorded' * (whole(report) == 'step')}"
    about = "about " if report.metrics.unprofiled_source == "estimated" else ""
    alike = figure(plainly, "ms") == figure(time.mean, "ms")
    profiled = " with and without" if alike else f", {figure(time.mean, 'ms')} with"
    return f"{whole(report)} {about}{figure(plainly, 'ms')}{profiled} the profiler"


def companion(report: Report) -> str:
    """What a report without any recording of time is on; empty for others."""
    kinds = {item.kind for item in report.inputs}
    return COMPANIONS[next(iter(kinds))] if len(kinds) == 1 and kinds <= COMPANIONS.keys() else ""


def hardware(report: Report) -> str:
    """GPUs and steps, in a few words."""
    known = [d.name for i in report.inputs for d in i.devices]
    used = [d.name for d in report.devices] or known
    names, count = sorted({plain(name) for name in used if name}), len(used)
    steps = report.metrics.step_time_ms if whole(report) == "step" else None
    named = shorten(", ".join(name.removeprefix("NVIDIA ").removeprefix("AMD ") for name in names), LONGEST_NAME)
    what = f"{count} x {named}" if count > 1 and names else named
    return ", ".join(part for part in (what, f"{steps.count} step{'s' * (steps.count != 1)}" if steps else "") if part)


def caveats(report: Report) -> list[str]:
    """What spoils the figures, worst first: damage, conditions, then the notes of the run."""
    damaged = [i for i in report.inputs if is_damaged(i)]
    found = [f"{plain(i.path)}: {damage(i)}" for i in damaged[:1]]
    if len(damaged) > 1:
        found[0] += f" (and {len(damaged) - 1} more damaged)"
    found += [f"{c.name} ({c.value}): {c.spoils}" for c in report.tables.get("conditions", []) if c.spoils]
    return [*found, *report.notes]


def screen_caveats(report: Report) -> list[str]:
    """The caveats that the first screen does not say in its first line already."""
    return [text for text in caveats(report) if not text.startswith(IN_HEADER)]


ONE_BY_ONE = 8
"""Recordings of one kind that are listed one by one where nothing is wrong with them."""
STEPS_FOR_P95, STEPS_FOR_P99 = 20, 100
"""Of fewer a percentile is the slowest step in other words: people are not shown it."""


def shown_step_time(time: StepTime) -> Any:
    """The step time as people see it."""
    p95, p99 = time.count >= STEPS_FOR_P95, time.count >= STEPS_FOR_P99
    return dataclasses.replace(time, p95=time.p95 if p95 else None, p99=time.p99 if p99 else None)  # type: ignore[arg-type]


def step_sentence(report: Report) -> str:
    """The step time in a sentence."""
    time = report.metrics.step_time_ms
    if time is None:
        total = recorded_ms(report)
        if total is None:
            return "n/a: no steps and no GPU work in the recording"
        return f"no steps found; figures are for the whole recording of {figure(total, 'ms')}"
    marked = whole(report) == "step"
    text = f"{figure(time.mean, 'ms')} " + (
        f"mean of {figure(time.count)} steps" if marked else "of recording, no steps"
    )
    if time.count > 1:
        high = f" p95 {figure(time.p95, 'ms')}," if time.count >= STEPS_FOR_P95 else ""
        text += f" (median {figure(time.median, 'ms')},{high} std {figure(time.std, 'ms')})"
    if report.metrics.warmup_steps:
        text += f", {figure(report.metrics.warmup_steps)} warm-up left out"
    unprofiled = report.metrics.unprofiled_step_time_ms
    if unprofiled is None:
        return text
    about = "about " if report.metrics.unprofiled_source == "estimated" else ""
    return f"{text}; {about}{figure(unprofiled, 'ms')} without the profiler"


def recorded_ms(report: Report) -> float | None:
    """Mean recorded step, of the whole recording where there are no steps."""
    metrics = report.metrics
    if metrics.step_time_ms is not None:
        return metrics.step_time_ms.mean
    return sum(dataclasses.astuple(metrics.budget_ms)) if metrics.budget_ms is not None else None


def step_ms(report: Report) -> float | None:
    """The step that the report speaks of: without the profiler where that is known, else as recorded."""
    of = report.summary
    return of.step_ms if of.basis == "unprofiled" and of.step_ms is not None else recorded_ms(report)


def _parts(report: Report) -> tuple[Budget | None, Idle | None]:
    """Budget and idle time of that step."""
    metrics = report.metrics
    if report.summary.basis == "unprofiled":
        of = metrics.unprofiled
        return (of.budget_ms, of.idle_ms) if of is not None else (None, None)
    return metrics.budget_ms, metrics.idle_ms


def recording(report: Report) -> str:
    """What was analysed, in a few words."""
    inputs = report.inputs
    if not inputs:
        return "nothing"
    gpus = sorted({plain(d.name) for i in inputs for d in i.devices if d.name})
    what = plain(inputs[0].path) if len(inputs) == 1 else f"{len(inputs)} recordings"
    kinds = sorted({i.kind for i in inputs})
    return f"{what} ({', '.join([*kinds, *gpus])})"


def budget(report: Report) -> list[Share]:
    """The step's wall-clock time: its parts, and the causes of its idle time; empty without device work."""
    (spent, idle), total = _parts(report), step_ms(report)
    if spent is None or not total:
        return []
    parts = []
    for f in dataclasses.fields(Budget):
        parts.append(_share(f.name, getattr(spent, f.name), total))
        if f.name == "exposed_communication" and (waiting := waiting_ms(report)):
            times = (parts[-1].ms - waiting, waiting)
            named = zip(OF_COMMUNICATION, times, strict=True)
            parts += [_share(name, max(ms, 0.0), total, "communication") for name, ms in named]
    if idle is not None:
        causes = [_share(f.name, getattr(idle, f.name), total, "idle") for f in dataclasses.fields(Idle)]
        parts += sorted((c for c in causes if c.ms > 0), key=lambda c: -c.ms)
    return parts


def finest(parts: list[Share]) -> list[Share]:
    """Those that are not shown by their own parts."""
    split = {part.within for part in parts}
    return [part for part in parts if part.within or not any(part.label.endswith(of) for of in split if of)]


def waiting_ms(report: Report) -> float | None:
    """What of the exposed communication of the step that the report speaks of is waiting for other ranks, ms; None
    where that is not known."""
    metrics = report.metrics
    if report.summary.basis == "unprofiled":
        waiting = metrics.unprofiled.waiting_ms if metrics.unprofiled else None
        return None if waiting is None else waiting.total
    time, spent = metrics.communication, metrics.budget_ms
    if time is None or spent is None or time.waiting_ms is None or not time.total_ms:
        return None
    return spent.exposed_communication * min(time.waiting_ms / time.total_ms, 1.0)


def _share(name: str, ms: float, total: float, within: str = "") -> Share:
    return Share(label(name), ms, ms / total, within)


def headroom(report: Report, finding: Finding) -> str:
    """What removing the cause of a finding would save."""
    if finding.headroom_ms is None:
        return "headroom unknown"
    total = step_ms(report)
    share = f", {figure(finding.headroom_ms / total, 'share')} of the {whole(report)}" if total else ""
    return f"headroom {figure(finding.headroom_ms, 'ms')}{share}"


def no_advice(report: Report) -> str:
    """Why nothing is recommended, or what to record."""
    if companion(report):
        return "Nothing to change."
    lacking = next((e.value for f in report.findings for e in f.evidence if e.metric == "next step"), None)
    if isinstance(lacking, str) and not report.devices:
        return lacking
    if report.findings and report.summary.bottleneck == "inconclusive":
        return f"No recommendation: not enough data. Next: {lacking or 'record several steps, API calls and GPU'}."
    return "No recommendation: nothing in this recording shows what would help. To go on: traceanalyzer kernels PATH"


def without_gain(report: Report) -> str | None:
    """Findings whose remedies would not shorten the step, in a sentence; None where there is none."""
    advised = [f"{advice.id}-" for advice in report.recommendations]
    left = [
        finding.id
        for finding in report.findings
        if finding.headroom_ms
        and finding.cls != "inconclusive"
        and not any(a.startswith(f"{finding.id}-") for a in advised)
    ]
    if not left or not advised:
        return None
    return f"Skipped, predicted gain under 1%: {', '.join(left)}."


def prediction(report: Report, advice: Recommendation) -> str:
    """What following a recommendation would bring."""
    if advice.predicted_peak_bytes is not None:
        return _memory_arrow(report, advice)
    more = advice.as_much_work
    if more is not None:
        return _arrow(report, more.likely_ms, "for as much work", more.speedup)
    if advice.predicted_step_ms is None:
        return advice.basis.partition("; ")[0] if advice.basis[:1].isdigit() else "gain unknown"
    likely = (advice.predicted_step_ms, advice.low_ms, advice.high_ms)
    return _arrow(
        report, likely, "per step" if whole(report) == "step" else "for the recording", advice.predicted_speedup
    )


def _memory_arrow(report: Report, advice: Recommendation) -> str:
    """Today's peak of GPU memory, or what is reserved, and what it becomes."""
    of, after, what = report.metrics.memory, advice.predicted_peak_bytes, "at the peak"
    before = of.peak if of is not None else None
    if advice.predicted_reserved_bytes is not None:
        after, before, what = advice.predicted_reserved_bytes, of.reserved if of else None, "reserved"
    return f"{figure(before, MEMORY)} → {figure(after, MEMORY)} {what}" if before else f"{figure(after, MEMORY)} {what}"


def _arrow(report: Report, likely: tuple[float, float | None, float | None], what: str, speedup: float | None) -> str:
    """Today's step, what it becomes, and the range of that, ms."""
    after, *ends = likely
    before = step_ms(report) or after * (speedup or 1.0)
    scale = scale_for(before, "ms")
    arrow = " → ".join(number(scaled(ms, scale)) for ms in (before, after))
    known = [number(scaled(ms, scale)) for ms in ends if ms is not None]
    between = f" ({' to '.join(known)})" if len(known) == len(ends) else ""
    limit = "up to " * bool(ends and ends[0] is not None and ends[0] >= after and after < before)
    faster = f", {limit}{figure(speedup, 'x')}" if speedup is not None else ""
    return f"{arrow} {scale.label}{between} {what}{faster}"


def evidence_value(item: Evidence) -> str:
    """A figure of evidence with what it was held against."""
    held = "" if item.threshold is None else f" (threshold {figure(item.threshold, item.unit)})"
    return figure(item.value, item.unit) + held


def step_figures(report: Report) -> list[Fact]:
    """The single figures of a step."""
    facts = []
    for f in dataclasses.fields(Metrics):
        value = getattr(report.metrics, f.name)
        # Of the step without the profiler, time and source are figures of their own, and its parts the budget.
        if f.name not in ("step_time_ms", "budget_ms", "idle_ms", "unprofiled", *STEP_GROUPS):
            facts.append(_fact(f, value))
    return facts


def step_groups(report: Report) -> list[tuple[str, list[Fact]]]:
    """Figures of a step that belong together, by title; a group that was not recorded says so."""
    groups = []
    for f in dataclasses.fields(Metrics):
        value = getattr(report.metrics, f.name)
        if f.name not in STEP_GROUPS or (value is None and f.name in OF_SOME_INPUTS):
            continue
        groups.append((STEP_GROUPS[f.name], _group(f, value)))
    return groups


def _group(f: dataclasses.Field[Any], value: Any) -> list[Fact]:
    if value is None:
        return [_fact(f, None)]
    if f.name == "phases":
        return [_phase(g, getattr(value, g.name)) for g in dataclasses.fields(value) if getattr(value, g.name)]
    if f.name in ONLY_KNOWN:
        return [fact for fact in facts_of(value) if not fact.value.startswith(NOT_AVAILABLE)]
    figures = [getattr(value, g.name) for g in dataclasses.fields(value)]
    if not any(measured(number) and number for number in figures):
        return [Fact(label(f.name), "none in the measured steps")]
    return facts_of(value)


def _phase(f: dataclasses.Field[Any], time: Any) -> Fact:
    waits = f", {figure(time.waits)} waits" if time.waits else ""
    return Fact(
        f.name, f"{figure(time.device_ms, 'ms')} GPU, {figure(time.host_ms, 'ms')} CPU{waits}", f.metadata["definition"]
    )


def facts_of(measurement: Any) -> list[Fact]:
    """The figures of a measurement."""
    return [_fact(f, getattr(measurement, f.name)) for f in dataclasses.fields(measurement)]


def _fact(f: dataclasses.Field[Any], value: Any) -> Fact:
    unit, definition = f.metadata.get("unit", ""), f.metadata.get("definition", "")
    shown = figure(value, unit)
    return Fact(label(f.name, unit), shown + why_null(definition) if shown == NOT_AVAILABLE else shown, definition)


def why_null(definition: str) -> str:
    """When a figure is null, as its definition says it, in brackets; empty where it does not."""
    reason = definition.partition("; null ")[2]
    return f" ({reason})" if reason and reason != "otherwise" else ""


def damage(item: Input) -> str:
    """What the reader met in an input, in a sentence."""
    health = item.health
    counts = {
        "repaired": health.repaired,
        "lost": health.lost,
        "clipped": health.clipped,
    }
    parts = [f"{figure(health.events)} events", *(f"{figure(n)} {what}" for what, n in counts.items() if n)]
    return ", ".join(parts) + ("; cut off before its end: copy or export it again" if health.truncated else "")


def files(report: Report) -> list[tuple[str, str, str, str, Input]]:
    """What was read: path, kind, rank, what of it, and one of the inputs meant. Of many the whole ones of a kind are
    one entry."""
    whole: dict[str, list[Input]] = {}
    for item in report.inputs:
        whole.setdefault("" if is_damaged(item) else item.kind, []).append(item)
    found = []
    for kind, items in whole.items():
        together = [items] if kind and len(items) > ONE_BY_ONE else [[item] for item in items]
        found += [_file(some) for some in together]
    return found


def _file(some: list[Input]) -> tuple[str, str, str, str, Input]:
    first, ranks = some[0], sorted(item.rank for item in some if item.rank is not None)
    if len(some) == 1:
        return first.path, first.kind, "-" if first.rank is None else str(first.rank), damage(first), first
    events, skipped = (sum(getattr(item.health, name) for item in some) for name in ("events", "skipped"))
    what = f"whole, {figure(events)} events in all" + (f", {figure(skipped)} left out on purpose" if skipped else "")
    rank = f"{ranks[0]} to {ranks[-1]}" if ranks else "-"
    return f"{first.path} and {len(some) - 1} more", first.kind, rank, what, first


def all_notes(report: Report) -> list[str]:
    """Notes on the run and on each recording."""
    return list(dict.fromkeys([*report.notes, *(note for i in report.inputs for note in i.health.notes)]))


def is_damaged(item: Input) -> bool:
    """Whether something of an input is missing or had to be mended."""
    health = item.health
    return bool(health.repaired or health.lost or health.clipped or health.truncated)


def moments_origin(report: Report) -> int | None:
    """The first moment in the report's tables: what all moments in it count from."""
    moments = [
        value
        for rows in report.tables.values()
        for row in rows
        for name in TIMESTAMPS
        if (value := getattr(row, name, None)) is not None
    ]
    return min(moments, default=None)


def table_title(name: str) -> str:
    """A table's title."""
    return BY_NAME[name].title if name in BY_NAME else name.replace("_", " ").capitalize()


def table_command(name: str) -> str | None:
    """The command that prints all of a table."""
    command = BY_NAME[name].command if name in BY_NAME else None
    return None if command is None else command.name


def definition_groups(report: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    """Names and definitions of the report's single figures and of its devices, by group."""
    nested = {"step_time_ms": "Step time", "budget_ms": "Budget", "idle_ms": "Idle by cause", **STEP_GROUPS}
    single = [(label(d.name, d.unit), d.definition) for d in definitions(Metrics) if d.name not in nested]
    groups = [("Words", list(GLOSSARY)), ("Figures of a step", single)]
    for f in dataclasses.fields(Metrics):
        value = getattr(report.metrics, f.name)
        if f.name in nested and value is not None:
            groups.append((nested[f.name], _defined(value)))
    return groups + ([("Devices", _defined(report.devices[0]))] if report.devices else [])


def table_definition_groups(report: Report) -> list[tuple[str, list[tuple[str, str]]]]:
    """Names and definitions of the columns of the tables, by table."""
    return [(table_title(name), _defined(rows[0])) for name, rows in report.tables.items() if rows]


def _defined(measurement: Any) -> list[tuple[str, str]]:
    return [(label(d.name, d.unit), d.definition) for d in definitions(type(measurement)) if d.name not in FOR_PROGRAMS]
