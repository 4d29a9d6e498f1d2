"""Steps of the run: where each begins and ends on the host and on the device, and which ops belong
to it.

Device ops belong to the step whose host range holds their launch call, whenever they ran. A step
ends when both its host range and its last device op have ended, and the next one begins there: the
windows of a run are contiguous. (Dividing the recorded window by the number of steps is wrong by up
to 1.8x: warm-up work drains inside the window.)"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import local_searchsorted, scatter
from traceanalyzer.analysis.joined.blocking import closing_waits, device_waits
from traceanalyzer.analysis.joined.launched import (
    host_was_lost,
    is_start_up,
    last_launch,
    launched_before,
    lost_launches,
)
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.time import markers, step_evidence
from traceanalyzer.analysis.time.earlier_work import without_leading
from traceanalyzer.analysis.time.periods import periodic
from traceanalyzer.analysis.time.step_evidence import HostSteps, extent
from traceanalyzer.base import EmptyRecordingError, dataclass
from traceanalyzer.trace import I32, I64, Bool, RangeKind, distinct_places, narrowed

EVIDENCE: tuple[
    Callable[[TraceJoins], HostSteps | None], ...
] = (  # what tells steps apart, the surest first
    markers.profiler_steps,
    markers.step_annotations,
    markers.iterations,
    step_evidence.annotated,
    markers.calls_of_only_module,
    step_evidence.between_optimizer_steps,
    markers.one_marked_step,
    periodic,
    markers.one_marked_range,
    step_evidence.logged_steps,
)

WARMUP_RATIO = 1.5
"""A leading step this much slower than the median of the later ones is warm-up (compilation,
autotuning, allocator growth cost whole factors; the spread of steady steps is tens of percent)."""

LONGEST_WARMUP = 256
"""Steps that get shorter for so long are no warm-up, and each that is looked at costs a median of
the rest."""
PAUSE_RATIO = 100
"""A repetition this many times as long as the median is two, with a pause of the program
between."""
WITHOUT_PAUSE = 0.75
"""A last repetition that is so much shorter than the others lacks the pause behind it."""
FEWEST_SHRINKING = 8  # in fewer steps there is no telling work that shrinks from a slow start


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps in time order; where nothing marks one the recording is it (source `recording`,
    `none` without ops)."""

    # `profiler_step`, `nvtx`, `annotation`, `periodicity`, `timing_log`, `recording` or `none`
    source: str
    names: tuple[str, ...]
    host_start: I64
    host_end: I64  # host range of each step, ns
    start: I64
    # wall-clock window of each step on the device, ns; contiguous: `start[i + 1] == end[i]`
    end: I64
    warmup: int  # how many leading steps are warm-up
    # for each device op the index of its step, -1 outside all steps; narrow (see `trace.column`)
    of_op: I32
    # index in the recording of the first of these steps (not 0 where the rest was left out)
    first: int = 0
    # steps at the ends left out because not all of their device ops are in the recording
    incomplete: int = 0

    # whether steps may differ in kind (prefill, decode): then a few of them do not stand for all
    unlike: bool = False

    def __len__(self) -> int:
        return len(self.names)

    @property
    def found(self) -> bool:
        """Whether anything tells steps apart."""
        return self.source not in ("none", "recording")

    @property
    def known(self) -> bool:
        """Whether there is a unit that figures can be of: a step, or the recording."""
        return self.source != "none"

    @property
    def unit(self) -> str:
        """What figures are of, in a word."""
        if not self.found:
            return "recording"
        return "iteration" if self.unlike else "step"

    @property
    def each(self) -> str:
        """How a figure of a unit says so: ` a step`, and nothing where the recording is the
        unit."""
        if not self.found:
            return ""
        return " an iteration" if self.unlike else " a step"

    @property
    def per(self) -> str:
        """How a figure that stands alone says what it is of."""
        return f"per {self.unit}" if self.found else "in the recording"

    @property
    def steady(self) -> slice:
        """The steady-state steps."""
        return slice(self.warmup, None)

    @property
    def steady_count(self) -> int:
        """How many steady-state steps there are; at least 1."""
        return len(self) - self.warmup

    def only(self, index: int) -> "Steps":
        """The step with this index alone, counted as steady; EmptyRecordingError if there is
        none."""
        if not 0 <= index < len(self):
            raise EmptyRecordingError(
                f"there is no step {index}; the recording has steps 0 to {len(self) - 1}"
            )
        columns = ("names", "host_start", "host_end", "start", "end")
        columns_of_step = {name: getattr(self, name)[index : index + 1] for name in columns}
        of_op = np.where(self.of_op == index, 0, -1).astype(np.int32)
        return Steps(
            self.source,
            **columns_of_step,
            warmup=0,
            of_op=of_op,
            first=index,
            unlike=self.unlike,
        )

    @property
    def duration(self) -> I64:
        """Wall-clock time of each step, ns."""
        return self.end - self.start


COMPLETE_SHARE = 0.95
"""A step at the end of a cut recording with less of the device work of the others has lost some."""
LEAD_SHARE = 0.75
"""The first range on a device begins with its work; where it is so much shorter than the others,
the idle time before that is missing, or work that none of the ranges holds."""


def find_steps(linked: TraceJoins) -> Steps:
    """The steps of a recording, from the best evidence it has (`EVIDENCE`); without any the whole
    of it is one: also where a server starts, and captures graphs."""
    if linked.knowledge.iteration_name is None and linked.memo(is_start_up):
        return whole_recording(linked)
    asked = () if linked.knowledge.iteration_name is None else (markers.iterations,)
    found = (evidence(linked) for evidence in (*asked, *EVIDENCE))
    steps = (_assemble(linked, one) for one in found if one is not None)
    return next((one for one in steps if one is not None), None) or whole_recording(linked)


def _assemble(linked: TraceJoins, host_steps: HostSteps) -> Steps | None:
    of_op = host_steps.of_op if host_steps.of_op is not None else by_launch(linked, host_steps)
    if host_steps.unlike:
        of_op = without_leading(linked, of_op)
    if host_steps.by_device:  # the steps that launched device work
        kept = np.bincount(of_op[of_op >= 0], minlength=len(host_steps.names)) > 0
        moved = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        of_op = moved[of_op].astype(np.int32)
        if not kept.any():
            return None
        host_steps = _chosen(host_steps, np.flatnonzero(kept))
    start, end = _windows(linked, host_steps, of_op)
    first, stop = whole_steps(linked, host_steps, of_op, end - start)
    incomplete = len(start) - (stop - first)
    if host_steps.source == "periodicity":
        length = end - start
        # the last one of the recording lacks the pause behind it if it is so much shorter: how long
        # is not recorded
        reaches_end = first < stop == len(length) > 1
        if reaches_end and length[-1] < WITHOUT_PAUSE * np.median(length[:-1]):
            stop -= 1
        first, stop = between_pauses(length, first, stop)
    if first == stop:
        return replace(whole_recording(linked), incomplete=incomplete)
    if stop - first < len(start):
        host_steps = _chosen(host_steps, np.arange(first, stop))
        start = start[first:stop]
        end = end[first:stop]
        inside = (of_op >= first) & (of_op < stop)
        of_op = np.where(inside, of_op - first, -1).astype(np.int32)
    warmup = 0 if host_steps.unlike else count_warmup(end - start)
    return Steps(
        host_steps.source,
        host_steps.names,
        host_steps.start,
        host_steps.end,
        start,
        end,
        warmup,
        narrowed(of_op),
        incomplete=incomplete,
        unlike=host_steps.unlike,
    )


def _chosen(found: HostSteps, rows: I64) -> HostSteps:
    return replace(
        found,
        names=tuple(found.names[i] for i in rows),
        start=found.start[rows],
        end=found.end[rows],
    )


def by_launch(linked: TraceJoins, found: HostSteps) -> I32:
    """The step whose host range holds each op's launch; if that is unknown, once in a step, that of
    the op before."""
    time = linked.launch_time
    if host_was_lost(linked):
        # Nothing but the ops' own times tells where they belong.
        time = np.where(time >= 0, time, linked.trace.device_ops.start)
    index = local_searchsorted(found.start, time, side="right") - 1
    until = found.end[np.maximum(index, 0)]
    inside = (time >= 0) & (index >= 0) & (time < until)
    of_op = np.where(inside, index, -1)
    unknown = time < 0
    if unknown.any():
        last_known = np.maximum.accumulate(np.where(unknown, -1, np.arange(len(time))))
        fill = unknown & (last_known >= 0) & ~linked.memo(launched_before)
        of_op[fill] = of_op[last_known[fill]]
    return of_op.astype(np.int32)


def _windows(linked: TraceJoins, found: HostSteps, of_op: I32) -> tuple[I64, I64]:
    """Device-side window of each step: [when all earlier work had ended, when its own has], ns."""
    ops = linked.trace.device_ops
    limits = np.iinfo(np.int64)
    last_end = np.full(len(found.names), limits.min)
    first_start = np.full(len(found.names), limits.max)
    inside = of_op >= 0
    np.maximum.at(last_end, of_op[inside], ops.end[inside])
    np.minimum.at(first_start, of_op[inside], ops.start[inside])
    end = np.maximum.accumulate(
        last_end if found.by_device else np.maximum(last_end, _without_shutdown(linked, found))
    )
    begin = int(found.start[0])
    if found.by_device and len(found.names) == 1:
        return first_start, end
    if (of_op == 0).any():
        earlier = (of_op < 0) & (ops.start < first_start[0])
        begin = int(ops.end[earlier].max(initial=begin))
        # the recorder's start-up delays the first launch: the device waits for it no longer than
        # for any later one
        lead = (first_start[1:] - end[:-1])[first_start[1:] < limits.max]
        earliest = int(first_start[0]) - int(lead.max(initial=0)) if len(lead) else begin
        begin = min(max(begin, earliest), int(first_start[0]))
    before = linked.memo(launched_before) & (of_op < 0)
    begin = min(int(ops.end[before].max(initial=begin)), int(end[0]))
    return np.concatenate((np.array([begin], np.int64), end[:-1])), end


def _without_shutdown(linked: TraceJoins, host_steps: HostSteps) -> I64:
    """Ends of the host ranges, the last one's at most as long after its last operator or call as
    any earlier one's."""
    if len(host_steps.names) < 2:
        return host_steps.end
    calls = linked.trace.api_calls
    ranges = linked.trace.host_ranges
    closing = closing_waits(linked)
    # A program that waits so before is taken to do so itself.
    recorders = closing & ~(device_waits(linked) & ~closing).any()
    active = np.full(len(host_steps.names), -1, np.int64)

    def inside(time: I64, counted: Bool) -> tuple[I64, I64]:
        ended = time[counted]
        index = local_searchsorted(host_steps.start, ended, side="right") - 1
        within = (index >= 0) & (ended <= host_steps.end[np.maximum(index, 0)])
        return index[within], ended[within]

    scatter(np.maximum, active, inside, calls.end, ~recorders)
    scatter(np.maximum, active, inside, ranges.end, ranges.kind == RangeKind.OP)
    tails = (host_steps.end - active)[:-1][active[:-1] >= 0]
    end = host_steps.end.copy()
    if len(tails) and active[-1] >= 0:
        end[-1] = min(end[-1], active[-1] + tails.max())
    return end


def between_pauses(duration: I64, first: int, stop: int) -> tuple[int, int]:
    """The longest run of these repetitions without one so much longer than the others that the
    program paused in it."""
    if stop - first < FEWEST_SHRINKING:
        return first, stop
    pauses = first + np.flatnonzero(
        duration[first:stop] > PAUSE_RATIO * np.median(duration[first:stop])
    )
    edges = np.concatenate(([first - 1], pauses[pauses > first], [stop]))
    longest = int(np.diff(edges).argmax())
    return int(edges[longest]) + 1, int(edges[longest + 1])


def count_warmup(duration: I64) -> int:
    """How many leading steps are much slower than later ones: at most half, none where steps only
    get shorter."""
    half = min(len(duration) // 2, LONGEST_WARMUP)
    for warmup in range(half):
        if duration[warmup] <= WARMUP_RATIO * np.median(duration[warmup + 1 :]):
            return warmup
    shrinks = len(duration) >= FEWEST_SHRINKING and duration[half] > WARMUP_RATIO * np.median(
        duration[half + 1 :]
    )
    return 0 if shrinks else half


def whole_recording(linked: TraceJoins) -> Steps:
    """One step: from the first to the last device op; over all host activity where there is no
    device."""
    ops = linked.trace.device_ops
    host = extent(linked.trace.host_ranges, linked.trace.api_calls, ops)
    device = extent(ops) if len(ops) else host
    return Steps(
        source="recording" if len(ops) else "none",
        names=("recording",),
        host_start=np.array([host[0]], np.int64),
        host_end=np.array([host[1] + 1], np.int64),
        start=np.array([device[0]], np.int64),
        end=np.array([device[1]], np.int64),
        warmup=0,
        of_op=np.zeros(len(ops), np.int32),
    )


def whole_steps(linked: TraceJoins, found: HostSteps, of_op: I32, duration: I64) -> tuple[int, int]:
    """The first step whose launched work is all in the recording, and the one after the last; equal
    where none is."""
    count = len(found.names)
    first = 0
    stop = count
    if linked.trace.health.truncated and not found.unlike:
        ops = np.bincount(
            of_op[of_op >= 0], minlength=count
        )  # of a damaged one those with (nearly) all, at least 1
        short = np.flatnonzero(ops < COMPLETE_SHARE * ops.max())
        stop = max(min(short.tolist(), default=count), 1)
    lost = linked.memo(lost_launches)
    after = lost[np.searchsorted(lost, last_launch(linked), side="right") :]
    if len(after) and found.of_op is None and not host_was_lost(linked):
        complete = np.searchsorted(found.end, after[:1], side="right")
        stop = min([stop, *complete.tolist()])
    if found.unlike:
        return first, stop
    if (
        found.projected
    ):  # what is left of one that began before the recording looks whole, with no end to begin at
        time = linked.trace.device_ops.end - linked.trace.device_ops.start
        if count == 1:
            return 0, int(time[of_op == 0].sum() >= COMPLETE_SHARE * time.sum())
        lacks = _lacks_work(linked, of_op, count)
        led = duration[0] < LEAD_SHARE * np.median(duration[1:])
        return int(lacks[0] or led), count - int(lacks[-1])
    if linked.memo(launched_before).any():
        first = min(
            np.flatnonzero(~_lacks_work(linked, of_op, count)[:stop]).tolist(), default=stop
        )
    return first, stop


def _lacks_work(linked: TraceJoins, of_op: I32, count: int) -> Bool:
    """Which steps lack device ops, by name, that the others have (in the median) and that are
    long."""
    ops = linked.trace.device_ops
    rows = np.flatnonzero(of_op >= 0)
    if not len(rows):
        return np.zeros(count, bool)
    names, name = distinct_places(ops.name[rows])
    cell = of_op[rows] * np.int64(len(names)) + name
    number = np.bincount(cell, minlength=count * len(names))
    number = number.reshape(count, len(names))
    total = np.bincount(name, (ops.end - ops.start)[rows])
    time = total / number.sum(axis=0)
    usual = np.median(number, axis=0)
    return np.maximum(usual - number, 0) @ time > (1 - COMPLETE_SHARE) * (usual @ time)
