"""What a finding holds and where in the code it is, and what a recommendation would bring, in
words."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from traceanalyzer.analysis.groups.seen_conditions import PRODUCT_FORMATS
from traceanalyzer.analysis.names.kernel_names import function_name
from traceanalyzer.analysis.roofline.roofline_rows import MODELLED_SHARE
from traceanalyzer.base import MEMORY
from traceanalyzer.diagnosis.finding import (
    AGAINST,
    BOUNDED,
    REPLAYED,
    START_UP,
    AfterOthers,
    AtStart,
    Evidence,
    Finding,
    Recommendation,
    begins_with_id,
)
from traceanalyzer.diagnosis.memory import MemoryRecommendation
from traceanalyzer.diagnosis.ranking import (
    advice_on,
    gained_ms,
    is_for_first_screen,
    of_verdict,
    ranked_findings,
)
from traceanalyzer.replay.prediction import assumptions
from traceanalyzer.report.brief import CHANGES, shown_path
from traceanalyzer.report.figures.step_times import figure_unit, recorded_ms, step_ms
from traceanalyzer.report.format import (
    becomes,
    figure,
    number,
    plain,
    scale_for,
    scaled,
    step_figure,
)
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.opening import (
    CPU_ALONE,
    SERVING,
    STEP_TIMES,
    SUMS,
    TEXTS,
    companion,
    only_kind,
    verdict,
)

RECORDERS = {"nsys": "nsys", "xplane": "jax"} | dict.fromkeys(
    ("rocpd", "rocprofv3", "rocprofv3_csv", "rpd", "rocprof", "rocprof_csv"), "rocprofv3"
)
"""The recorder of `collect` by kind of recording, where it is not `torch`."""
LEAST_LOADING = 0.02  # of a step on the CPU, from which loading data is named
BUSY = 0.9  # share of the step from which a GPU counts as busy
TABLES = {
    "sync": "show syncs",
    "launch": "gaps",
    "host": "gaps",
    "input": "gaps",
    "compute": "show kernels",
    "memory": "show kernels",
    "communication": "show comm",
    "transfer": "show copies",
}
"""The command whose table shows a bottleneck's places."""
OF_THE_STEP = "of the step"
"""What evidence on a cause says that is a share of the step that the report speaks of."""
ROUNDING = 0.001
"""Share of the step by which a headroom may exceed its cause before words say so."""
NO_SUM = "gains do not add up"
INTERPRETER = "python"
"""Names of processes that begin so are Python's: which script they ran is not recorded."""
OF_ANY_PROGRAM = ("nsys", "rocpd", "rocprofv3", "rpd", "unitrace")
"""Recorders of programs in any language."""
NOTHING_FOUND = "Nothing found: the GPU is busy for {} of the {}."
LIMITS_NOT_MEASURED = " What limits its kernels is not measured."
OF_A_PATH = "PATH"  # of several recordings
NOTHING_HELPS = "No known remedy is predicted to help."
NOT_ENOUGH = "Not enough data."
FEW_OPS = "Inconclusive: only "
"""How the headline begins of a recording with hardly any GPU work: it may be all that the program has."""
HARDLY_ANY = "So little GPU work has nothing to change that would show."
BY_COUNTERS = "collect ncu"
LIMIT_UNKNOWN = "What limits the kernels is not in a timeline."
FIRST_USE = "first-use"
GROWS = "memory-growth"
SMALL_GAIN = "Only a small gain is predicted: {} with {} (--full says how)."
FULL_PRECISION = "fp32"
IN_FULL_PRECISION = "No gain is predicted, but matrix kernels run in fp32: try autocast, or TF32 where the GPU has it."
BOTH = 2  # ends of a range
MOST_LEADS = 3
"""Lines, and kernels: a run under Nsight Compute repeats each of their launches many times."""
OF_KERNELS = (
    "compute",
    "memory",
)  # classes whose cause is in kernels; the others' is in what the CPU does
KNOWS_NCU = (None, "nvidia")  # makers of GPUs that Nsight Compute knows, as far as that is recorded


def headroom(report: Report, finding: Finding) -> str:
    """What removing the cause of a finding would save; empty for a finding on the recording, which
    has no such time."""
    if finding.headroom_ms is None:
        return _gained(report, finding) or _unknown_headroom(report, finding)
    total = step_ms(report)
    share = (
        f", {figure(finding.headroom_ms / total, 'share')} of the {figure_unit(report)}"
        if total
        else ""
    )
    return f"headroom {step_figure(finding.headroom_ms)}{share}{_beyond_cause(report, finding)}"


def _beyond_cause(report: Report, finding: Finding) -> str:
    """That a headroom is what advice gains, where this cause alone takes less; empty where it
    takes as much."""
    total_ms = step_ms(report)
    cause = finding.evidence[0] if finding.evidence else None
    if cause is None or cause.unit != "share" or not isinstance(cause.value, float):
        return ""
    if OF_THE_STEP not in cause.where or not total_ms or finding.headroom_ms is None:
        return ""
    if finding.headroom_ms <= (cause.value + ROUNDING) * total_ms:
        return ""
    predicted = [
        one
        for one in advice_on(finding, report.recommendations)
        if one.predicted_step_ms is not None
    ]
    best = min(predicted, key=lambda one: one.predicted_step_ms or 0.0, default=None)
    if best is None:
        return ""
    return (
        f": what {id_of(best)} gains, more than this cause alone ({figure(cause.value, 'share')})"
    )


def _gained(report: Report, finding: Finding) -> str:
    """What the best advice on a finding gains; empty where none tells."""
    gain_ms = gain_of_advice_ms(report, finding)
    if gain_ms is not None:
        return f"headroom {step_figure(gain_ms)}: what its advice gains"
    advised = advice_on(finding, report.recommendations)
    starts = [one.at_start for one in advised if one.at_start and one.at_start.now_s is not None]
    saved_s = max(((one.now_s or 0.0) - one.compile_s for one in starts), default=0.0)
    return f"headroom {figure(saved_s, 's')} of each start" if saved_s > 0.0 else ""


def gain_of_advice_ms(report: Report, finding: Finding) -> float | None:
    """What the best advice on a finding gains, ms; None where none tells."""
    return gained_ms(finding, report.recommendations, step_ms(report))


def _unknown_headroom(report: Report, finding: Finding) -> str:
    if finding.cls == "inconclusive":
        return ""
    return "headroom unknown" if report.devices else "headroom unknown without a trace"


def example_command(report: Report) -> str:
    """How to run the program, in an example: the recorded command, else the recorded process."""
    recorded = {row.name: str(row.value) for row in report.tables.get("conditions", [])}
    command = recorded.get("command", "")
    if " " in command:  # an interpreter alone runs nothing
        return command
    names = [item.program for item in report.inputs if item.program]
    compiled = [name for name in names if not name.lower().startswith(INTERPRETER)]
    if compiled:
        return f"./{shlex.quote(plain(compiled[0]))}"
    if report.tables.get("iterations"):
        return "python serve.py"
    is_native = only_kind(report) in OF_ANY_PROGRAM and report.metrics.program is None
    return "./your_program" if is_native and not names else "python train.py"


def no_advice(report: Report, *, has_next: bool = False) -> str:
    """Why nothing is recommended, or what to record. `has_next`: whether commands to type next
    stand below, of which the first goes further."""
    bottleneck = report.summary.bottleneck
    evidence = {
        e.metric: str(e.value) for f in reversed(report.findings) for e in reversed(f.evidence)
    }
    kind = only_kind(report)
    if kind in TEXTS and report.notes:
        return report.notes[-1]
    if companion(report) == SERVING:
        return "No recommendation: the log does not say what to change."
    if companion(report):
        return "Nothing to change."
    if kind in SUMS:
        return "No recommendation: sums by name do not tell what waits for what."
    if not report.devices:
        return _without_a_gpu(report, evidence.get("next step", ""))
    if report.findings and bottleneck == "inconclusive":
        following = evidence.get("next step", _recording_that_tells(report))
        return _to_record(report, following)
    return f"{_why_nothing(report)}{'' if has_next else _further(report)}"


def _to_record(report: Report, following: str) -> str:
    """Why there is no advice, and which recording would tell."""
    if FEW_OPS in report.summary.headline:
        return f"{HARDLY_ANY} Next, with more of it: {following}."
    why = LIMIT_UNKNOWN if BY_COUNTERS in following else NOT_ENOUGH
    return f"{why} Next: {following}."


def _further(report: Report) -> str:
    """The command whose table shows the bottleneck's places, in a sentence."""
    command = TABLES.get(report.summary.bottleneck, "show kernels")
    path = report.inputs[0].path if len(report.inputs) == 1 else ""
    return f" To go further: traceanalyzer {command} {shown_path(path, OF_A_PATH)}"


def _why_nothing(report: Report) -> str:
    """Why the first screen advises nothing for a GPU, in a sentence."""
    small = [one for one in report.recommendations if one.predicted_speedup is not None]
    if small:
        best = max(small, key=lambda one: one.predicted_speedup or 1.0)
        return SMALL_GAIN.format(factor(report, best), id_of(best))
    if report.summary.bottleneck not in OF_KERNELS:
        return NOTHING_HELPS
    if FULL_PRECISION in _formats_of_products(report):
        return IN_FULL_PRECISION
    busy = getattr(report.metrics.utilisation, "gpu_busy_share", None) or 0.0
    if busy < BUSY:
        return NOTHING_HELPS
    found = NOTHING_FOUND.format(figure(busy, "share"), figure_unit(report))
    roofline = report.metrics.roofline
    is_measured = roofline is not None and roofline.modelled_share >= MODELLED_SHARE
    return found if is_measured else f"{found}{LIMITS_NOT_MEASURED}"


def _formats_of_products(report: Report) -> list[str]:
    """Number formats of the matrix kernels; none where they are not known."""
    conditions = report.tables.get("conditions", [])
    found = (one.value for one in conditions if one.name == PRODUCT_FORMATS)
    return next(found, "").split(", ")


def _without_a_gpu(report: Report, lacking: str) -> str:
    """What can be said where no GPU was recorded; `lacking`: what a finding says to record."""
    if verdict(report) == CPU_ALONE:
        record = f"traceanalyzer collect torch -- {example_command(report)}"
        return f"{_loading(report)}On the GPU host: {record}"
    if verdict(report) in (STEP_TIMES, SERVING):
        timed = "times of iterations" if report.tables.get("iterations") else "step times"
        why = f"No recommendation: {timed} do not tell what to change."
        record = "traceanalyzer collect torch"
        if record in report.summary.headline:
            return f"{why} To find out: {record} -- {example_command(report)}"
        return why
    if lacking in report.summary.headline:
        cut_off = "the file is cut off before its GPU events"
        why = cut_off if report.is_cut_off else "the GPU was not recorded"
        return f"No recommendation: {why}."
    return lacking


def _loading(report: Report) -> str:
    """What of a step on the CPU a GPU does not shorten, in a sentence."""
    phases = report.metrics.phases
    data_ms = phases.data.host_ms if phases and phases.data else 0.0
    if data_ms < LEAST_LOADING * (recorded_ms(report) or 0.0):
        return ""
    return f"A GPU does not shorten the data loading: {figure(data_ms, 'ms')} of each step. "


def _recording_that_tells(report: Report) -> str:
    """What to record, with the recorder that made this recording where it is not PyTorch's."""
    if START_UP in report.summary.headline:
        return "traceanalyzer analyze CAPTURE REPLAYS"
    if report.tables.get("iterations"):
        return "record more iterations of the server, with its profiler's CPU and GPU activities"
    recorder = RECORDERS.get(only_kind(report), "torch")
    return f"traceanalyzer collect {recorder} -- {example_command(report)}"


def without_advice(report: Report) -> str | None:
    """Findings with a headroom against which nothing is advised, in a sentence; None where there is
    none, and where nothing is advised at all."""
    costly = [one.id for one in report.findings if one.headroom_ms and one.cls != "inconclusive"]
    advised = [advice.id for advice in report.recommendations]
    # where gains of advice sum to more than the step, it may stand under a larger finding
    advised += [AGAINST.get(advice.remedy or "", "") for advice in report.recommendations]
    left = _not_advised(costly, advised)
    if not left or not advised:
        return None
    return f"Nothing is advised against {', '.join(left)}: no known remedy fits, or it gains too little."


def _not_advised(ids: Sequence[str], advised: Sequence[str]) -> list[str]:
    return [id_ for id_ in ids if not any(begins_with_id(advice, id_) for advice in advised)]


def explained(report: Report) -> Finding | None:
    """The finding that *Next* explains: the largest on the cause that the verdict names, else on
    the one named beside it, and None where no finding is on either; without a verdict the one on
    the largest part of the step."""
    summary = report.summary
    if summary.bottleneck == "inconclusive":
        if not report.devices:
            return next(iter(report.findings), None)
        return next(
            (one for one in report.findings if one.cls in _classes_of_largest(report)), None
        )
    return of_verdict(findings_to_read(report), summary)


def findings_to_read(report: Report) -> list[Finding]:
    """The findings in the order in which a page or a screen has them: what the verdict rests on
    first. JSON and tables have them by headroom."""
    return ranked_findings(report.findings, report.recommendations, report.summary)


def _classes_of_largest(report: Report) -> tuple[str, ...]:
    """The classes of findings on the largest part of the step; what no cause explains is of the
    class inconclusive."""
    metrics = report.metrics
    known = metrics.unprofiled if report.summary.basis == "unprofiled" else metrics
    if known is None or known.budget_ms is None or known.idle_ms is None:
        return ()
    budget = known.budget_ms
    if budget.idle > budget.compute:
        idle = vars(known.idle_ms)
        largest = max(idle, key=idle.__getitem__)
        return (largest,) if largest in TABLES else ("inconclusive",)
    return OF_KERNELS


def on_first_screen(report: Report) -> list[Recommendation]:
    """The advice whose gain is not small, or not known of something definite."""
    return [one for one in report.recommendations if is_for_first_screen(one)]


def changes_title(shown: Sequence[Recommendation], count: int, rest: str = "") -> str:
    """What stands above the first changes: how many of `count` they are, and where the `rest` is,
    and that two gains are not both had: each starts from today's step."""
    about = [f"{len(shown)} of {count}{rest}"] if len(shown) < count else []
    if sum(one.gain_is_known for one in shown) > 1:
        about.append(NO_SUM)
    return f"{CHANGES} ({'; '.join(about)})" if about else CHANGES


def rule_of_order(shown: Sequence[Recommendation]) -> str:
    """By what rule the first changes are ordered, in a sentence; empty where each gains less than
    the one before it, as one expects."""
    rules = []
    for before, after in pairwise(shown):
        if _speedup(after) <= _speedup(before):
            continue
        if after.may_not_help > before.may_not_help:
            rules.append("what may not help last")
        elif after.as_much_work or after.together:
            rules.append("what shortens a step by itself first")
        else:
            rules.append("what the verdict names first, where it gains about as much")
    return f"Order: {'; '.join(dict.fromkeys(rules))}." if rules else ""


def _speedup(advice: Recommendation) -> float:
    """How many times as fast advice makes a step, as much work, or a step with others; 0 where that
    is not known."""
    more = advice.as_much_work or advice.together
    return (more.speedup if more else advice.predicted_speedup) or 0.0


def id_of(advice: Recommendation) -> str:
    """The name by which `explain` and `whatif` know it: the remedy's, else that of its finding."""
    return advice.remedy or advice.id


def named(advice: Recommendation) -> str:
    """Its name by what JSON calls that: `remedy`, or `id` where there is none."""
    return f"remedy: {advice.remedy}" if advice.remedy else f"id: {advice.id}"


def in_full(gain: str, effort: str | None, name: str) -> str:
    """What advice gains, what it takes and what it is called, on the line below it."""
    of_effort = f"; effort: {effort}" if effort else ""
    return f"{gain}{of_effort}; {name}"


def prediction_and_effort(report: Report, advice: Recommendation) -> str:
    """What following a recommendation would bring, and what it takes."""
    of_effort = f", {advice.effort}" if advice.effort else ""
    return f"{prediction(report, advice)}{of_effort}"


def prediction(report: Report, advice: Recommendation) -> str:
    """What following a recommendation would bring, how many times faster that is, and whether it
    may not help."""
    faster = factor(report, advice)
    return f"{_gain(report, advice)}{f', {faster}' if faster else ''}{_may_not(advice)}"


def prediction_alone(report: Report, advice: Recommendation) -> str:
    """What following a recommendation would bring, where `factor` stands beside it."""
    return f"{_gain(report, advice)}{_may_not(advice)}"


def assumed(advice: Recommendation) -> list[str]:
    """What an estimate takes for granted: on one line, or below a line that ends with a colon."""
    how = next((how for how in (REPLAYED, BOUNDED) if advice.basis.startswith(how)), "")
    points = assumptions(advice.basis.removeprefix(f"{how}: "))
    head = f"Assumes ({how}):" if how else "Assumes:"
    return [head, *points] if len(points) > 1 else [f"{head} {points[0]}"]


def factor(report: Report, advice: Recommendation) -> str:
    """How many times as fast a step would be; empty where that is not known."""
    if advice.predicted_peak_bytes is not None:
        return ""
    if report.metrics.unsteady_step_time_ms is not None:  # of a step at which it was not seen
        return ""
    more = advice.as_much_work or advice.together
    after_ms, low_ms, _ = more.likely_ms if more else advice.likely_ms
    speedup = more.speedup if more else advice.predicted_speedup
    if after_ms is None or speedup is None:
        return ""
    before_ms = step_ms(report) or after_ms * speedup
    is_best = low_ms is not None and before_ms > after_ms <= low_ms
    return f"{'up to ' if is_best else ''}{figure(speedup, 'x')}"


def _may_not(advice: Recommendation) -> str:
    return ", may not help" if advice.may_not_help else ""


def _gain(report: Report, advice: Recommendation) -> str:
    if advice.predicted_peak_bytes is not None:
        memory = report.metrics.memory
        before = None
        if memory is not None:
            is_peak = advice.predicted_reserved_bytes is None
            before = memory.peak if is_peak else memory.reserved
        return saved_memory(advice, before)
    more = advice.as_much_work
    if more is not None:
        return _arrow(report, more.likely_ms, "for the same work", more.speedup)
    both = advice.together
    if both is not None:
        return _arrow(report, both.likely_ms, _with_others(both), both.speedup)
    if advice.predicted_step_ms is None:
        return _unknown(report, advice) if advice.at_start is None else _of_start(advice.at_start)
    likely = (advice.predicted_step_ms, advice.low_ms, advice.high_ms)
    unit = figure_unit(report)
    each = f"per {unit}" if unit != "recording" else "for the recording"
    if advice.id == FIRST_USE and is_only_step(report):
        each = "once, for the step recorded"
    return _arrow(report, likely, each, advice.predicted_speedup)


def saved_memory(advice: Recommendation | MemoryRecommendation, before: float | None) -> str:
    """Bytes before and after a change, of the peak or of what is reserved. The final size of what
    goes on to grow is not recorded."""
    after = advice.predicted_reserved_bytes
    when = "reserved at best"
    if after is None:
        after = advice.predicted_peak_bytes
        when = "at the peak"
    grown = ", with room for the recorded steps alone" if advice.id.startswith(GROWS) else ""
    sizes = becomes(before, after or 0, MEMORY) if before else figure(after, MEMORY)
    return f"{sizes} {when}{grown}"


def _with_others(both: AfterOthers) -> str:
    """With which other changes, and the step that these lead to by themselves."""
    alone = "" if both.first_ms is None else f" ({step_figure(both.first_ms)} by itself)"
    return f"with {' and '.join(both.remedies)}{alone}"


def _unknown(report: Report, advice: Recommendation) -> str:
    """What is known of a gain that is not predicted: no more than what its finding costs."""
    costs = (one.headroom_ms for one in report.findings if one.id == advice.id)
    most_ms = next(costs, None)
    return f"gain unknown, at most {figure(most_ms, 'ms')}" if most_ms else "gain unknown"


def is_only_step(report: Report) -> bool:
    """Whether a single step was recorded."""
    return report.metrics.step_time_ms is not None and report.metrics.step_time_ms.count == 1


def _of_start(start: AtStart) -> str:
    """Seconds in compilations at each start: today, with the change, and the range of that."""
    now = f"{number(start.now_s)} → " if start.now_s else ""
    ends = [number(one) for one in (start.low_s, start.high_s) if one is not None]
    between = f" ({ends[0]} to {ends[1]})" if len(ends) == BOTH else ""
    return f"{now}{number(start.compile_s)} s{between} of compilation"


def _arrow(
    report: Report,
    likely: tuple[float, float | None, float | None],
    what: str,
    speedup: float | None,
) -> str:
    """Today's step, what it becomes, and the range of that, ms."""
    after, *ends = likely
    before = step_ms(report) or after * (speedup or 1.0)
    scale = scale_for(before, "ms")
    arrow = " → ".join(number(scaled(ms, scale)) for ms in (before, after))
    known = [number(scaled(ms, scale)) for ms in ends if ms is not None]
    between = f" ({' to '.join(known)})" if len(known) == len(ends) else ""
    return f"{arrow} {scale.label}{between} {what}"


def evidence_value(item: Evidence) -> str:
    """A figure of evidence with the threshold that it was compared with."""
    against = "" if item.threshold is None else f" (threshold {figure(item.threshold, item.unit)})"
    return figure(item.value, item.unit) + against


def leads(report: Report, finding: Finding) -> Iterator[str]:
    """What leads from a finding to the code, a sentence each; none where the recording does not
    tell."""
    where = [item.where for item in finding.evidence]
    rows = _places(report, finding.cls, where)
    yield from _code(rows, where)
    # Run again and again, collectives would wait for other ranks for ever.
    kernels = [row for row in rows if row.cls != "collective"] if finding.cls in OF_KERNELS else []
    known = [row for row in kernels if row.main_stall is not None]
    for row in known[:MOST_LEADS]:
        waited = figure(row.main_stall_share, "share")
        yield f"warps of {row.name} wait for {row.main_stall}: {waited} of their cycles, by ncu"
    unknown = [function_name(row.full_name) for row in kernels if row.main_stall is None]
    functions = [*dict.fromkeys(unknown)][:MOST_LEADS]
    if functions and all(one.vendor in KNOWS_NCU for one in report.inputs):
        wanted = shlex.quote(f"regex:^({'|'.join(map(re.escape, functions))})$")
        program = example_command(report)
        yield f"what limits its kernels: ncu --set basic --section WarpStateStats -k {wanted} -c 10 {program}"


def _places(report: Report, cls: str, where: list[str]) -> list[Any]:
    if cls in OF_KERNELS:
        return [row for row in report.tables.get("kernels", []) if row.name in where]
    if cls == "transfer":
        return [
            row for row in report.tables.get("ops", []) if any(row.name in one for one in where)
        ]
    return [row for row in report.tables.get("gap_places", []) if row.cause == cls]


def _code(rows: list[Any], where: list[str]) -> Iterator[str]:
    """The lines of the program that rows have and the evidence does not name."""
    lines = dict.fromkeys(row.python for row in rows)
    known = "\n".join(where)
    new = [line for line in lines if line and line not in known]
    if new:
        yield f"code: {', '.join(new[:MOST_LEADS])}"
