"""The timeline of a step as a value: lanes of events, in bounded size; which steps are drawn;
compile work of a log on the clock of a trace."""

import enum
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base import SENTENCE, dataclass
from traceanalyzer.replay.compile.stages import stage_of
from traceanalyzer.trace import I32, I64, U8, Table, Trace, column
from traceanalyzer.trace.compile_log import CompileLog


@dataclass(frozen=True, eq=False)
class CompileSpans:
    """Stretches of compile work, times in ns on the trace's clock."""

    start: I64
    end: I64
    depth: I64
    name: list[str]
    detail: list[str]  # compile id and stage


def compile_spans(logs: Sequence[CompileLog], trace: Trace) -> CompileSpans:
    """The compile work of the trace's rank; none where the two have no clock in common."""
    fitting = [log for log in logs if log.rank in (trace.rank, None)] if trace.epoch_ns else []
    spans = [span for log in fitting for span in log.spans]
    numbers = np.array(
        [(span.start_ns, span.end_ns, span.depth) for span in spans], np.int64
    ).reshape(-1, 3)
    (start, end, depth) = numbers.T
    epoch_ns = trace.epoch_ns or 0
    details = [
        ", ".join(
            filter(
                None,
                (span.compile_id, stage_of(span.name)),
            )
        )
        for span in spans
    ]
    return CompileSpans(
        start - epoch_ns, end - epoch_ns, depth, [span.name for span in spans], details
    )


class Category(enum.IntEnum):
    """What an event of the timeline is; decides its colour."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2
    IDLE_LAUNCH = 3  # this and the next six: a gap by `IdleCause`, in the order of that
    IDLE_SYNC = 4
    IDLE_INPUT = 5
    IDLE_HOST = 6
    IDLE_COMMUNICATION = 7
    IDLE_PROFILER = 8
    IDLE_OTHER = 9
    OPERATOR = 10
    ANNOTATION = 11
    LIBRARY = 12
    API_CALL = 13
    WAIT = 14  # an API call in which the host waits for the device
    PATH_LAUNCH = 15
    """This and the next five: what of the critical path no device op fills, by `PathKind`, in the
    order of that."""
    PATH_WAIT = 16
    PATH_INPUT = 17
    PATH_HOST = 18
    PATH_PROFILER = 19
    PATH_OTHER = 20
    COMPILE = 21  # work of torch.compile, from its log

    @property
    def label(self) -> str:
        """As reports name it."""
        sort, _, what = self.name.lower().partition("_")
        return (
            f"{sort}: {what}" if sort in ("idle", "path") else self.name.lower().replace("_", " ")
        )


@dataclass(frozen=True)
class Lane:
    """A row of the timeline. Lanes of one group (a thread with its levels of nesting) have the same
    title."""

    title: str = field(metadata=SENTENCE)
    level: int = 0


@dataclass(frozen=True)
class Shown:
    """How many events of a sort are shown, the longest, and how many the step has."""

    what: str
    shown: int
    total: int


@dataclass(frozen=True, eq=False)
class DrawnEvents(Table):
    """Events of the timeline, ns from its origin."""

    lane: I32 = column(np.int32)
    category: U8 = column(np.uint8)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    name: I32 = column(np.int32)  # index into `Timeline.names`
    detail: I32 = column(np.int32)  # index into `Timeline.detail`, -1 without
    facts: I32 = column(np.int32)  # index into `Timeline.facts`, -1 without
    own: I64 = column(np.int64)  # what other events call this one, -1 where none does
    link: I64 = column(
        np.int64
    )  # `own` of the call that launched it, or of the op that ended this wait; -1 without
    on_path: I64 = column(np.int64, fill=0)  # how much of the critical path it is, ns
    filled: U8 = column(
        np.uint8, fill=100
    )  # how much of it there is something, %: less where it stands for several


@dataclass(frozen=True, eq=False)
class Timeline:
    """One step, from the start of its host range to the end of its device work."""

    step: int | None  # index in the recording; None: there are no steps and this is all of it
    origin_ns: int  # the step's start on the recording's clock; times of the timeline count from it
    extent: tuple[int, int]  # first and last moment shown, ns from the origin
    window: tuple[int, int]  # the step's wall-clock window, ns from the origin
    lanes: list[Lane]
    names: list[str]
    detail: list[str] = field(metadata=SENTENCE)
    events: DrawnEvents
    shown: list[Shown]
    title: str = field(metadata=SENTENCE, default="")  # which step of which rank, in words
    facts: list[list[str]] = field(
        default_factory=list
    )  # what is known of an event beyond name and times, each a line
    path: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # the critical one: start, end, lane


def representative(steps: Steps) -> int:
    """Index (among `steps`) of the steady step whose time is closest to the median."""
    time = steps.duration[steps.steady]
    return steps.warmup + int(np.abs(time - np.median(time)).argmin())


def shown_steps(steps: Steps) -> dict[int, str]:
    """The index of each, and which it is: the representative one first, then the slowest and the
    fastest steady one."""
    shown = {representative(steps): "median"}
    if steps.found:
        time = steps.duration[steps.steady]
        for which, found in (("slowest", time.argmax()), ("fastest", time.argmin())):
            shown.setdefault(steps.warmup + int(found), which)
    return shown


def extent_of(steps: Steps, step: int) -> tuple[int, int]:
    """When the host or the device begins with a step, and when both are done, ns."""
    begin = min(int(steps.start[step]), int(steps.host_start[step]))
    return begin, max(int(steps.end[step]), int(steps.host_end[step]))
