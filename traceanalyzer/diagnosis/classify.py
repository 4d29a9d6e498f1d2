"""The bottleneck class: which part of the step's wall-clock time is the largest.

The budget of the step that the report speaks of, its idle time taken apart by cause and its compute
time taken apart by what usually limits the kernels, is a partition of the step. The class is the
largest part (compute and memory compete as one: the device is the bottleneck; then what limits more
of its kernels' time names it). Where the second largest part is nearly as large, or another large part is what a
change is predicted to gain most from, there is no single cause: both are named, and the class is
the one to change first. Confidence is the margin over the second largest part, discounted for thin
evidence; it is limited where most of the kernels' time is not seen to be limited as the class says."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from traceanalyzer.analysis.groups.bounds import (
    memory_bound_share,
    rated_share,
    small_share,
    undersized_kernels,
    unknown_share,
)
from traceanalyzer.analysis.groups.idle import by_turns, main_detail
from traceanalyzer.analysis.groups.limits import KernelLimits, kernel_limits
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
from traceanalyzer.diagnosis.shares import (
    MOSTLY,
    Shares,
    device_class,
    missing_kernels,
    step_shares,
    waits_by_cause,
)
from traceanalyzer.replay.bounds import less_compute
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.scenarios import COMMUNICATION_FREE, COPIES_HIDDEN
from traceanalyzer.replay.unprofiled import REMOVED
from traceanalyzer.trace import DeviceOpKind

MIN_DEVICE_OPS = 10
"""A recording without repeated steps and with fewer device ops than this is not classified."""
BUSY = 0.9  # where the GPU has hardly any idle time, few ops are no reason to doubt it
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
LEAST_NAMED = 0.1  # of the compute time: what limits less of it is not named
LEAST_GAIN = 0.05  # what gains less of the step when it is removed is not clearly its cause
NOTED_WAITING = 0.1
"""Share of a part that is waiting for other ranks, not idle time of this one, from which the
headline says so."""
HARDLY_OWN = 0.02
"""Share of the waiting for others below which time of the rank itself is not told apart."""
OF_A_ROW = 0.01  # share of the step from which the budget has a row
OF_OTHERS = {"device": "compute", "transfer": "copy"}
"""What waiting calls a part of the step that has another name there."""
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
    "device": ("the GPU computes for {}", "compute"),
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
LIMITS = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "instructions": "instructions that are no FLOPs",
    "latency": "latency (kernels too small to fill the GPU, or waiting on themselves)",
}
"""What limits kernels, in words, by the field of `KernelLimits`."""
LARGER_KERNELS = (
    " What helps: fewer, larger kernels (a larger batch, fusion), or other shapes and layouts."
)
"""Against latency: neither more bandwidth nor more FLOP/s shortens such kernels."""
OF_STAGES = (
    "the GPU waits for other stages of the pipeline for {}",
    "waiting for other stages of the pipeline",
)
"""The words for a part of a pipeline's step: bubbles are within it."""
OF_RANKS = ("the GPU waits for other ranks for {}", "waiting for other ranks")
"""The words for the communication of a rank that is reported alone and mostly waits in it."""
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
    bottleneck = _name(m, verdict.cause, shares)
    held_up = m.memo(outside_cause) if bottleneck in IDLE_CLASSES else ""
    confidence = _confidence(m, verdict, shares, held_up)
    beside = None if verdict.beside in (None, "unexplained") else _name(m, verdict.beside, shares)
    headline = f"{_headline(m, verdict, shares)} {held_up}".rstrip()
    return Summary(bottleneck, round(confidence, 2), headline, m.step.basis, step_ms, beside=beside)


def _without_a_trace(m: Measurements) -> Summary | None:
    """The verdict on what is no recording of the GPU's work over time; None for one that is."""
    if m.trace.only_step_times:
        return timing_summary(m)
    if m.trace.is_companion:
        return Summary("inconclusive", 0.0, _of_companion(m), "recorded", None)
    if m.trace.pasted is not None:
        return pasted_summary(m.trace.pasted, m.serving)
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


def _name(m: Measurements, part: str, shares: Shares) -> BottleneckClass:
    # The names of parts but device are classes; "unexplained" is none, and only has words.
    return device_class(m, shares) if part == "device" else part  # type: ignore[return-value]


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
    unseen = verdict.cause == "device" and not _is_of_most_kernels(m, shares)
    unclear = verdict.unclear or unseen or m.unsteady_step_ms is not None
    most = min(UNCLEAR if unclear else 1.0, MOST_SURE if held_up else 1.0)
    return min(min(MAX_CONFIDENCE, BASE_CONFIDENCE + verdict.margin) * factor, most)


def _reason(m: Measurements, part: str, shares: Shares) -> str:
    waits = waits_by_cause(m)
    waits_ms = 0.0 if part == "communication" else getattr(waits, OF_OTHERS.get(part, part), 0.0)
    share = _parts(shares)[part]
    is_waiting = waits_ms >= NOTED_WAITING * share * m.step.step_ms
    if not is_waiting:
        share = _shown_share(m, part, share)
    time = f"{span(share * m.step.step_ms, m.step.step_ms)} ({share:.0%})"
    text, noun = _REASONS[part]
    text = _special_text(m, part) or text
    more = main_detail(m.causes) if part == "host" else ""
    mostly = f", mostly {more}" if more else ""
    if is_waiting:
        goes_to = f"{time} of {_whole(m)} goes to {noun}{mostly}"
        own = "here" if part == "device" else "idle here"
        return f"{goes_to}{_where_spent(m, share * m.step.step_ms, waits_ms, own)}"
    limits = f"; {_limited(m, shares)}" if part == "device" else ""
    return text.format(f"{time} of {_whole(m)}") + mostly + limits


def _where_spent(m: Measurements, part_ms: float, waits_ms: float, own: str) -> str:
    """Where a part of the step is spent that is partly waiting for other ranks; `own`: what its own
    part is called."""
    step_ms = m.step.step_ms
    own_ms = part_ms - waits_ms
    if own_ms < HARDLY_OWN * waits_ms:
        return ", on ranks that are late and that this one waits for"
    waited = span(waits_ms, step_ms)
    in_rows_ms = _waits_in_rows(m)
    if waits_ms < (1.0 - HARDLY_OWN) * in_rows_ms:
        waited = f"{waited} of the {span(in_rows_ms, step_ms)}"
    return f": {span(own_ms, step_ms)} {own}, {waited} waiting for ranks that are late"


def _limited(m: Measurements, shares: Shares) -> str:
    """What limits the kernels, largest share first; by their kind where most have no model."""
    limits = m.rated.memo(kernel_limits)
    if shares.mostly_small:
        return f"{_of_kernel_time(small_share(m.rated))} is in kernels {_how_small(m)}"
    if limits.known < MOSTLY:
        name = device_class(m, shares)
        return (
            f"{_of_kernel_time(_share_by_kind(m, name))} is {name}-bound by its kind (not measured)"
        )
    named = {name: share for name, share in limits._asdict().items() if name in LIMITS}
    first, *others = sorted(named, key=named.__getitem__, reverse=True)
    parts = [f"{_of_kernel_time(named[first])} is limited by {LIMITS[first]}"]
    parts += [f"{named[one]:.0%} by {LIMITS[one]}" for one in others if named[one] >= LEAST_NAMED]
    if limits.unknown >= LEAST_NAMED:
        parts.append(f"{limits.unknown:.0%} has no model")
    return ", ".join(parts)


def _of_kernel_time(share: float) -> str:
    text = f"{share:.0%}"
    return f"{'all' if text == '100%' else text} of the kernel time"


def _too_small_or_waiting(m: Measurements, shares: Shares) -> bool:
    """Whether more work a kernel would shorten most of the compute time."""
    if shares.mostly_small:
        return not _is_narrow(m)
    return m.rated.memo(kernel_limits).latency > MOSTLY


def _how_small(m: Measurements) -> str:
    """What is small of kernels that fill hardly any of the GPU."""
    return "whose blocks are smaller than a warp" if _is_narrow(m) else "too small to fill the GPU"


def _is_narrow(m: Measurements) -> bool:
    small = m.rated.memo(undersized_kernels)
    return small is not None and small.is_narrow


def _share_by_kind(m: Measurements, name: BottleneckClass) -> float:
    """Share of the compute time in kernels that are of this class by their kind."""
    of_memory = memory_bound_share(m.rated)
    if name == "memory":
        return of_memory
    return 1.0 - of_memory - small_share(m.rated) - unknown_share(m.rated)


def _is_of_most_kernels(m: Measurements, shares: Shares) -> bool:
    """Whether most of the compute time is in kernels that are seen to be limited as the verdict
    says; what only names of kernels tell is not seen."""
    if shares.mostly_small:
        return small_share(m.rated) > MOSTLY
    limits: KernelLimits = m.rated.memo(kernel_limits)
    of_class = limits.memory if device_class(m, shares) == "memory" else limits.compute
    return of_class > MOSTLY


def _special_text(m: Measurements, part: str) -> str:
    """Why a part is long in this recording, where that is not as in others; else empty."""
    if part == "unexplained" and by_turns(m.causes):
        return BY_TURNS
    if part == "communication" and _is_pipeline(m):
        return OF_STAGES[0]
    if part == "communication" and _mostly_waits(m):
        return OF_RANKS[0]
    if part == "host" and m.memo(sleep_of_host):
        return ASLEEP[0]
    return ""


def _computed(m: Measurements, shares: Shares) -> str:
    share = _shown_share(m, "device", shares.device)
    return f"{span(share * m.step.step_ms)} ({share:.0%})"


def _shown_share(m: Measurements, part: str, share: float) -> float:
    """A part's share of the step as the budget's row of it has it: copies within the GPU are a row of
    their own, and so is what other ranks compute meanwhile. Where other ranks' waits are much of the
    part, it is that with them."""
    row_ms = _row_ms(m, part)
    if row_ms is None:
        return share
    shown = row_ms / m.step.step_ms
    return shown if part == "device" or abs(shown - share) < NOTED_WAITING * share else share


def _row_ms(m: Measurements, part: str) -> float | None:
    """Time of the budget's row of a part, ms; None where it is not one row."""
    budget = m.step.budget
    idle = m.step.idle
    if budget is None or idle is None:
        return None
    if part == "device":
        return budget.compute
    if part == "communication":
        return budget.exposed_communication + idle.communication
    return getattr(idle, part) if part in IDLE_CLASSES else None


def _whole(m: Measurements) -> str:
    which = "each" if m.timed.steps.found else "the"
    if m.unsteady_step_ms is not None:
        return f"{which} replayed {m.timed.steps.unit} of {span(m.step.step_ms)}"
    return f"{which} {span(m.step.step_ms)} {m.timed.steps.unit}"


def _waits_in_rows(m: Measurements) -> float:
    """Waiting for other ranks in the rows that the budget has of it, whatever these do, ms."""
    both = [one.total for one in (m.step.waiting, m.step.idle_waiting) if one is not None]
    return sum(time for time in both if time >= OF_A_ROW * m.step.step_ms)


def _mostly_waits(m: Measurements) -> bool:
    """Whether a rank that is reported alone mostly waits for others in its communication."""
    idle = m.step.idle
    budget = m.step.budget
    if idle is None or budget is None:
        return False
    communicates_ms = budget.exposed_communication + idle.communication
    return waits_by_cause(m).transfer > MOSTLY * communicates_ms and m.step.waited.total > 0


def _is_pipeline(m: Measurements) -> bool:
    return m.ranks is not None and m.ranks.pipeline is not None


def _headline(m: Measurements, verdict: _Verdict, shares: Shares) -> str:
    if verdict.beside is None:
        name = _name(m, verdict.cause, shares).capitalize()
        waits = verdict.cause == "device" and _too_small_or_waiting(m, shares)
        helps = LARGER_KERNELS if waits else ""
        return f"{name}-bound: {_reason(m, verdict.cause, shares)}.{helps}"
    parts = _parts(shares)
    nouns = {part: _noun(m, part) for part in (verdict.cause, verdict.beside)}
    larger, smaller = sorted(nouns, key=parts.__getitem__, reverse=True)
    of_both = ", ".join(
        f"{nouns[part]} {_shown_share(m, part, parts[part]):.0%}{_of_which(m, part, shares)}"
        for part in (larger, smaller)
    )
    mixed = f"Mixed: {of_both} of {_whole(m)}"
    if verdict.hidden:
        own_work = verdict.beside == "device"
        how = "faster kernels" if own_work else f"removing {nouns[verdict.beside]}"
        return f"{mixed}; {how} alone would not shorten it, because {_as_long(verdict.cause)}."
    if verdict.pays:
        return f"{mixed}; removing {nouns[verdict.cause]} gains most."
    return f"{mixed}."


def _of_which(m: Measurements, part: str, shares: Shares) -> str:
    """How much of the compute part is memory-bound, where that is what the verdict names."""
    if part != "device" or device_class(m, shares) != "memory":
        return ""
    limits = m.rated.memo(kernel_limits)
    if limits.known < MOSTLY:
        return f" ({memory_bound_share(m.rated):.0%} of it memory-bound by its kind)"
    return f" ({limits.memory:.0%} of it limited by memory bandwidth)"


def _as_long(cause: str) -> str:
    """What takes as long as the part that can go without a gain."""
    return f"{'the CPU' if cause in IDLE_CLASSES else 'the rest of it'} takes as long"


def _noun(m: Measurements, part: str) -> str:
    """What a part is called where two are named."""
    if part == "unexplained" and by_turns(m.causes):
        return TURN
    if part == "communication" and _is_pipeline(m):
        return OF_STAGES[1]
    if part == "communication" and _mostly_waits(m):
        return OF_RANKS[1]
    if part == "host" and m.memo(sleep_of_host):
        return ASLEEP[1]
    return _REASONS[part][1]
