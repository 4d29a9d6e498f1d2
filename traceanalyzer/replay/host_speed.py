"""The host without the profiler: fitted to a stopwatch where the capture has one, else as fast as
usual."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, contains, intersect, join, union
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.analysis.tables.timing import UnprofiledTime
from traceanalyzer.analysis.time.host_timeline import LONG_STRETCH_NS, HostState
from traceanalyzer.base import NS_PER_MS
from traceanalyzer.replay.changes.kernels import GRAPH_CALL_NS, GRAPH_NODE_NS
from traceanalyzer.replay.simulate import step_times_ns
from traceanalyzer.replay.stalls import without_stalls
from traceanalyzer.replay.tape import Tail, Tape
from traceanalyzer.replay.together import beside_transfers
from traceanalyzer.trace import I64, RangeKind, Trace
from traceanalyzer.trace.run import LEAST_WAIT_FOR_DATA

DISPATCH_SHARE = 0.55
"""Share of the recorded dispatch time that is left without the profiler: between the median of
host-bound recordings of eager PyTorch on the host of `benchmarks/ablations` (0.65) and those on
other hosts (0.5). A cost for each operator and call fits them worse (docs/accuracy.md)."""
DISPATCH_SHARE_WITH_STACKS = 0.5  # the same where Python stacks were recorded
DISPATCH_SHARE_OF_CALLS = 0.8  # the same where the recorder slows API calls alone
DISPATCH_SHARE_OF_NSYS = 0.65
"""The same of nsys with libraries traced: 13 host-bound programs on an H100's and an H200's host,
each with its stopwatch, kept 0.45 to 0.86 of it, 0.57 in the median; two on another host 0.7 and
0.97."""
DISPATCH_RANGE_OF_CALLS = 0.2
DISPATCH_SHARE_OF_NVTX = 0.35
"""The same of nsys with a range of NVTX around every operator of PyTorch, whose text with shapes
takes the host longer than the operator: ten host-bound programs on an H200's host, each with its
stopwatch, kept 0.13 to 0.42 of it, 0.36 in the median."""
NVTX_RANGE_NS = 6_000
"""What naming an operator for NVTX costs: a batch of 5,250 took 38 ms longer, 7 us each."""
DISPATCH_SHARE_OF_CAPTURES = 0.5
"""Share left of captures of `collect torch`, which records twice and asks for more: the median of
59 host-bound programs on three hosts, each with its stopwatch (nine in ten: 0.3 to 0.7)."""
SENDING_SHARE = 0.75
"""Share left of calls of collectives, at least: most of their time is spent in a library's code, of
which nothing is recorded. In programs that were timed with few and with many of them they kept 0.6
to 1."""
DISPATCH_RANGE = 0.2
"""For nearly nine in ten of those recordings the share is no farther away than this. Two recordings
of one process, seconds apart, differ by as much: the host itself is not always equally fast."""
FIT_ROUNDS = 7  # halvings that find the host's speed from a measured step time, to half a percent
FIT_TOLERANCE = 0.03
"""A replay that is this near to the stopwatch needs no other host: clocks differ by as much from
run to run."""
OF_RANGE = 1.64  # standard deviations to each side that hold nine in ten
AHEAD = 0.85
"""A step that the host issued in less than this share of what the device takes for it was issued
ahead of the device."""
OF_DEVICE = 0.9
"""Share of the timed step that the device takes at least where it sets the pace: clocks differ by
less. Of such a step the host is as fast as it was seen to be, whatever else would explain it."""
MOST_LONGER = 2 * FIT_TOLERANCE
"""How much longer than the stopwatch a replay may be with the host that ran ahead."""
SHORTEST_OP_NS = 1_000  # what a device op takes that keeps nobody waiting
LEAST_SHARE = 0.3
"""Less of the dispatch was left in hardly any recording. A step that is shorter still waits less for
what the host does besides, and only where that is not enough less for dispatch: kernels are as fast
as recorded in any case."""
LEAST_SHARE_OF_NVTX = 0.1  # the same with ranges of NVTX around operators
HOST_SPREAD = 0.25
"""How much longer or shorter the host takes over the same work from one run of a program to the
next: programs that were recorded twice, minutes apart on one machine, differ by up to a quarter."""
LOADING_SPREAD = 0.1
"""How much longer or shorter loading, and other long work of the host, takes in the timed run than
in the recorded one, as a mean over its steps."""
SAME_PROGRAM = 1.15  # ranks whose numbers of launches differ by less run the same program
LONG_WORK_NS = 1_000_000
"""Shorter work of the host lies between launches, and is as fast as they are."""


def replay_step_ms(
    tapes: Sequence[Tape], of_run: Callable[[Sequence[float]], float] = max
) -> float:
    """Step time of ranks that are replayed together, ms."""
    return of_run(step_times_ns(tapes)) / NS_PER_MS


def without_profiler(
    tapes: tuple[Tape, ...], measured: UnprofiledTime | None
) -> tuple[tuple[Tape, ...], tuple[Tape, ...], tuple[Tape, ...]]:
    """The tapes with the profiler's cost taken out of the host's time: a fast, the usual and a slow
    host."""
    low = 1.0 - HOST_SPREAD
    high = 1.0 + HOST_SPREAD
    traced = tuple(map(beside_transfers, tapes))
    tapes = tuple(map(with_graphs_untraced, traced))
    if measured is not None:
        tapes = _with_empty_queue(tuple(map(without_stalls, tapes)), measured.step_ms)
        share, own = fitted_host(tapes, measured.step_ms, measured.host_ms)
        low_share = share * low
        high_share = share * high
    else:
        source = tapes[0].source
        share, spread = (share_of_capture if source.timed.steps.unlike else _usual_share)(
            source.trace
        )
        own = 1.0
        low_share = share - spread
        high_share = share + spread
    fast = host_scaled(tapes, low_share, own * low)
    slow = traced if measured is None else tapes
    return fast, host_scaled(tapes, share, own), host_scaled(slow, high_share, own * high)


def with_graphs_untraced(tape: Tape) -> Tape:
    """The tape with launches of graphs that take no longer than without a recorder of their
    kernels, which makes a call of each: what follows such a call begins earlier by that, on the
    host as on the device."""
    calls = tape.source.trace.api_calls
    replays = tape.source.linked.api_kind[tape.call] == ApiKind.GRAPH_LAUNCH
    if not replays.any():
        return tape
    nodes = np.bincount(tape.event, minlength=len(tape.call))
    usual_ns = GRAPH_CALL_NS + GRAPH_NODE_NS * nodes
    recorded_ns = (calls.end - calls.start)[tape.call]
    spared = np.where(replays, np.maximum(recorded_ns - usual_ns, 0), 0)
    after = np.append(0, spared[:-1])
    dispatch = np.maximum(tape.dispatch - np.maximum(after - tape.work, 0), 0)
    latency = np.where(
        replays[tape.event], np.maximum(tape.latency - spared[tape.event], 0), tape.latency
    )
    left = replace(tape, work=np.maximum(tape.work - after, 0), latency=latency)
    return left.with_dispatch(dispatch)


def _with_empty_queue(tapes: tuple[Tape, ...], measured_ms: float) -> tuple[Tape, ...]:
    """The tapes with waits for batches that are as long as in the timed steps, where workers bring
    them: their queue fills while the recorder starts, and recorded steps take from it what timed
    ones had to wait for; and where the loading itself was timed, of other batches. No rank waits
    longer than its stopwatch saw it wait."""
    waits_ms = _slowest_ms(tapes, _loading_ns)
    if not all(_may_have_waited_longer(one.source.trace) for one in tapes):
        return tapes
    if waits_ms < LEAST_WAIT_FOR_DATA * measured_ms:
        return tapes
    usual = share_of_capture(tapes[0].source.trace)[0]
    missing_ms = measured_ms - replay_step_ms(host_scaled(tapes, usual))
    if missing_ms <= FIT_TOLERANCE * measured_ms:
        return tapes
    return tuple(_waiting_longer(one, 1.0 + missing_ms / waits_ms) for one in tapes)


def _may_have_waited_longer(trace: Trace) -> bool:
    """Whether timed steps may have waited longer for their batches than recorded ones."""
    was_timed = trace.stopwatch is not None and trace.stopwatch.loader_ns is not None
    return trace.may_have_waited_for_workers or (was_timed and not trace.fed_by_workers)


def _waiting_longer(tape: Tape, longer: float) -> Tape:
    """The tape with so many times as long waits for data, as far as the timed steps had them."""
    stopwatch = tape.source.trace.stopwatch
    recorded_ns = _loading_ns(tape) / tape.steps
    if stopwatch is not None and stopwatch.loader_ns is not None and recorded_ns:
        longer = min(longer, max(stopwatch.loader_ns / recorded_ns, 1.0))
    tail = tape.tail._replace(loading=round(tape.tail.loading * longer))
    return replace(tape, loading=_scaled(tape.loading, longer), tail=tail)


def _usual_share(trace: Trace) -> tuple[float, float]:
    """Share of the recorded dispatch left without the profiler, and how far nine of ten recordings
    are from it."""
    if not trace.operators_slowed:
        by_nsys = trace.source == "nsys"
        share = DISPATCH_SHARE_OF_NSYS if by_nsys else DISPATCH_SHARE_OF_CALLS
        return share, DISPATCH_RANGE_OF_CALLS
    if trace.source == "nsys":
        return DISPATCH_SHARE_OF_NVTX, DISPATCH_RANGE
    return DISPATCH_SHARE_WITH_STACKS if trace.collected.stacks else DISPATCH_SHARE, DISPATCH_RANGE


def share_of_capture(trace: Trace) -> tuple[float, float]:
    """The share of a capture, whose host may be any, and how far it may be off."""
    share, within = _usual_share(trace)
    return min(share, DISPATCH_SHARE_OF_CAPTURES) if trace.operators_slowed else share, within


def fitted_host(
    tapes: tuple[Tape, ...], measured_ms: float, ahead_ms: float | None = None
) -> tuple[float, float]:
    """Shares of the dispatch, and of the host's own work, with which the replay takes about as long
    as was measured.

    Many hosts lead to the same step where the GPU bounds it: of those the one that issues a step as
    fast as was seen where it ran ahead of the device (`ahead_ms`), else the mean, as likely as
    shares of the dispatch are in other recordings. A host that is only not slower than the GPU is faster
    than usual. Where the recorded device work alone takes longer than the timed steps, or the steps
    take longer than any host explains beside a device that bounds them (other data, other clocks),
    they say nothing of the host, which is as fast as usual, or as was seen. Loading, and other long
    work of the host, takes another time in another run, and what it is off by says nothing of the
    dispatch."""

    off = FIT_TOLERANCE * measured_ms + LOADING_SPREAD * _slowest_ms(tapes, _long_work_ns)
    low = max(measured_ms - off, 0.0)
    high = measured_ms + off

    def takes(share: float, own: float = 1.0) -> float:
        return replay_step_ms(host_scaled(tapes, share, own))

    trace = tapes[0].source.trace
    by_nvtx = trace.source == "nsys" and trace.operators_slowed
    least_left = LEAST_SHARE_OF_NVTX if by_nvtx else LEAST_SHARE
    fastest = takes(least_left)
    usual, within = share_of_capture(trace)
    on_device = takes(0.0, 0.0)
    if on_device > high:
        return usual, 1.0
    if ahead_ms is not None and _is_of_device(on_device, measured_ms, ahead_ms):
        most = _most_within(takes, measured_ms * (1.0 + MOST_LONGER))
        return _share_ahead(tapes, ahead_ms, most), 1.0
    if fastest > high:
        return _fastest(takes, least_left, measured_ms)
    slowest = takes(1.0)
    if on_device + off < slowest < low:
        return 1.0, 1.0
    any_host = fastest >= low or slowest < low
    least = least_left if any_host else bisected(lambda one: takes(one) < low, least_left, 1.0)
    most = 1.0 if slowest <= high else bisected(lambda one: takes(one) <= high, least, 1.0)
    if any_host and ahead_ms is not None and ahead_ms < AHEAD * on_device:
        return _share_ahead(tapes, ahead_ms, most), 1.0
    return _mean_between(usual, within / OF_RANGE, least, most), 1.0


def _most_within(takes: Callable[[float], float], longest_ms: float) -> float:
    """The largest share of the dispatch with which a step takes no longer than this."""
    if takes(1.0) <= longest_ms:
        return 1.0
    return bisected(lambda share: takes(share) <= longest_ms, 0.0, 1.0)


def _is_of_device(on_device: float, measured_ms: float, ahead_ms: float) -> bool:
    """Whether the device sets the pace of the timed steps, as the host ran ahead of it."""
    return on_device >= OF_DEVICE * measured_ms and ahead_ms < AHEAD * on_device


def _fastest(
    takes: Callable[[float, float], float], least_left: float, measured_ms: float
) -> tuple[float, float]:
    """Shares of the dispatch and of the host's own work where the least that is usually left of the
    dispatch is too much: less of the own work, or where that is not enough, of both. The device is
    as fast as recorded."""
    if takes(least_left, 0.0) <= measured_ms:

        def with_own(own: float) -> bool:
            return takes(least_left, own) <= measured_ms

        return least_left, bisected(with_own, 0.0, 1.0)

    def with_both(left: float) -> bool:
        return takes(left * least_left, left) <= measured_ms

    left = bisected(with_both, 0.0, 1.0)
    return left * least_left, left


def _share_ahead(tapes: Sequence[Tape], ahead_ms: float, most: float) -> float:
    """Share of the dispatch with which the host issues a step as fast as where it ran ahead."""
    idle = tuple(map(_with_idle_device, tapes))

    def in_time(share: float) -> bool:
        return replay_step_ms(host_scaled(idle, share)) <= ahead_ms

    return bisected(in_time, 0.0, most)


def _with_idle_device(tape: Tape) -> Tape:
    """The tape with device work that keeps the host waiting nowhere."""
    return tape.retimed(np.minimum(tape.duration, SHORTEST_OP_NS))


def _slowest_ms(tapes: tuple[Tape, ...], of_tape: Callable[[Tape], float]) -> float:
    """Time of some kind, ms a step, of the rank with most of it."""
    return max(of_tape(one) / one.steps for one in tapes) / NS_PER_MS


def _loading_ns(tape: Tape) -> float:
    return float(tape.loading.sum()) + tape.tail.loading


def _long_work_ns(tape: Tape) -> float:
    """What the host does that takes another time in another run, ns: loading that was not timed, and
    other long work."""
    work = np.append(tape.work, tape.tail.work)
    loading_ns = 0.0 if _loads_as_timed(tape) else _loading_ns(tape)
    return loading_ns + float(work[work >= LONG_WORK_NS].sum())


def _loads_as_timed(tape: Tape) -> bool:
    """Whether a tape's steps load for as long as the timed ones did."""
    stopwatch = tape.source.trace.stopwatch
    if stopwatch is None or not stopwatch.loader_ns:
        return False
    return abs(_loading_ns(tape) / tape.steps / stopwatch.loader_ns - 1.0) <= FIT_TOLERANCE


def _mean_between(mean: float, deviation: float, low: float, high: float) -> float:
    """The mean of a normal distribution's part between two values."""
    variance = deviation * deviation

    def below(value: float) -> float:
        return 0.5 * (1.0 + math.erf((value - mean) / (deviation * math.sqrt(2.0))))

    def density(value: float) -> float:
        apart = value - mean
        return math.exp(apart * apart / (-2.0 * variance)) / math.sqrt(math.tau * variance)

    part = below(high) - below(low)
    middle = mean
    if part >= 1e-6:  # what is less is too small to divide by
        middle += deviation**2 * (density(low) - density(high)) / part
    return min(max(middle, low), high)


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """About the number of the range up to which it holds."""
    for _ in range(FIT_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def host_scaled(tapes: Sequence[Tape], dispatch: float, own: float = 1.0) -> tuple[Tape, ...]:
    """The tapes without the profiler, if these shares of the dispatch and of the host's own work
    (Python, loading) are left. Where ranks launch as many, a launch takes all of them as long:
    hosts of one program that differ in that do so by chance, and a profiler makes more of it."""
    launches = np.array([len(tape.row) / tape.steps for tape in tapes])
    dispatch_ns = np.array([float(tape.dispatch.sum()) for tape in tapes])
    each = dispatch_ns / np.array([len(tape.row) for tape in tapes])
    alike = launches.max() <= SAME_PROGRAM * launches.min() and each.all()
    shares = dispatch * (each.mean() / each) if alike else np.full(len(tapes), dispatch)
    return tuple(
        _scaled_host(tape, share, own) for tape, share in zip(tapes, shares.tolist(), strict=True)
    )


class _NamedLoading(NamedTuple):
    """Shares of the time that the launching threads load input in."""

    operators: float  # in short operators and what Python takes between them
    ranges: float  # what naming these for NVTX costs at most


def _named_loading(source: Rated) -> _NamedLoading:
    """Of a recording with ranges of NVTX around operators; nothing of others: Kineto's operators
    within a loader are mostly its own work (two programs were estimated 16 % too fast)."""
    loading = source.timed.timeline.states[HostState.INPUT]
    trace = source.trace
    ranges = trace.host_ranges
    short = (ranges.kind == RangeKind.OP) & (ranges.end - ranges.start < LONG_STRETCH_NS)
    if not (trace.source == "nsys" and trace.operators_slowed and short.any() and loading.total):
        return _NamedLoading(0.0, 0.0)
    operators = union(ranges.start[short], ranges.end[short])
    between = operators.start[1:] - operators.end[:-1] < LONG_STRETCH_NS
    pauses = IntervalSet(operators.end[:-1][between], operators.start[1:][between])
    within = intersect(join(operators, pauses), loading).total
    named = int(contains(loading, ranges.start[short]).sum())
    return _NamedLoading(within / loading.total, named * NVTX_RANGE_NS / loading.total)


def _scaled_host(tape: Tape, dispatch: float, own: float) -> Tape:
    sending = _scaled(tape.sending, max(dispatch, SENDING_SHARE))
    spent = _scaled(tape.dispatch - tape.sending, dispatch) + sending
    reading = _scaled(tape.reading, dispatch)
    work = _scaled(tape.work, own)
    named = tape.source.memo(_named_loading)
    spared = min(named.operators * (1.0 - min(dispatch, 1.0)), named.ranges)
    loaded = (1.0 - spared) * own
    loading = _scaled(tape.loading, loaded)
    last = tape.tail
    none = np.zeros_like(tape.profiling)
    tail = Tail(
        round(last.dispatch * dispatch), round(last.work * own), round(last.loading * loaded), 0
    )
    left = replace(
        tape, dispatch=spent, reading=reading, sending=sending, work=work, loading=loading
    )
    return replace(left, profiling=none, tail=tail)


def _scaled(times: I64, share: float) -> I64:
    return np.rint(times * share).astype(np.int64)
