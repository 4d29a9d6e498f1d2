"""Host work with a name of its own, taken out: what is done at the first use, graphs; and host work
without one."""

import re
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, join, measure, union
from traceanalyzer.analysis.algebra.grouping import first_rows
from traceanalyzer.analysis.causes.details import IdleDetail, host_work_times
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.replay.patterns.named import LISTS, kernels_named, operators_named
from traceanalyzer.replay.tape import Tape, parametric, within_optimizer
from traceanalyzer.trace import I32, I64, Bool, distinct, distinct_places

OWN_WORK_NS = 300_000
"""A longer stretch of Python between two launches is work of the program's; a shorter one is the
framework's ..."""
MANY_PAUSES = 4
"""... unless there are so many a step, outside of the backward pass and the optimizer."""
FIRST_LAUNCH_NS = 100_000
"""A launch call takes some microseconds; one that loads its kernel's code first takes hundreds.
What an operator does before that call is no loading: it takes as long on every new shape."""
FIRST_RATIO = 4.0
"""A first launch that loads code takes 6 to 40 times as long as the next of its kernel; one that
does not, up to 3."""
STEPS_TO_TELL = 3
"""Steps from which loading that does not end is told from the end of a warm-up."""
GOES_ON = 0.5
"""Share of the median step's loading that each step has where it does not end."""
MIN_LATER = 3
"""Later launches of a kernel in the same step from which their median is what the first one should
have taken."""


def warmed_up(tape: Tape) -> Tape | None:
    """All device code is loaded, compiled and set up before the steps; None where none is within
    them."""
    return _done_before(tape, IdleDetail.LOADING, IdleDetail.COMPILATION)


def loads_for_ever(tape: Tape) -> bool:
    """Whether each of enough recorded steps loads or compiles about as much as the others do: what
    is new in every step is so for ever."""
    if tape.steps < STEPS_TO_TELL:
        return False
    steps = tape.source.timed.steps
    loading = _of_kinds(tape, IdleDetail.LOADING, IdleDetail.COMPILATION)
    each = measure(loading, steps.host_start[steps.steady], steps.host_end[steps.steady])
    return bool(each.min() >= GOES_ON * np.median(each) > 0)


def graphs_kept(tape: Tape) -> Tape | None:
    """No stream is captured and no graph instantiated or updated within the steps; None where none
    is."""
    return _done_before(tape, IdleDetail.GRAPHS)


def _done_before(tape: Tape, *details: IdleDetail) -> Tape | None:
    time = _time(tape, *details)
    from_work = np.minimum(time, tape.work)
    from_dispatch = np.minimum(time - from_work, tape.dispatch)
    latency = tape.latency - _before_start(tape, *details)
    left = replace(tape, work=tape.work - from_work, latency=latency)
    left = left.with_dispatch(tape.dispatch - from_dispatch)
    return left if (from_work + from_dispatch).any() or (latency < tape.latency).any() else None


def _before_start(tape: Tape, *details: IdleDetail) -> I64:
    """Time in work of these kinds within the launch of each op before it can start, ns: a call that
    loads the kernel first hands it over at its end."""
    launched = tape.source.trace.api_calls.start[tape.call[tape.event]]
    return measure(_of_kinds(tape, *details), launched, launched + tape.latency)


@parametric
def prepared_before(tape: Tape, pattern: str) -> Tape | None:
    """Operators with such a name (regular expression) are ready when they are called (a library's
    search for an algorithm, its plan): no long work of the host within them, and nothing of what
    they do up to their last wait for the device, which is how algorithms are tried."""
    operator = tape.source.linked.tree.outermost(
        operators_named(tape.source.linked, re.compile(pattern))
    )[tape.nodes]
    waits = np.flatnonzero(tape.waits & (operator >= 0))
    last = np.full(int(operator.max(initial=-1)) + 2, -1, np.int64)
    last[operator[waits]] = waits
    tried = np.arange(len(operator)) <= last[operator]
    shorter = tape.without(tried[tape.event]).without_work(operator >= 0)
    return replace(shorter, waits=tape.waits & ~tried).with_dispatch(
        np.where(tried, 0, tape.dispatch)
    )


def no_work_of_its_own(tape: Tape) -> Tape | None:
    """No host work between launches that is the program's own, but what has a name (and a remedy)
    of its own: allocation, first use, compilation, building of graphs; None without any."""
    user_work, ends = user_host_work(tape)
    timed = tape.source.timed
    of_kinds = _of_kinds(tape, *timed.memo(host_work_times))
    has_name = join(of_kinds, timed.memo(first_preparations))
    named = np.minimum(tape.before_events(has_name), tape.work)
    left = np.where(user_work, named, tape.work)
    tail = tape.tail._replace(work=0) if ends else tape.tail
    return (
        replace(tape, work=left, tail=tail)
        if (left != tape.work).any() or tail != tape.tail
        else None
    )


def nothing_before_copies(tape: Tape) -> Tape | None:
    """No work of the host's own, and nothing that the program itself does before it copies data to
    the device; None without that. What a loader does has a name."""
    unnamed_ns = _before_copies(tape)
    left = no_work_of_its_own(tape) or tape
    return replace(left, loading=left.loading - unnamed_ns) if unnamed_ns.any() else None


def made_on_device(tape: Tape) -> Tape | None:
    """The device makes what the program itself does before copies, and nothing is copied; None
    without that."""
    found = nothing_before_copies(tape)
    return found and found.without_launches(tape.copy & (_before_copies(tape) > 0)[tape.event])


def _before_copies(tape: Tape) -> I64:
    """Long work of the host before a copy to the device that no range names as loading, for each
    event, ns."""
    named = tape.before_events(tape.source.timed.timeline.states[HostState.INPUT])
    unnamed_ns = tape.loading - np.minimum(named, tape.loading)
    return np.where(unnamed_ns >= OWN_WORK_NS, unnamed_ns, 0)


def prepared_within_steps(tape: Tape) -> bool:
    """Whether the host prepares what it copies to the device between kernels of a step, and nothing
    before the first of them, where a loader's batch is needed."""
    prepared = np.flatnonzero(_before_copies(tape))
    computes = tape.events_of(tape.compute)
    before: I64 = np.cumsum(computes) - computes
    step = tape.step_of_event
    first_of_step = np.searchsorted(step, step)
    last_of_step = np.searchsorted(step, step, side="right") - 1
    begun: Bool = before[prepared] > before[first_of_step[prepared]]
    goes_on: Bool = before[prepared] < before[last_of_step[prepared]]
    return len(prepared) > 0 and bool((begun & goes_on).all())


def user_host_work(tape: Tape) -> tuple[Bool, bool]:
    """Before which events the host works for the program, and whether it does so at the end of the
    tape. Short pauses come from PyTorch where there are a few of them a step; autograd and the
    optimizer make their own, any number of them: where neither was recorded, long ones count
    alone, but for those in which lists of tensors are gone through."""
    node = tape.nodes
    frameworks = (
        tape.source.joined.in_backward[node] | tape.source.linked.memo(within_optimizer)[node]
    )
    user_work = (tape.work > 0) & ~frameworks
    long = user_work & (tape.work >= OWN_WORK_NS)
    if not tape.source.linked.tree.has_operators:
        long &= ~tape.events_of(kernels_named(tape, LISTS))
        return long, tape.tail.work >= OWN_WORK_NS
    return (
        user_work if (user_work & ~long).sum() >= MANY_PAUSES * tape.steps else long
    ), tape.tail.work >= OWN_WORK_NS


def _time(tape: Tape, *details: IdleDetail) -> I64:
    """Host time before each event in work of these kinds, ns."""
    return tape.before_events(_of_kinds(tape, *details))


def _of_kinds(tape: Tape, *details: IdleDetail) -> IntervalSet:
    """When the host does work of these kinds."""
    work = [tape.source.timed.memo(host_work_times)[detail] for detail in details]
    loading = [tape.source.timed.memo(first_launches)] if IdleDetail.LOADING in details else []
    return join(*work, *loading)


def first_launches(timed: Timed) -> IntervalSet:
    """Calls that launch a kernel for the first time and take far longer than a launch: the kernel's
    code is loaded in them. With several steps these are kernels of one step alone; within a single
    step only a first launch that took many times as long as the later ones of the same kernel."""
    calls = timed.trace.api_calls
    launched, call = _launched(timed)
    return _first(timed, launched, calls.start[call], calls.end[call])


def first_preparations(timed: Timed) -> IntervalSet:
    """What operators do until they have launched such a kernel, where that takes far longer than a
    launch: no work of the program's own, whether or not it loads code."""
    launched, call = _launched(timed)
    tree = timed.linked.tree
    operator = tree.outer_operator[tree.node_of_call[call]]
    calls = timed.trace.api_calls
    begin = np.where(operator >= 0, tree.start[operator], calls.start[call])
    return _first(timed, launched, begin, calls.end[call])


def _launched(timed: Timed) -> tuple[I64, I64]:
    """The kernels whose launch was recorded (rows of device ops), and the calls of that."""
    launched = np.flatnonzero((timed.linked.launch >= 0) & timed.linked.is_kernel)
    return launched, timed.linked.launch[launched].astype(np.int64)


def _first(timed: Timed, launched: I64, begin: I64, end: I64) -> IntervalSet:
    """Times (one for each launch is given) that are long and of the first launch of a kernel."""
    took = end - begin
    step = timed.steps.of_op[launched]
    names = timed.trace.device_ops.name[launched]
    several_steps = len(distinct(step[step >= 0])) > 1
    first = _of_one_step(names, step) if several_steps else _slow_at_first(names, begin, took)
    long = first & (took >= FIRST_LAUNCH_NS)
    return union(begin[long], end[long])


def _of_one_step(names: I32, step: I32) -> Bool:
    """Which launches are of kernels that are launched in one step alone."""
    kinds, kind = distinct_places(names)
    first = first_rows(kind, len(kinds))
    in_others = np.flatnonzero(step != step[first].take(kind))
    of_one = np.ones(len(kinds), bool)
    of_one[kind[in_others]] = False
    return of_one.take(kind)


def _slow_at_first(names: I32, begin: I64, took: I64) -> Bool:
    """Which launches are the first of their kernel and took many times as long as the later
    ones."""
    order = np.lexsort((begin, names))
    first = np.zeros(len(names), bool)
    for rows in np.split(order, np.flatnonzero(np.diff(names[order])) + 1):
        later = took[rows[1:]]
        if len(rows) > MIN_LATER and took[rows[0]] >= FIRST_RATIO * np.median(later):
            first[rows[0]] = True
    return first
