"""What a device waited for in a gap: one visible list of causes, in the order of their priority.

Each rule is a cause and a mask of the gaps that it explains; the first one that explains a gap
decides. A cause added is one function and one line."""

from collections.abc import Callable

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.causes.details import LOOP_NS, IdleDetail
from traceanalyzer.analysis.causes.gap_facts import DOMINANT, GapFacts
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS
from traceanalyzer.base import dataclass
from traceanalyzer.trace import U8, Bool

LOST_EXPLAINS = (int(IdleCause.LAUNCH), int(IdleCause.HOST), int(IdleCause.OTHER))
"""Causes that kernels which the recording has lost may stand behind instead."""
LONG_GRAPH_LAUNCH_NS = 100_000
"""Launching a graph takes 2 to 30 us. A call that takes far longer is what the device waits for,
whatever drained its queue before."""


@dataclass(frozen=True)
class Rule:
    """A cause, with the kind of host work behind it, and which gaps it explains."""

    cause: IdleCause
    explains: Callable[[GapFacts], Bool]
    detail: IdleDetail | None = IdleDetail.NONE  # None: what fills most of the gap


def waits_for_missing_work(f: GapFacts) -> Bool:
    """The host waits on although all recorded work has ended: the device may not be idle at all."""
    return f.outlasting_ns >= DOMINANT * np.maximum(f.duration, 1)


def moves_pages_by_call(f: GapFacts) -> Bool:
    """A long pause before managed memory moves, which the host spends in calls such as
    `cudaMemPrefetchAsync`."""
    return f.migrates & (f.duration > LOOP_NS) & (f.in_calls_ns >= DOMINANT * f.duration)


def migrates_in_a_loop(f: GapFacts) -> Bool:
    """A long pause before managed memory moves: the CPU works on the pages that it has."""
    return f.migrates & (f.duration > LOOP_NS)


def migrates_pages(f: GapFacts) -> Bool:
    """A fault of managed memory."""
    return f.migrates


def waits_for_its_turn(f: GapFacts) -> Bool:
    """Another GPU of the process works meanwhile, and the next op needs what that computes: it was
    queued before, or the host waited for the other GPU; or nothing follows any more."""
    needs_it = f.queued | f.stuck | is_blocked(f) | ~f.followed
    return needs_it & (f.neighbour_ns >= DOMINANT * np.maximum(f.duration, 1))


def is_stuck(f: GapFacts) -> Bool:
    """The next op had been launched, and waited for something that is not recorded."""
    return f.stuck


def profiler_works(f: GapFacts) -> Bool:
    """The profiler's own work fills the gap."""
    return f.fills(f.profiler_ns)


def loads_input(f: GapFacts) -> Bool:
    """The host loads input, or waits for it."""
    return f.fills(f.spent[HostState.INPUT])


def prepares_input(f: GapFacts) -> Bool:
    """Host work that a copy of input data follows."""
    return _works(f) & f.before_input_copy


def does_named_work(f: GapFacts) -> Bool:
    """Host work that has a name: first use, allocation, graphs, compilation."""
    in_communication = f.fills(f.spent[HostState.COMMUNICATION]) & ~_works(f)
    held = _blocked(f) & ((f.wait >= 0) | was_drained(f))
    return f.late & (f.work_detail > 0) & ~in_communication & ~held


def works(f: GapFacts) -> Bool:
    """Other host work between launches."""
    return _works(f)


def launches_a_graph_for_long(f: GapFacts) -> Bool:
    """The call that launches the next graph takes most of the gap."""
    return (f.in_graph_launch_ns >= LONG_GRAPH_LAUNCH_NS) & f.fills(f.in_graph_launch_ns)


def communicates(f: GapFacts) -> Bool:
    """The host is stuck in a communication operator."""
    return f.fills(f.spent[HostState.COMMUNICATION])


def is_blocked(f: GapFacts) -> Bool:
    """The host was blocked by the wait before the launch."""
    return f.fills(f.spent[HostState.SYNC]) & (f.wait >= 0)


def was_drained(f: GapFacts) -> Bool:
    """A wait had emptied the queue shortly before, and without it the host would be ahead."""
    if not f.waits_matter:
        return np.zeros(len(f.start), bool)
    return f.late & (f.drained >= 0)


def launches_late(f: GapFacts) -> Bool:
    """The host was issuing work too slowly."""
    return f.late


def pauses_between_queued(f: GapFacts) -> Bool:
    """The device's own latency between queued ops."""
    return f.queued & (f.duration < QUEUED_LATENCY_NS)


def rules() -> tuple[Rule, ...]:
    """In the order of priority; what none explains has the cause OTHER."""
    return (
        Rule(IdleCause.OTHER, waits_for_missing_work, IdleDetail.MISSING),
        Rule(IdleCause.HOST, moves_pages_by_call),
        Rule(IdleCause.HOST, migrates_in_a_loop, IdleDetail.MANAGED_LOOP),
        Rule(IdleCause.HOST, migrates_pages, IdleDetail.PAGE_MIGRATION),
        Rule(IdleCause.OTHER, waits_for_its_turn, IdleDetail.NEIGHBOUR),
        Rule(IdleCause.OTHER, is_stuck),
        Rule(IdleCause.PROFILER, profiler_works),
        Rule(IdleCause.INPUT, loads_input),
        Rule(IdleCause.INPUT, prepares_input),
        Rule(IdleCause.HOST, does_named_work, None),
        Rule(IdleCause.HOST, works),
        Rule(IdleCause.LAUNCH, launches_a_graph_for_long, IdleDetail.GRAPH_LAUNCH),
        Rule(IdleCause.COMMUNICATION, communicates),
        Rule(IdleCause.SYNC, is_blocked),
        Rule(IdleCause.SYNC, was_drained),
        Rule(IdleCause.LAUNCH, launches_late),
        Rule(IdleCause.LAUNCH, pauses_between_queued),
    )


def decide(facts: GapFacts) -> tuple[U8, U8]:
    """The cause of each gap, and the kind of host work behind it."""
    count = len(facts.start)
    cause = np.full(count, IdleCause.OTHER, np.uint8)
    detail = np.full(count, IdleDetail.NONE, np.uint8)
    open_ = np.ones(count, bool)
    for rule in rules():
        explained = np.flatnonzero(open_ & rule.explains(facts))
        cause[explained] = rule.cause
        detail[explained] = facts.work_detail[explained] if rule.detail is None else rule.detail
        open_[explained] = False
    lost = facts.lost & isin_few(cause, LOST_EXPLAINS) & (detail != IdleDetail.MISSING)
    cause[lost] = IdleCause.OTHER
    detail[lost] = IdleDetail.LOST
    return cause, detail


def _works(f: GapFacts) -> Bool:
    return f.fills(f.spent[HostState.WORK] + f.spent[HostState.ALLOCATE])


def _blocked(f: GapFacts) -> Bool:
    return f.spent[HostState.SYNC] >= DOMINANT * f.duration
