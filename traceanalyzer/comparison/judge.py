"""The verdict: by the best evidence of the step, with the speed of both machines taken out.

The step without the profiler where both sides have it, else the recorded one. Two readings of its
change count: as it is, and at A's speed of host and GPU. What is neither seen in both nor found in
certain places is the machine's."""

import math

from traceanalyzer.base import dataclass, digits, signed_share
from traceanalyzer.comparison.evidence import SpeedEvidence
from traceanalyzer.comparison.model import Basis, Difference, Word
from traceanalyzer.comparison.speed import Speed, usual_gpu_factor, usual_host_factor
from traceanalyzer.report.model import Report

SEEN = 0.03  # a change of the step by less is none: the rounds of one program differ by as much
SUPPORT = 0.25
"""Share of a change of the step that must be found in certain places; less is the machine's."""
UNEXPLAINED = 0.1
"""A change of the step of as much, at A's speed of host and GPU, is not called none: the recordings
of one rank that does the same work cannot tell a faster loader, or another rank, from a machine."""
OTHER_TOOLS = 0.25
"""Estimates of the step of one program, recorded by two recorders, differ by up to a quarter."""
LEAST_TOLD = 0.005  # changed work that is a smaller share of the step is not worth a word
WORDS: dict[Word, str] = {
    "faster": "Faster",
    "likely_faster": "Likely faster",
    "no_change": "No significant change",
    "likely_slower": "Likely slower",
    "slower": "Slower",
    "not_comparable": "Cannot tell",
}
SETTLE = "Record 20 steps of both, one after the other, to be sure."
SAME_WORK = "Both do the same GPU work (operators, shapes, kernels, launches, waits)"
SAME_GPU_WORK = "Both do the same GPU work (kernels, launches, copies, waits)"
HOST_VARIES = (
    "the difference is idle time. How long the host takes differs from process to process: "
    "record both by one recorder, each several times, to be sure."
)
ONE_ESTIMATED = "an estimate may be off by as much; time both by a stopwatch to be sure"
TIME_BOTH = "Time both without a profiler (`traceanalyzer collect timing`) to be sure."
NOT_TOLD = (
    "input, other ranks, the host or the machine made the difference, and this rank's recordings do "
    "not tell which. Record both again, one after the other, and compare the other ranks."
)
UNKNOWN_CAUSE = (
    "the cause is on the host or in the machine (clocks, other load); record both again to be sure"
)


@dataclass(frozen=True)
class Times:
    """The step of both, ms, and what is known of it."""

    a_ms: float
    b_ms: float
    fair_ms: float  # B's at the speed of A's host and GPU
    source: str  # `measured`, `estimated` or `recorded`
    is_other_tool: bool = False  # whether two recorders made the recordings
    source_told: str = ""  # in words

    @property
    def basis(self) -> Basis:
        """Whether they are without the profiler."""
        return "recorded" if self.source == "recorded" else "unprofiled"

    @property
    def changes(self) -> tuple[float, float]:
        """The change as it is and at A's speed, shares of A's step."""
        return self.b_ms / self.a_ms - 1.0, self.fair_ms / self.a_ms - 1.0

    @property
    def seen(self) -> list[float]:
        """The changes of at least `SEEN`, of the step as it is and at A's speed."""
        return [change for change in self.changes if abs(change) >= SEEN]


@dataclass(frozen=True)
class Judged:
    """The verdict, what it rests on, and its sentences."""

    word: Word
    times: Times
    could_see: float
    sentence: str
    reason: str  # empty where the times speak for themselves


def judge(
    a: Report, b: Report, step: Difference, evidence: SpeedEvidence, per: str, *, unlike: bool
) -> Judged:
    """The verdict on times of a unit (`per`). `unlike`: the two are of other kinds."""
    times = times_of(a, b, step, evidence)
    could_see = resolution(b, times, step, evidence)
    word = word_of(times, step, evidence, could_see, unlike=unlike)
    return Judged(
        word=word,
        times=times,
        could_see=could_see,
        sentence=sentence(word, times, step, per, unlike=unlike),
        reason="" if unlike else reason(word, times, evidence, could_see, per),
    )


def times_of(a: Report, b: Report, step: Difference, evidence: SpeedEvidence) -> Times:
    """The best that is known of the step of both."""
    before, after = (r.metrics.unprofiled_step_time_ms for r in (a, b))
    if not before or not after:
        fair = _at_speed_of_a(b, step.b_ms, evidence)
        return Times(step.a_ms, step.b_ms, fair, "recorded", evidence.is_other_tool)
    # of two recorders the host's speed is what each of them cost it
    fair = after if evidence.is_other_tool else _at_speed_of_a(b, after, evidence)
    sources = [str(r.metrics.unprofiled_source) for r in (a, b)]
    source = "measured" if set(sources) == {"measured"} else "estimated"
    told = source if sources[0] == sources[1] else f"A {sources[0]}, B {sources[1]}"
    return Times(before, after, fair, source, evidence.is_other_tool, told)


def _at_speed_of_a(b: Report, step_ms: float, evidence: SpeedEvidence) -> float:
    """B's step if its host and its GPU had been as fast as A's."""
    slower, faster = _slopes(b)
    longer = (1.0 / usual_host_factor(evidence.host) - 1.0) * evidence.dispatch_share
    by_host = (slower if longer > 0 else faster) * longer
    gpu_longer = 1.0 / usual_gpu_factor(evidence.gpu) - 1.0
    by_gpu_ms = evidence.common_ms * gpu_longer * max(1.0 - slower, 0.0)
    return max(step_ms * (1.0 + by_host) + by_gpu_ms, 0.0)


def _slopes(report: Report) -> tuple[float, float]:
    """By which share the step grows and shrinks with the host's time; 0 where that is not known."""
    estimate = report.metrics.unprofiled
    if estimate is None:
        return 0.0, 0.0
    return estimate.if_host_slower or 0.0, estimate.if_host_faster or 0.0


def word_of(
    times: Times, step: Difference, evidence: SpeedEvidence, could_see: float, *, unlike: bool
) -> Word:
    """The verdict. `could_see`: the least change that the recordings would have shown; `unlike`:
    they are of other kinds."""
    if unlike:
        return "not_comparable"
    if evidence.is_other_tool and times.source != "measured":
        return _of_estimates(times, evidence, could_see)
    if _is_of_hosts(times, evidence):
        return _of_hosts(times, evidence)
    return _of_one_kind(times, step, evidence, could_see)


def _is_of_hosts(times: Times, evidence: SpeedEvidence) -> bool:
    """Whether two recorders made them, and the GPUs' time does not explain what the stopwatches of
    the two processes say."""
    change = times.changes[0]
    explained = evidence.on_gpu * math.copysign(1.0, change)
    is_seen = evidence.gpu is not None and abs(change) >= SEEN
    return evidence.is_other_tool and is_seen and explained < SUPPORT * abs(change)


def _of_hosts(times: Times, evidence: SpeedEvidence) -> Word:
    """The verdict on two processes whose GPUs take as long and whose hosts do not: a change where
    they launch, copy or wait otherwise, and never a sure one."""
    change = times.changes[0]
    if not evidence.is_same_work:
        return _changed(faster=change < 0, sure=False)
    return "not_comparable" if is_unexplained(times) else "no_change"


def _of_one_kind(times: Times, step: Difference, evidence: SpeedEvidence, could_see: float) -> Word:
    """The verdict on steps that were timed alike."""
    found = _found(times, step, evidence)
    if found and min(times.seen) * max(times.seen) > 0:
        is_sure = times.source == "measured" or bool(step.significant)
        return _changed(faster=found[0] < 0, sure=len(found) == 2 and is_sure)
    less_changed = evidence.known and evidence.most < SEEN
    if evidence.is_same_work or less_changed:
        return "not_comparable" if is_unexplained(times) else "no_change"
    if len(times.seen) == 2 and min(abs(change) for change in times.seen) > could_see:
        return _changed(faster=times.seen[0] < 0, sure=False)
    return "not_comparable" if times.seen or could_see > SEEN else "no_change"


def _of_estimates(times: Times, evidence: SpeedEvidence, could_see: float) -> Word:
    """The verdict on steps that no stopwatch timed, of two recorders."""
    change = times.changes[0]
    is_large = abs(change) > could_see
    if times.source == "recorded" or (is_large and evidence.is_same_work):
        return "not_comparable"
    if is_large:
        return _changed(faster=change < 0, sure=False)
    return "no_change" if evidence.is_same_work else "not_comparable"


def is_unexplained(times: Times) -> bool:
    """Whether stopwatches of both differ by more than the speed of their machines explains."""
    as_it_is, at_speed_of_a = times.changes
    least = min(abs(as_it_is), abs(at_speed_of_a))
    return times.source == "measured" and least >= UNEXPLAINED and as_it_is * at_speed_of_a > 0


def _changed(*, faster: bool, sure: bool) -> Word:
    if faster:
        return "faster" if sure else "likely_faster"
    return "slower" if sure else "likely_slower"


def _found(times: Times, step: Difference, evidence: SpeedEvidence) -> list[float]:
    """Changes of which enough is found in certain places; where these are not known, steps have to
    show it."""
    if evidence.known:
        return [c for c in times.seen if evidence.towards(c) >= SUPPORT * abs(c)]
    shown = times.source == "measured" or step.significant is not False
    return times.seen if shown and not evidence.is_same_work else []


def resolution(b: Report, times: Times, step: Difference, evidence: SpeedEvidence) -> float:
    """The least change of the step that would have been seen, a share: what steps and hosts vary
    by."""
    if evidence.is_other_tool and times.source != "measured":
        return OTHER_TOOLS
    by_steps = 0.0 if times.source == "measured" else _half_interval(step)
    host = evidence.host or Speed()
    slower, _ = _slopes(b)
    by_host = slower * (host.high - host.low) / 2 / host.factor
    return max(SEEN, math.hypot(by_steps, by_host))


def _half_interval(step: Difference) -> float:
    """Half of the interval of the recorded difference, a share of A's step; 0 where there is
    none."""
    if step.low_ms is None or step.high_ms is None or not step.a_ms:
        return 0.0
    return (step.high_ms - step.low_ms) / 2 / step.a_ms


def sentence(word: Word, times: Times, step: Difference, per: str, *, unlike: bool) -> str:
    """The verdict with its figures. `unlike`: the two are of other kinds."""
    without = " without the profiler" if times.basis == "unprofiled" else ""
    verdict = WORDS[word]
    if unlike:
        verdict = "Not comparable;" if without else "Not comparable"
    change = from_to(times.a_ms, times.b_ms, per)
    recorded = from_to(step.a_ms, step.b_ms, per)
    if not without:
        return f"{verdict}: {change}."
    if change == recorded and not times.is_other_tool:
        return f"{verdict} with and{without}: {change}, {times.source_told}."
    text = f"{verdict}{without}: {change}, {times.source_told}"
    if times.is_other_tool:  # which slow the step by amounts of their own
        return f"{text}."
    text += f"; with the profiler {recorded}"
    if times.source == "measured" and word == "no_change" and step.significant:
        text += "; what was recorded makes the difference"
    return f"{text}."


def from_to(a_ms: float, b_ms: float, per: str) -> str:
    """Two times and their difference."""
    share = (b_ms - a_ms) / a_ms if a_ms else 0.0
    return f"{digits(a_ms, 4)} → {digits(b_ms, 4)} {f'ms {per}'.strip()} ({signed_share(share)})"


def reason(word: Word, times: Times, evidence: SpeedEvidence, could_see: float, per: str) -> str:
    """Why the verdict is not what the times say, or what would settle it; empty where they speak
    for themselves."""
    raw, fair = times.changes
    is_estimated = evidence.is_other_tool and times.source != "measured"
    if is_estimated or _is_of_hosts(times, evidence):
        return _reason_of_two_tools(word, times, evidence)
    if word == "no_change":
        return _reason_of_none(times, evidence)
    if word == "not_comparable" and is_unexplained(times) and evidence.most < SEEN:
        return f"{SAME_WORK}: {NOT_TOLD}"
    machines = _machines(evidence, 0.0)
    speed = machines[:1].upper() + machines[1:]
    if word == "not_comparable":
        blame = f"{speed}; a" if speed else "A"
        return f"{blame} change below {could_see:.0%} would not be seen. {SETTLE}"
    sentences = []
    if speed and abs(raw - fair) >= SEEN:
        sentences.append(f"{speed}: at A's speed {from_to(times.a_ms, times.fair_ms, per)}.")
    if word.startswith("likely"):
        sentences.append(f"Noise is {could_see:.0%}. {SETTLE}")
    return " ".join(sentences)


def _reason_of_two_tools(word: Word, times: Times, evidence: SpeedEvidence) -> str:
    """What idle time, and steps that no stopwatch timed, tell of two recorders."""
    if times.source != "measured":
        return _reason_of_estimates(word, times, evidence)
    same = SAME_GPU_WORK if evidence.is_same_work else "The GPU's time does not explain it"
    return f"{same}: {HOST_VARIES}"


def _reason_of_estimates(word: Word, times: Times, evidence: SpeedEvidence) -> str:
    """What steps that no stopwatch timed tell, of two recorders."""
    if times.source == "recorded":
        return f"Each recorder makes the step longer by its own amount. {TIME_BOTH}"
    same = f"{SAME_GPU_WORK}. " if evidence.is_same_work else ""
    if word == "no_change" and not times.seen:
        return same.strip()
    return f"{same}Estimates from two recorders differ by up to {OTHER_TOOLS:.0%}. {TIME_BOTH}"


def _reason_of_none(times: Times, evidence: SpeedEvidence) -> str:
    """Whose a change is that is not the program's; empty where there is none."""
    machines = _machines(evidence, times.changes[0])
    if not times.seen or not (evidence.is_same_work or machines):
        return ""
    other = f"What differs in their work is {evidence.most:.1%} of the time"
    unknown = UNKNOWN_CAUSE if times.source == times.source_told else ONE_ESTIMATED
    return f"{SAME_WORK if evidence.most < LEAST_TOLD else other}: {machines or unknown}."


def _gpu_factor(evidence: SpeedEvidence) -> float:
    return 1.0 if evidence.gpu is None else evidence.gpu.factor


def _machines(evidence: SpeedEvidence, change: float) -> str:
    """Whose host or GPU was faster, and by how much: where the step's `change` is theirs, those
    that explain it."""
    found = []
    factors = {"host": usual_host_factor(evidence.host), "GPU": _gpu_factor(evidence)}
    for name, factor in factors.items():
        share = abs(1.0 / factor - 1.0)
        if share >= SEEN and (factor - 1.0) * change >= 0.0:
            found.append(f"the {name} of B was {share:.0%} {'faster' if factor < 1 else 'slower'}")
    return " and ".join(found)
