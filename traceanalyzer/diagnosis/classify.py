"""The bottleneck class: which part of the step's wall-clock time is the largest.

The budget of the step that the report speaks of, its idle time taken apart by cause and its compute
time taken apart by what usually limits the kernels, is a partition of the step. The class is the
largest part (compute and memory compete as one: the device is the bottleneck; then the larger of
the two names it). Where the second largest part is nearly as large, or another large part is what a
change is predicted to gain most from, there is no single cause: both are named, and the class is
the one to change first. Confidence is the margin over the second largest part, discounted for thin
evidence."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from traceanalyzer.analysis.groups.bounds import (
    rated_share,
    reached_when_far,
    undersized_kernels,
)
from traceanalyzer.analysis.groups.idle import by_turns, main_detail
from traceanalyzer.analysis.joined.launched import is_start_up, unseen_graphs
from traceanalyzer.base import span
from traceanalyzer.diagnosis.compile.reported import on_compile
from traceanalyzer.diagnosis.finding import (
    BASE_CONFIDENCE,
    MAX_CONFIDENCE,
    START_UP,
    BottleneckClass,
    Summary,
)
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.outside import IDLE_CLASSES, MOST_SURE, outside_cause, sleep_of_host
from traceanalyzer.diagnosis.rules.evidence import no_gpu_work
from traceanalyzer.diagnosis.rules.host_alone import cpu_summary, is_cpu_alone
from traceanalyzer.diagnosis.rules.timing import pasted_summary, profiled_summary, timing_summary
from traceanalyzer.diagnosis.shares import Shares, missing_kernels, step_shares
from traceanalyzer.replay.bounds import less_compute
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.scenarios import COMMUNICATION_FREE, COPIES_HIDDEN
from traceanalyzer.replay.unprofiled import REMOVED
from traceanalyzer.trace import DeviceOpKind

MIN_DEVICE_OPS = 10
"""A recording without repeated steps and with fewer device ops than this is not classified."""
BUSY = 0.9  # where the GPU has hardly any idle time, few ops are no reason to doubt it
MOSTLY = 0.5  # of the launches of graphs, or of the GPU's time
TOO_MANY_MISSING = 0.1
"""With more of the launches' kernels missing, what looks idle may have been busy."""
CLOSE = 0.1  # two parts that differ by less of the step are equally much the cause
LARGE = 0.2
"""A part from this share of the step on is worth changing first where that gains more than anything
else."""
NO_STEPS_FACTOR = 0.7  # without steps, start-up and shutdown are part of the figures
ONE_STEP_FACTOR = 0.8  # one step may be unlike the others
TWO_STEPS_FACTOR = 0.9  # two that agree may do so by chance
DAMAGED_FACTOR = 0.8  # what is missing from a damaged recording may have been the cause
DAMAGED_SHARE = 0.01  # share of events lost from which the recording counts as damaged
BY_CLASS_FACTOR = 0.9
"""Compute or memory is told from kernel names where FLOPs, bytes or the GPU's limits are not
known."""
RATED_SHARE = 0.9
"""Share of the compute time from which the roofline, not the names, tells compute from memory."""
HARDLY_RATED = 0.5
"""Share of the compute time below which most of what limits it is told by names of kernels."""

LEAST_GAIN = 0.05  # what gains less of the step when it is removed is not clearly its cause
NOTED_WAITING = 0.1
"""Share of a part that is waiting for other ranks, not idle time of this one, from which the
headline says so."""
UNCLEAR = 0.7  # confidence of such a verdict at most
PAYS = 1.2
"""Speedup without a part from which it may be named before a larger one."""
REMOVES = {
    "device": Scenario("no_compute", less_compute(1.0), "kernels take no time"),
    "communication": COMMUNICATION_FREE,
    "transfer": COPIES_HIDDEN,
} | {cause.label: scenario for cause, scenario in REMOVED.items()}
"""What the step would be without each part of it."""


PART_OF: dict[BottleneckClass | None, str] = {"compute": "device", "memory": "device"}
"""The part of the step that a class is, where it has another name."""
_IDLE_PARTS = ("launch", "sync", "input", "host", "unexplained")
_REASONS = {
    "compute": (
        "the GPU computes for {}, mostly in kernels limited by arithmetic",
        "compute",
    ),
    "memory": (
        "the GPU computes for {}, mostly in kernels limited by memory bandwidth",
        "memory-bound kernels",
    ),
    "small": ("the GPU computes for {}, mostly in kernels too small to fill it", "compute"),
    "narrow": (
        "the GPU computes for {}, mostly in kernels whose blocks are smaller than a warp",
        "compute",
    ),
    "communication": (
        "communication that does not overlap with compute takes {}",
        "exposed communication",
    ),
    "transfer": (
        "memory copies that do not overlap with compute take {}",
        "exposed copies",
    ),
    "launch": ("the GPU is idle for {} while the CPU issues work", "launches"),
    "sync": (
        "the GPU is idle for {} because the CPU keeps blocking on it",
        "syncs",
    ),
    "input": (
        "the GPU is idle for {} waiting for input data",
        "the wait for input",
    ),
    "host": (
        "the GPU is idle for {} while the CPU does other work",
        "other CPU work",
    ),
    "unexplained": (
        "the GPU is idle for {} for reasons that this recording does not show",
        "idle time of unknown cause",
    ),
}
"""Why a part is long, and in short where two are named."""
BY_KIND = {
    "memory": (
        "the GPU computes for {}, mostly in kernels that are memory-bound by their kind (not measured)",
        "kernels memory-bound by their kind",
    ),
    "compute": (
        "the GPU computes for {}, mostly in kernels that are compute-bound by their kind (not measured)",
        "compute",
    ),
}
"""The words where names of kernels alone tell what limits them: no bytes and operations are known."""
FAR = {
    "memory": "the GPU computes for {}, mostly in latency-bound kernels: memory traffic at {:.0%} of the bandwidth",
    "compute": "the GPU computes for {}, mostly in latency-bound kernels: arithmetic at {:.0%} of the peak",
}
"""The words for kernels that bandwidth or arithmetic would limit at best, and that are not near that:
they wait, for scattered accesses, atomics or each other."""
OF_STAGES = (
    "the GPU waits for other stages of the pipeline for {}",
    "waiting for other stages of the pipeline",
)
"""The words for a part of a pipeline's step: bubbles are within it."""
ASLEEP = (
    "the GPU is idle for {} while the CPU waits for work itself",
    "the CPU's own waiting",
)
"""The words for a host that sleeps: in a queue, a lock, a socket."""
TURN = "another GPU's turn"
BY_TURNS = (
    "the GPU is idle for {} while another GPU of this process has its turn: each batch passes "
    "through one after the other"
)


class _Verdict(NamedTuple):
    """Parts of the step by name: the cause, the one named beside it, and the margin."""

    cause: str
    beside: str | None
    margin: float
    unclear: bool  # whether little is gained without the cause
    pays: bool = False  # whether the cause is what pays most to remove, not the largest part
    hidden: bool = False  # whether the step is as long without the part named beside the cause


def classify(m: Measurements, best: Iterable[BottleneckClass | None] = ()) -> Summary:
    """The verdict on a process; `best` are the classes of what there is most to win by, first the
    surest."""
    other = _without_a_trace(m)
    if other is not None:
        return other
    step_ms = m.step.step_ms if m.timed.steps.known else None
    shares = _shares(m)
    if isinstance(shares, str):
        return Summary("inconclusive", 0.0, f"Inconclusive: {shares}", m.step.basis, step_ms)
    parts = _parts(shares)
    of_best = (PART_OF.get(cls, cls) for cls in best)
    paying = [part for part in of_best if _pays(m, parts, part)]
    verdict = _verdict(parts, _holding_nothing_up(m, parts), paying)
    why = _not_known(m, verdict.cause, shares)
    if why:
        return Summary("inconclusive", 0.0, f"Inconclusive: {why}", m.step.basis, step_ms)
    bottleneck = _name(verdict.cause, shares)
    held_up = m.memo(outside_cause) if bottleneck in IDLE_CLASSES else ""
    confidence = _confidence(m, verdict, shares, held_up)
    beside = None if verdict.beside in (None, "unexplained") else _name(verdict.beside, shares)
    headline = f"{_headline(m, verdict, shares)} {held_up}".rstrip()
    return Summary(bottleneck, round(confidence, 2), headline, m.step.basis, step_ms, beside=beside)


def _without_a_trace(m: Measurements) -> Summary | None:
    """The verdict on what is no recording of the GPU's work over time; None for one that is."""
    if m.trace.only_step_times:
        return timing_summary(m)
    if m.trace.is_companion:
        return Summary("inconclusive", 0.0, _of_companion(m), "recorded", None)
    if m.trace.pasted is not None:
        return pasted_summary(m.trace.pasted)
    if m.profiled is not None:
        return profiled_summary(m.profiled, m.trace.source)
    return cpu_summary(m) if is_cpu_alone(m) else None


def _of_companion(m: Measurements) -> str:
    """The verdict on a memory snapshot or a log of torch.compile."""
    if m.trace.memory is None:
        return m.memo(on_compile).headline
    from traceanalyzer.diagnosis.memory import memory_headline

    return memory_headline(m.memory_of_devices)


def _not_known(m: Measurements, cause: str, shares: Shares) -> str:
    """Why the largest part gives no verdict; empty where it does."""
    if cause == "unexplained":
        return f"{_reason(m, 'unexplained', shares)}."
    if cause != "device" or shares.limit_known:
        return ""
    on_graphs = m.trace.device_ops.kind[m.timed.steady_ops] == DeviceOpKind.GRAPH
    if on_graphs.mean() > 0 and _node_level(m) and shares.unknown > MOSTLY * shares.device:
        return (
            f"the GPU is busy for {_computed(m, shares)} of {_whole(m)}, "
            f"in CUDA graphs that were recorded as a whole{_node_level(m)}."
        )
    return (
        f"the GPU computes for {_computed(m, shares)} of {_whole(m)}, but what "
        f"limits its kernels is not known for {shares.unknown / shares.device:.0%} of that time: profile them with "
        "Nsight Compute (ncu)."
    )


def _node_level(m: Measurements) -> str:
    """How to record the kernels of graphs, where the recorder can."""
    if m.trace.source != "nsys":
        return ""
    return ": record the kernels in them with nsys profile --cuda-graph-trace=node"


def _parts(shares: Shares) -> dict[str, float]:
    names = (
        "device",
        "communication",
        "transfer",
        "launch",
        "sync",
        "input",
        "host",
        "unexplained",
    )
    return {name: getattr(shares, name) for name in names}


def _holding_nothing_up(m: Measurements, parts: Iterable[str]) -> set[str]:
    """Parts without which the step is as long, in the same replay as all predictions."""
    replay = m.faithful_replay
    if replay is None or not replay.base_ms:
        return set()
    known = [part for part in parts if part in REMOVES]
    return {part for part in known if replay.gain_ms(REMOVES[part]) / replay.base_ms < LEAST_GAIN}


def _pays(m: Measurements, parts: Mapping[str, float], part: str | None) -> bool:
    """Whether a part may be named before a larger one: it is nearly as large, or the step without
    it is clearly shorter."""
    if part is None or part not in parts:
        return False
    if parts[part] >= max(parts.values()) - CLOSE:
        return True
    replay = m.faithful_replay
    if replay is None or part not in REMOVES or not replay.base_ms:
        return False
    left = 1.0 - replay.gain_ms(REMOVES[part]) / replay.base_ms
    return left * PAYS <= 1.0


def _verdict(
    parts: dict[str, float],
    idle: set[str],
    best: list[str | None],
) -> _Verdict:
    """The largest part; the device's own work, and what holds nothing up (`idle`), give way to a
    large one."""
    order = sorted(parts.items(), key=lambda item: -item[1])
    largest = order[0][0]
    if largest in idle:
        order.sort(key=lambda item: item[0] in idle or item[1] < LARGE)
    (top, share), (second, beside) = order[:2]
    other = [
        part for part in best if part in parts and part not in (top, *idle) and parts[part] >= LARGE
    ]
    if top == "device" and other:
        return _Verdict(other[0], top, 0.0, unclear=False, pays=True)
    margin = max(share - beside, 0.0)
    named = second if margin < CLOSE else None
    if top != largest:
        return _Verdict(top, largest, margin, unclear=False, hidden=True)
    return _Verdict(top, named, margin, unclear=top in idle)


def _name(part: str, shares: Shares) -> BottleneckClass:
    # The names of parts but device are classes; "unexplained" is none, and only has words.
    return shares.device_class if part == "device" else part  # type: ignore[return-value]


def too_few_ops(m: Measurements, shares: Shares | None) -> bool:
    """Whether so little GPU work was recorded that its idle time says nothing of the program's: the
    only op without a call that launched it is busy all of its own time."""
    ops = int(m.timed.steady_ops.sum())
    few = m.timed.steps.steady_count == 1 and ops < MIN_DEVICE_OPS
    alone = ops == 1 and not len(m.trace.api_calls)
    return few and shares is not None and (_busy(shares) < BUSY or alone)


def _busy(shares: Shares) -> float:
    return shares.device + shares.communication + shares.transfer


def _shares(m: Measurements) -> Shares | str:
    """The parts of the step, or why there can be no verdict."""
    shares = m.memo(step_shares)
    count = int(m.timed.steady_ops.sum())
    if m.linked.memo(is_start_up):
        return (
            f"{START_UP}: CUDA graphs are captured, and none is replayed. Give it with a recording of the replays, "
            "whose kernels it names."
        )
    if not len(m.trace.device_ops):
        return no_gpu_work(m)
    if shares is None or not count:
        return "none of the recorded GPU work belongs to a measured step."
    if too_few_ops(m, shares):
        seen = _busy(shares) < BUSY
        why = _why_idle(m, shares) if seen else "what came before it is not known"
        return f"only {count} GPU operation{'s were' if count > 1 else ' was'} recorded; {why}."
    unseen, launched = m.linked.memo(unseen_graphs)
    if unseen > MOSTLY * launched:
        return (
            f"nothing of what {unseen:,} launches of CUDA graphs ran is in the recording, so idle time is "
            f"not known{_node_level(m)}."
        )
    if m.doubt:
        return f"{m.doubt}."
    missing = missing_kernels(m)
    if missing > TOO_MANY_MISSING:
        return f"the kernels of {missing:.0%} of the launches are not in the recording."
    return shares


def _why_idle(m: Measurements, shares: Shares) -> str:
    """How long the GPU is idle, with the cause of most of it where there is one."""
    idle = 1 - _busy(shares)
    parts = {part: getattr(shares, part) for part in _IDLE_PARTS}
    cause = max(parts, key=lambda part: parts[part])
    named = parts[cause] > MOSTLY * idle
    told = span(m.step.step_ms * (parts[cause] if named else idle), m.step.step_ms)
    words = _REASONS[cause][0] if named else "the GPU is idle for {}"
    return words.format(f"{told} of {_whole(m)}")


def _trust_in_steps(count: int) -> float:
    if count == 1:
        return ONE_STEP_FACTOR
    return TWO_STEPS_FACTOR if count == 2 else 1.0


def _confidence(m: Measurements, verdict: _Verdict, shares: Shares, held_up: str) -> float:
    """The margin over the second largest part, less for thin evidence."""
    steps = m.timed.steps
    health = m.trace.health
    factor = _trust_in_steps(steps.steady_count) if steps.found else NO_STEPS_FACTOR
    factor *= 1.0 - missing_kernels(m)
    if health.truncated or health.lost > DAMAGED_SHARE * max(health.events, 1):
        factor *= DAMAGED_FACTOR
    if verdict.cause == "device":
        factor *= (1 - shares.doubt) * (
            BY_CLASS_FACTOR if rated_share(m.rated) < RATED_SHARE else 1.0
        )
    is_far = verdict.cause == "device" and _when_far(m, shares) is not None
    unclear = verdict.unclear or is_far or m.unsteady_step_ms is not None
    most = min(UNCLEAR if unclear else 1.0, MOST_SURE if held_up else 1.0)
    return min(min(MAX_CONFIDENCE, BASE_CONFIDENCE + verdict.margin) * factor, most)


def _reason(m: Measurements, part: str, shares: Shares) -> str:
    waits_ms = getattr(m.step.waiting, "compute" if part == "device" else part, 0.0)
    share = _parts(shares)[part]
    is_waiting = waits_ms >= NOTED_WAITING * share * m.step.step_ms
    if not is_waiting:
        share = _shown_share(m, part, share)
    time = f"{span(share * m.step.step_ms, m.step.step_ms)} ({share:.0%})"
    small = part == "device" and shares.mostly_small
    text, noun = _words(m, part, shares)
    text = _special_text(m, part) or text
    more = main_detail(m.causes) if part == "host" else ""
    mostly = f", mostly {more}" if more else ""
    if is_waiting:
        own_ms = share * m.step.step_ms - waits_ms
        itself = "here" if part == "device" else "idle here"
        return (
            f"{time} of {_whole(m)} goes to {noun}{mostly}: {span(own_ms, m.step.step_ms)} {itself}, "
            f"{span(waits_ms, m.step.step_ms)} waiting for ranks that are late"
        )
    if part == "device" and not small:
        text = _when_far(m, shares) or text
    return text.format(f"{time} of {_whole(m)}") + mostly


def _when_far(m: Measurements, shares: Shares) -> str | None:
    """The words for kernels that are far from their limit, with the share of it that they reach; None
    where they are near."""
    limit = shares.device_class
    reached = reached_when_far(m.rated, memory=limit == "memory")
    return None if reached is None else FAR[limit].format("{}", reached)


def _special_text(m: Measurements, part: str) -> str:
    """Why a part is long in this recording, where that is not as in others; else empty."""
    if part == "unexplained" and by_turns(m.causes):
        return BY_TURNS
    if part == "communication" and _is_pipeline(m):
        return OF_STAGES[0]
    if part == "host" and m.memo(sleep_of_host):
        return ASLEEP[0]
    return ""


def _computed(m: Measurements, shares: Shares) -> str:
    share = _shown_share(m, "device", shares.device)
    return f"{span(share * m.step.step_ms)} ({share:.0%})"


def _shown_share(m: Measurements, part: str, share: float) -> float:
    """A part's share of the step as the budget shows it: copies within the GPU are a row of their
    own, and so is what other ranks compute meanwhile."""
    if part != "device" or m.step.budget is None:
        return share
    return m.step.budget.compute / m.step.step_ms


def _whole(m: Measurements) -> str:
    which = "each" if m.timed.steps.found else "the"
    if m.unsteady_step_ms is not None:
        return f"{which} replayed {m.timed.steps.unit} of {span(m.step.step_ms)}"
    return f"{which} {span(m.step.step_ms)} {m.timed.steps.unit}"


def _is_pipeline(m: Measurements) -> bool:
    return m.ranks is not None and m.ranks.pipeline is not None


def _headline(m: Measurements, verdict: _Verdict, shares: Shares) -> str:
    if verdict.beside is None:
        return (
            f"{_name(verdict.cause, shares).capitalize()}-bound: "
            f"{_reason(m, verdict.cause, shares)}."
        )
    parts = _parts(shares)
    nouns = {part: _noun(m, part, shares) for part in (verdict.cause, verdict.beside)}
    larger, smaller = sorted(nouns, key=parts.__getitem__, reverse=True)
    of_both = ", ".join(
        f"{nouns[part]} {_shown_share(m, part, parts[part]):.0%}" for part in (larger, smaller)
    )
    mixed = f"Mixed: {of_both} of {_whole(m)}"
    if verdict.hidden:
        own_work = verdict.beside == "device"
        how = "faster kernels" if own_work else f"removing {nouns[verdict.beside]}"
        return f"{mixed}; {how} alone would not shorten it."
    if verdict.pays:
        return f"{mixed}; removing {nouns[verdict.cause]} gains most."
    return f"{mixed}."


def _noun(m: Measurements, part: str, shares: Shares) -> str:
    """What a part is called where two are named."""
    if part == "unexplained" and by_turns(m.causes):
        return TURN
    if part == "communication" and _is_pipeline(m):
        return OF_STAGES[1]
    if part == "host" and m.memo(sleep_of_host):
        return ASLEEP[1]
    return _words(m, part, shares)[1]


def _words(m: Measurements, part: str, shares: Shares) -> tuple[str, str]:
    """Why a part is long, and in short where two are named."""
    if part == "device" and shares.mostly_small:
        small = m.rated.memo(undersized_kernels)
        return _REASONS["narrow" if small is not None and small.is_narrow else "small"]
    name = _name(part, shares)
    by_kind = part == "device" and rated_share(m.rated) < HARDLY_RATED
    return BY_KIND[name] if by_kind else _REASONS[name]
