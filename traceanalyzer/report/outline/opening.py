"""What a report answers, before it is drawn: verdict, step times, hardware, caveats, files. The
same words in the terminal, in Markdown and on the page."""

from typing import Any

from traceanalyzer.base import plural
from traceanalyzer.report.figures.step_times import figure_unit, recorded_ms
from traceanalyzer.report.format import (
    NOT_AVAILABLE,
    figure,
    is_figure,
    number,
    plain,
    scale_for,
    scaled,
    shorten,
)
from traceanalyzer.report.model import Input, Report
from traceanalyzer.report.outline.step_facts import STEPS_FOR_P95
from traceanalyzer.trace.run import TORCH_PROFILER

SERVING = "serving"
COMPANIONS = {
    "memory_snapshot": "GPU memory",
    "torch_log": "torch.compile",
}  # where they are all that was given
TEXTS = {
    "memory_summary": "GPU memory",
    "out_of_memory": "out of memory",
    "ncu_csv": "kernels",
    "serving_summary": SERVING,
    "gpu_samples": "GPU samples",
    "compile_events": "torch.compile",
    "torch_console": "torch.compile",
    "watchdog": "hang",
    "host_profile": "host alone",
    "printed_averages": "benchmark",
    "comms_log": "communication",
    "nccl_log": "communication",
    "memory_stats": "GPU memory",
    "xla_metrics": "torch_xla",
}  # texts that were pasted: their last note says what to record
SUMS = ("key_averages", "nsys_stats", "nvprof", "rocprof_stats", "proton")
"""Tables of sums by name."""
FAILURES = {"memory-leak": "GPU memory leak", "memory-growth": "GPU memory grows"}
"""What a snapshot is on, by its finding."""
BOTH = 2
"""So many ranks, and one has to say whose figures are shown."""
CPU_ALONE = "CPU only"
STEP_TIMES = "step times"
LOGGED = {"iteration": SERVING}  # what a log is on, by the unit that it times
TIMING_LOG = "timing_log"
CPU_ONLY = "cpu-only"  # the finding on a recording without launches
LONGEST_NAME = 40  # characters of GPUs' names on the first screen
CLEAR = 0.75  # from here on a verdict is clear, likely; below it is a close call
LIKELY = 0.5
THE_FILE = "The file is "
CUT = f"{THE_FILE}cut off"
"""How a reader's note begins that says where a file is cut off; its share where it knows that."""
OF_UNKNOWN_LENGTH = f"{CUT}: how much is missing is not known"
ONE_BY_ONE = 8  # recordings of one kind that are listed one by one where nothing is wrong with them


def verdict(report: Report) -> str:
    """Bottleneck, and in a word how sure that is."""
    summary = report.summary
    alone = companion(report)
    if alone:
        return alone
    if summary.bottleneck == "inconclusive":
        return _without_verdict(report)
    sure = f" ({confidence(report)})" if summary.beside is None else ""
    return f"{causes(report)}{sure}"


def causes(report: Report) -> str:
    """The bottleneck, and the one named beside it."""
    summary = report.summary
    if summary.bottleneck == "inconclusive":
        return summary.bottleneck
    beside = f"- and {summary.beside}" if summary.beside is not None else ""
    return f"{summary.bottleneck}{beside}-bound"


def _without_verdict(report: Report) -> str:
    """What the report is on, where no part of a GPU's step can be the bottleneck."""
    if not report.devices and report.metrics.step_time_ms is not None:
        if only_kind(report) == TIMING_LOG:
            return LOGGED.get(figure_unit(report), STEP_TIMES)
        missing = any(
            item.devices or item.health.truncated or item.kind not in TORCH_PROFILER
            for item in report.inputs
        )
        if not missing and any(finding.id == CPU_ONLY for finding in report.findings):
            return CPU_ALONE
    return "inconclusive"


def confidence(report: Report) -> str:
    """How sure the verdict is, in a word: the number in the JSON is a margin, not a probability."""
    sure = report.summary.confidence
    if not is_figure(sure):
        return NOT_AVAILABLE
    return "clear" if sure >= CLEAR else "likely" if sure >= LIKELY else "close call"


def step_times_in_words(report: Report) -> str:
    """The step with and without the profiler, in a few words."""
    time = report.metrics.step_time_ms
    plainly = report.metrics.unprofiled_step_time_ms
    if time is None:
        total = recorded_ms(report)
        return "no steps" if total is None else f"no steps in {figure(total, 'ms')} of recording"
    if plainly is None:
        unit = figure_unit(report)
        by_stopwatch = only_kind(report) == TIMING_LOG
        recorded = "" if unit == "recording" or by_stopwatch else " as recorded"
        return f"{unit} {figure(time.mean, 'ms')}{recorded}"
    unsteady = report.metrics.unsteady_step_time_ms
    if unsteady is not None:
        return (
            f"{figure_unit(report)} {figure(unsteady, 'ms')} timed (unsteady), "
            f"{figure(plainly, 'ms')} replayed"
        )
    about = "about " if report.metrics.unprofiled_source == "estimated" else ""
    alike = figure(plainly, "ms") == figure(time.mean, "ms")
    profiled = "profiled or not" if alike else f"{figure(time.mean, 'ms')} with the profiler"
    return f"{figure_unit(report)} {about}{figure(plainly, 'ms')}{_ends(report)}, {profiled}"


def _ends(report: Report) -> str:
    """The range of a step that is estimated; empty for one that was timed."""
    without = report.metrics.unprofiled
    if without is None or without.source != "estimated":
        return ""
    if without.low_ms is None or without.high_ms is None:
        return ""
    scale = scale_for(without.step_time_ms, "ms")
    low, high = (number(scaled(end, scale)) for end in (without.low_ms, without.high_ms))
    return f" ({low} to {high})"


def companion(report: Report) -> str:
    """What a report without any recording of time is on; empty for others."""
    kind = only_kind(report)
    if kind == TIMING_LOG:
        return _load_alone(report)
    if kind == "memory_snapshot":
        worst = (FAILURES[one.id] for one in report.findings if one.id in FAILURES)
        failed = any(one.id.startswith("oom-") for one in report.findings)
        return "out of memory" if failed else next(worst, COMPANIONS[kind])
    return COMPANIONS.get(kind) or TEXTS.get(kind, "")


def _load_alone(report: Report) -> str:
    """What a log is on that has the load of a server and no times; empty for others."""
    has_load = report.metrics.serving is not None and report.metrics.step_time_ms is None
    return SERVING if has_load else ""


def only_kind(report: Report) -> str:
    """The kind of all that was read; empty where it is of several."""
    kinds = {item.kind for item in report.inputs}
    return kinds.pop() if len(kinds) == 1 else ""


def hardware(report: Report) -> str:
    """GPUs and steps, in a few words; of several ranks whose figures a report has."""
    known: list[Any] = [*report.devices] or [d for i in report.inputs for d in i.devices]
    names = {plain(d.name).removeprefix("NVIDIA ").removeprefix("AMD ") for d in known if d.name}
    unit = figure_unit(report)
    steps = report.metrics.step_time_ms if unit != "recording" else None
    named = shorten(", ".join(sorted(names)), LONGEST_NAME)
    what = f"{len(known)} x {named}" if len(known) > 1 and names else named
    if len(known) > 1 and not names:
        what = f"{len(known)} GPUs"
    counted = f"{steps.count} {plural(unit, steps.count)}" if steps else ""
    return ", ".join(filter(None, (what, counted, _whose_figures(report))))


def _whose_figures(report: Report) -> str:
    """The rank that figures of a step are of, where there are others; the table of ranks begins with
    it."""
    rows = report.tables.get("ranks", [])
    if len(rows) < BOTH or rows[0].rank is None:
        return ""
    return f"figures of rank {rows[0].rank}"


def caveats(report: Report) -> list[str]:
    """What spoils the figures, worst first: damage, conditions, then the notes that change what one
    would do."""
    return [*damaged_files(report), *other_caveats(report)]


def damaged_files(report: Report) -> list[str]:
    """The first damaged recording with what is missing of it, and how many more there are, in a
    sentence; none where all are whole."""
    damaged = [i for i in report.inputs if is_damaged(i)]
    more = f" (and {len(damaged) - 1} more damaged)" if len(damaged) > 1 else ""
    return [f"{plain(i.path)}: {damage(i)}{more}" for i in damaged[:1]]


def other_caveats(report: Report) -> list[str]:
    """What spoils the figures besides damage: conditions, then notes that the headline has not."""
    found = [
        f"{c.name} ({c.value}): {c.spoils}" for c in report.tables.get("conditions", []) if c.spoils
    ]
    is_text = only_kind(report) in TEXTS  # the last note is the advice
    notes = report.notes[:-1] if is_text else report.notes[: report.pressing_notes]
    return [*found, *(note for note in notes if note not in report.summary.headline)]


def step_sentence(report: Report) -> str:
    """The step time in a sentence."""
    time = report.metrics.step_time_ms
    total = recorded_ms(report)
    if total is None:
        return "n/a: no steps and no GPU work in the recording"
    if time is None:
        return f"no steps found; figures are for the whole recording of {figure(total, 'ms')}"
    unit = figure_unit(report)
    what = f"one {unit}" if time.count == 1 else f"mean of {time.count:,} {unit}s"
    text = f"{figure(time.mean, 'ms')} {what if unit != 'recording' else 'of recording, no steps'}"
    if time.count > 1:
        high = f" p95 {figure(time.p95, 'ms')}," if time.count >= STEPS_FOR_P95 else ""
        text += f" (median {figure(time.median, 'ms')},{high} std {figure(time.std, 'ms')})"
    if report.metrics.warmup_steps:
        text += f", {figure(report.metrics.warmup_steps)} warm-up left out"
    unprofiled = report.metrics.unprofiled_step_time_ms
    if unprofiled is None:
        return text
    unsteady = report.metrics.unsteady_step_time_ms
    if unsteady is not None:
        return (
            f"{figure(unsteady, 'ms')} timed without the profiler, unsteady; "
            f"{figure(unprofiled, 'ms')} by the replayed recording; with the profiler {text}"
        )
    about = "about " if report.metrics.unprofiled_source == "estimated" else ""
    return f"{about}{figure(unprofiled, 'ms')} without the profiler; with it {text}"


def recording(report: Report) -> str:
    """What was analysed, in a few words."""
    inputs = report.inputs
    if not inputs:
        return "nothing"
    kinds = {i.kind for i in inputs}
    gpus = {plain(d.name) for i in inputs for d in i.devices if d.name}
    what = plain(inputs[0].path) if len(inputs) == 1 else f"{len(inputs)} recordings"
    return f"{what} ({', '.join([*sorted(kinds), *sorted(gpus)])})"


def damage(item: Input) -> str:
    """What the reader met in an input, in a sentence. Texts have no events to count."""
    health = item.health
    counts = {
        "events": health.events,
        "repaired": health.repaired,
        "lost": health.lost,
        "clipped": health.clipped,
    }
    parts = [", ".join(f"{figure(n)} {what}" for what, n in counts.items() if n)]
    if health.truncated:
        told = (note for note in health.notes if note.startswith(CUT) and "%" in note)
        where = next(told, OF_UNKNOWN_LENGTH).removeprefix(THE_FILE).partition(". ")[0]
        parts.append(f"{where}. Copy or export it again")
    return "; ".join(filter(None, parts)) or "read whole"


def files(report: Report) -> list[tuple[str, str, str, str, Input]]:
    """What was read: path, kind, rank, what of it, one of the inputs meant. Of many whole ones of a
    kind are one."""
    by_kind: dict[str, list[Input]] = {}
    for item in report.inputs:
        by_kind.setdefault("" if is_damaged(item) else item.kind, []).append(item)
    groups: list[list[Input]] = []
    for kind, items in by_kind.items():
        groups += [items] if kind and len(items) > ONE_BY_ONE else [[item] for item in items]
    return [_file(some) for some in groups]


def _file(some: list[Input]) -> tuple[str, str, str, str, Input]:
    first = some[0]
    ranks = sorted(item.rank for item in some if item.rank is not None)
    if len(some) == 1:
        return (
            first.path,
            first.kind,
            "-" if first.rank is None else str(first.rank),
            damage(first),
            first,
        )
    events, skipped = (
        sum(getattr(item.health, name) for item in some) for name in ("events", "skipped")
    )
    what = f"whole, {figure(events)} events read" + (
        f", {figure(skipped)} not needed" if skipped else ""
    )
    rank = f"{ranks[0]} to {ranks[-1]}" if ranks else "-"
    return f"{first.path} and {len(some) - 1} more", first.kind, rank, what, first


def all_notes(report: Report) -> list[str]:
    """Notes on the run and on each recording."""
    return list(
        dict.fromkeys([*report.notes, *(note for i in report.inputs for note in i.health.notes)])
    )


def is_damaged(item: Input) -> bool:
    """Whether something of an input is missing or had to be mended."""
    return any((item.health.repaired, item.health.lost, item.health.clipped, item.health.truncated))
