"""What every report has to agree with itself on: each invariant names what a report would
contradict."""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import TYPE_CHECKING

from traceanalyzer.base import digits
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.model import TOP_ROWS
from traceanalyzer.report.outline import breakdown
from traceanalyzer.report.outline.gains import on_first_screen
from traceanalyzer.report.terminal.screen import SHOWN_CHANGES, render_screen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traceanalyzer.analysis.tables.step_figures import Budget, Idle
    from traceanalyzer.diagnosis.finding import Recommendation
    from traceanalyzer.report.model import Report

NEAR = 1e-6
"""Share of the step by which sums of floating-point numbers may differ."""
CLOSE = 0.1
"""Parts that differ by less of the step are equally large."""
PAYS = 1.2
"""A speedup from which what is changed may be named before a larger part."""
SURE = 0.7
"""Confidence from which the first advice has to be for the cause that the verdict names."""
SHOWN_IDLE = 0.1
"""Share of the step from which the causes of idle time are compared with the recorded ones."""
ROUNDED = 0.0051
"""Half a per cent: what a headline's whole per cents are off by."""
LEAST_SHOWN = 1.05
"""What gains less is not on the first screen."""
SAYS_WHY = ("gains most", "would not shorten it")
"""What a headline says where the verdict is not the largest part."""
UNKNOWN_CAUSES = ("profiler", "other")
"""Causes of idle time that are the recorder's own, or not known."""
UNTOLD = "nothing is predicted"
ON_DEVICE = ("compute", "memory")


def contradictions(report: Report) -> list[str]:
    """Each invariant that a report breaks, with what breaks it."""
    return [
        f"{check.__name__}: {why}"
        for check in INVARIANTS
        for why in check(report)
        if report.devices
    ]


def parts_sum_to_the_step(report: Report) -> Iterator[str]:
    """The parts of the step sum to it, and the causes of idle time to the idle time."""
    for name, step_ms, budget, idle in _steps(report):
        total = sum(astuple(budget))
        if abs(total - step_ms) > 1e-3 * step_ms:
            yield f"the parts of the {name} step sum to {total} of {step_ms}"
        if abs(sum(astuple(idle)) - budget.idle) > 1e-3 * step_ms:
            yield f"the causes of the {name} step's idle time sum to {sum(astuple(idle))} of {budget.idle}"


def headrooms_are_within_the_step(report: Report) -> Iterator[str]:
    """All headrooms together are no more than the step."""
    step_ms = report.summary.step_ms
    total = sum(one.headroom_ms or 0.0 for one in report.findings)
    if step_ms is not None and total > step_ms * (1 + NEAR):
        yield f"headrooms of {total} in a step of {step_ms}"


def no_advice_gains_more_than_its_headroom(report: Report) -> Iterator[str]:
    """Advice on a finding gains no more than the finding claims."""
    step_ms = report.summary.step_ms
    room = {one.id: one.headroom_ms for one in report.findings}
    for advice in report.recommendations:
        most = next(
            (ms for name, ms in room.items() if f"{advice.id}-".startswith(f"{name}-")), None
        )
        if step_ms is None or most is None or advice.predicted_step_ms is None:
            continue
        gain = step_ms - advice.predicted_step_ms
        if gain > most + NEAR * step_ms:
            yield f"{advice.remedy} gains {gain} of a headroom of {most}"


def each_point_is_inside_its_range(report: Report) -> Iterator[str]:
    """A predicted time lies between the ends of its range, not on one of them."""
    for name, low, point, high in _ranges(report):
        if not low * (1 - NEAR) <= point <= high * (1 + NEAR):
            yield f"{name}: {point} outside {low} to {high}"


def a_shown_range_excludes_no_gain(report: Report) -> Iterator[str]:
    """On the first screen a range that holds today's step is marked, and comes after the others."""
    marked = False
    for advice in on_first_screen(report)[:SHOWN_CHANGES]:
        if advice.may_not_help:
            marked = True
        elif _holds_no_gain(report, advice):
            yield f"{advice.remedy}: {advice.high_ms} of {report.summary.step_ms} is no gain"
        elif marked and advice.predicted_step_ms is not None:
            yield f"{advice.remedy} comes after what may not help"


def what_is_shown_gains(report: Report) -> Iterator[str]:
    """Nothing that gains less than a twentieth is on the first screen."""
    for advice in on_first_screen(report)[:SHOWN_CHANGES]:
        speedup = advice.predicted_speedup
        if speedup is not None and speedup < LEAST_SHOWN:
            yield f"{advice.remedy} gains {speedup}x"


def the_verdict_is_the_largest_part(report: Report) -> Iterator[str]:
    """Or nearly so, or what pays."""
    parts = _parts(report)
    cls = report.summary.bottleneck
    if not parts or cls == "inconclusive" or not report.summary.step_ms:
        return
    own = parts.get("device" if cls in ON_DEVICE else cls, 0.0)
    largest = max(parts, key=parts.__getitem__)
    pays = any(
        advice.cls == cls and (advice.predicted_speedup or 0.0) >= PAYS
        for advice in report.recommendations
    )
    pays |= any(words in report.summary.headline for words in SAYS_WHY)
    if own < parts[largest] - CLOSE * report.summary.step_ms and not pays:
        yield f"{cls} is {own}, {largest} is {parts[largest]}"


def the_first_advice_answers_the_verdict(report: Report) -> Iterator[str]:
    """What is advised first is for the cause of a sure verdict, or says why it is not."""
    summary = report.summary
    if summary.bottleneck == "inconclusive" or summary.confidence <= SURE:
        return
    for advice in report.recommendations[:1]:
        named = {summary.bottleneck, summary.beside}
        named |= set(ON_DEVICE) if named & set(ON_DEVICE) else set()
        if advice.cls not in named and not advice.instead:
            yield f"{summary.bottleneck}-bound, and first comes {advice.remedy} ({advice.cls})"


def idle_time_has_the_cause_of_the_gaps(report: Report) -> Iterator[str]:
    """What most of the idle time waits for is what most of the recorded gaps wait for, but for the
    profiler and for what it made longer."""
    known = report.metrics.unprofiled
    recorded = report.metrics.idle_ms
    if known is None or recorded is None or report.summary.basis != "unprofiled":
        return
    if known.budget_ms.idle < SHOWN_IDLE * known.step_time_ms:
        return
    before = {name: ms for name, ms in vars(recorded).items() if name not in UNKNOWN_CAUSES}
    after = {name: ms for name, ms in vars(known.idle_ms).items() if name not in UNKNOWN_CAUSES}
    if sum(before.values()) < sum(after.values()):
        return  # gaps that the replay alone has
    first = max(after, key=after.__getitem__)
    of_gaps = max(before, key=before.__getitem__)
    recorded_step_ms = recorded_ms(report) or 0.0
    if before[of_gaps] - before[first] < CLOSE * recorded_step_ms:
        return  # the gaps are of both alike
    if before[of_gaps] - after[of_gaps] <= recorded_step_ms - known.step_time_ms:
        return  # what the step is longer by with the profiler
    if first != of_gaps and after[first] - after[of_gaps] > CLOSE * known.budget_ms.idle:
        yield f"idle by {first} ({after[first]}), and the gaps by {of_gaps} ({before[of_gaps]})"


def no_idle_time_is_invented(report: Report) -> Iterator[str]:
    """A step that is longer without the profiler has no idle time that was not recorded."""
    known = report.metrics.unprofiled
    recorded = report.metrics.budget_ms
    if known is None or recorded is None or known.step_time_ms < sum(astuple(recorded)):
        return
    waits_for_data = known.idle_ms.input - (
        report.metrics.idle_ms.input if report.metrics.idle_ms else 0.0
    )
    invented = known.budget_ms.idle - recorded.idle - max(waits_for_data, 0.0)
    if invented > NEAR * known.step_time_ms:
        yield f"{invented} of idle time in a step of {known.step_time_ms}"


def nothing_is_predicted_where_nothing_can_be(report: Report) -> Iterator[str]:
    """No prediction stands on a report that says that there is none."""
    untold = any(UNTOLD in note for note in report.notes)
    for advice in report.recommendations:
        if untold and advice.predicted_step_ms is not None:
            yield f"{advice.remedy} is predicted, and the notes say that nothing is"


def tables_sum_to_the_step(report: Report) -> Iterator[str]:
    """Idle time by place sums to that of the step without the profiler, cause by cause, and what
    syncs cost is no more than the idle time after syncs."""
    known = report.metrics.unprofiled
    places = report.tables.get("gap_places", [])
    if known is None or len(places) >= TOP_ROWS:
        return
    if any(row.unprofiled_idle_ms is None for row in places):
        return
    for cause, time_ms in vars(known.idle_ms).items():
        total = sum(row.unprofiled_idle_ms for row in places if row.cause == cause)
        if places and abs(total - time_ms) > NEAR * known.step_time_ms:
            yield f"idle by {cause} is {time_ms}, by place {total}"
    after_syncs = sum(row.unprofiled_idle_ms or 0.0 for row in report.tables.get("syncs", []))
    if after_syncs > known.idle_ms.sync + NEAR * known.step_time_ms:
        yield f"syncs cost {after_syncs} of {known.idle_ms.sync}"


def the_headline_has_the_figures_of_the_budget(report: Report) -> Iterator[str]:
    """How long the GPU computes by the headline is what the budget shows."""
    found = re.search(r"the GPU computes for .*?\((\d+)%\)", report.summary.headline)
    shown = [part.share for part in breakdown.budget(report) if part.label == "compute"]
    if found and shown and abs(int(found[1]) / 100 - shown[0]) > ROUNDED:
        yield f"computes for {found[1]}%, and the budget has {shown[0]:.1%}"


def next_explains_the_verdict(report: Report) -> Iterator[str]:
    """What *Next* explains is a finding on the cause that the verdict names."""
    summary = report.summary
    screen = render_screen(report)
    found = re.search(r"explain ([\w-]+)", screen[screen.rfind("Next: ") :])
    if found is None or summary.bottleneck == "inconclusive":
        return
    named = {summary.bottleneck, summary.beside}
    named |= set(ON_DEVICE) if named & set(ON_DEVICE) else set()
    classes = {one.id: one.cls for one in report.findings}
    if classes[found[1]] not in named:
        yield f"{summary.bottleneck}-bound, and Next explains {found[1]}"


INVARIANTS: tuple[Callable[[Report], Iterator[str]], ...] = (
    parts_sum_to_the_step,
    headrooms_are_within_the_step,
    no_advice_gains_more_than_its_headroom,
    each_point_is_inside_its_range,
    a_shown_range_excludes_no_gain,
    what_is_shown_gains,
    the_verdict_is_the_largest_part,
    the_first_advice_answers_the_verdict,
    idle_time_has_the_cause_of_the_gaps,
    no_idle_time_is_invented,
    nothing_is_predicted_where_nothing_can_be,
    tables_sum_to_the_step,
    the_headline_has_the_figures_of_the_budget,
    next_explains_the_verdict,
)


def _steps(report: Report) -> Iterator[tuple[str, float, Budget, Idle]]:
    """Name, length, budget and idle time of the recorded step, and of that without the profiler."""
    metrics = report.metrics
    if metrics.budget_ms is not None and metrics.idle_ms is not None and metrics.step_time_ms:
        yield "recorded", metrics.step_time_ms.mean, metrics.budget_ms, metrics.idle_ms
    if metrics.unprofiled is not None:
        known = metrics.unprofiled
        yield "unprofiled", known.step_time_ms, known.budget_ms, known.idle_ms


def _parts(report: Report) -> dict[str, float]:
    """Time of each part of the step that the report speaks of, under the class that it is for."""
    metrics = report.metrics
    of = metrics.unprofiled if report.summary.basis == "unprofiled" else metrics
    if of is None or of.budget_ms is None or of.idle_ms is None:
        return {}
    budget = of.budget_ms
    idle = of.idle_ms
    waiting = metrics.unprofiled.waiting_ms if metrics.unprofiled is not None else None
    waits = vars(waiting) if waiting is not None and of is metrics.unprofiled else {}
    within = min(metrics.copied_within_gpu_ms or 0.0, budget.exposed_copy)
    parts = {cause: getattr(idle, cause) for cause in ("launch", "sync", "input", "host")}
    parts = {cause: ms + waits.get(cause, 0.0) for cause, ms in parts.items()}
    others = sum(ms for part, ms in waits.items() if part != "transfer")
    return {
        **parts,
        "device": budget.compute + within + waits.get("compute", 0.0),
        "communication": budget.exposed_communication - others + idle.communication,
        "transfer": budget.exposed_copy - within + waits.get("copy", 0.0),
        "unexplained": idle.other + idle.profiler,
    }


def _ranges(report: Report) -> Iterator[tuple[str, float, float, float]]:
    """Name, low end, point and high end of each range of the report."""
    known = report.metrics.unprofiled
    if known is not None:
        yield "step", known.low_ms, known.step_time_ms, known.high_ms
    for advice in report.recommendations:
        more = advice.as_much_work
        likely = (
            (advice.low_ms, advice.predicted_step_ms, advice.high_ms)
            if more is None
            else (more.low_ms, more.time_ms, more.high_ms)
        )
        low, point, high = likely
        if low is not None and point is not None and high is not None:
            yield str(advice.remedy), low, point, high


def _holds_no_gain(report: Report, advice: Recommendation) -> bool:
    step_ms = report.summary.step_ms
    if advice.predicted_step_ms is None or step_ms is None or advice.high_ms is None:
        return False
    return advice.high_ms >= step_ms or digits(advice.high_ms) == digits(step_ms)
