"""What the analysis found, and compile work, as tracks over time on the recording's own clock, for
a viewer."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.causes.critical_path import PathKind
from traceanalyzer.analysis.causes.gaps import GapSide
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.launched import stream_numbers
from traceanalyzer.analysis.tables.gap_rows import gap_details
from traceanalyzer.analysis.tables.path_rows import segment_names
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import (
    NS_PER_US,
    OWN,
    SENTENCE,
    TraceAnalyzerError,
    UnreadableInputError,
    dataclass,
)
from traceanalyzer.diagnosis.finding import Finding
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.selection import Asked, Knowledge, Selection
from traceanalyzer.replay.compile.stages import stage_of
from traceanalyzer.report.compile.build import fitting
from traceanalyzer.report.json import as_plain
from traceanalyzer.report.kept_report import kept_findings
from traceanalyzer.trace import I32, I64, Bool, Run, distinct, ranked
from traceanalyzer.trace.compile_log import CompileLog

PATH_OF_CLASS = {
    "compute": PathKind.COMPUTE,
    "memory": PathKind.COMPUTE,
    "launch": PathKind.LAUNCH,
    "sync": PathKind.WAIT,
    "communication": PathKind.COMMUNICATION,
    "input": PathKind.INPUT,
    "host": PathKind.HOST,
    "transfer": PathKind.COPY,
}
"""The kind of segment of the critical path that a finding's class speaks of."""
EXPLAINED_GAPS = 5_000
"""Longest gaps of a device whose cause is told in words; each costs a search of the host's
timeline."""


@dataclass(frozen=True)
class Label:
    """What a slice says. `kind` is the product's own word, the rest comes from the recording."""

    kind: str = field(metadata=OWN)
    name: str
    detail: str = field(metadata=SENTENCE, default="")


@dataclass(frozen=True, eq=False)
class Track:
    """Slices that do not overlap, in time order; those without a length are moments."""

    title: str = field(metadata=SENTENCE)
    start: I64  # on the recording's own clock, ns
    duration: I64
    label: I32 | I64  # index of each slice's label
    labels: list[Label]


@dataclass(frozen=True, eq=False)
class Counter:
    """A number over time: from each moment on it has that value."""

    title: str = field(metadata=SENTENCE)
    time: I64
    value: I64


@dataclass(frozen=True, eq=False)
class Overlay:
    """Tracks of one process, in order of display."""

    path: str
    opens_in_viewer: bool  # as in `Trace`: then the overlay can be merged with it
    rank: int | None
    epoch_ns: int
    tracks: list[Track]
    counters: list[Counter]


FIRST_PID = 1_900_000_000  # process ids that no recording has: the tracks stand apart from its own
PROCESS = 2_000_000_000  # process id of the overlay: above what a Linux kernel gives (2**22)
FIRST_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[')
LATER_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[')  # the same where the file has begun otherwise
LONGEST_MARK = 256  # bytes that it takes, with as much white space as files have
EVENTS_A_PIECE = 4_000  # their texts stay in the processor's cache
BETWEEN = b",\n"
FRACTIONS = np.array([f".{i:03d}" for i in range(1000)], object)  # of a microsecond, by nanoseconds


def build_overlay(
    run: Run, selection: Selection | None = None, knowledge: Knowledge | None = None
) -> Overlay:
    """The overlay of one rank, the critical one unless one is asked for. Raises EmptyRecordingError
    for a rank, device or step that the recording does not have."""
    asked = Asked(run, selection, knowledge)
    m = asked.measured.critical
    trace = m.trace
    steps = m.timed.steps
    labels = [
        Label("step", name, "warm-up" if i < steps.warmup else "")
        for i, name in enumerate(steps.names)
    ]
    tracks = [
        Track("steps", steps.start, steps.duration, np.arange(len(steps)), labels),
        _path(m),
        *_gaps(m),
    ]
    tracks.append(_findings(m, kept_findings(asked)))
    if not trace.opens_in_viewer:
        tracks += _device_work(m.timed)
    return Overlay(
        trace.path,
        trace.opens_in_viewer,
        trace.rank,
        trace.epoch_ns,
        tracks,
        list(_queues(m.timed)),
    )


def _path(m: Measurements) -> Track:
    """The critical path; neighbouring segments of one kind and name are one slice."""
    path = m.causes.critical_path
    code, names = segment_names(m.timed, path)
    key = np.multiply(code, len(PathKind), dtype=np.int32)
    key += path.kind
    first = np.flatnonzero(where_changed(key))
    used, label = ranked(key[first])
    labels = [
        Label(PathKind(k % len(PathKind)).label, names[k // len(PathKind)]) for k in used.tolist()
    ]
    end = np.append(path.start[first[1:]], path.end[-1:])
    return Track("critical path", path.start[first], end - path.start[first], label, labels)


def _gaps(m: Measurements) -> Iterator[Track]:
    gaps = m.causes.gaps
    inside = (gaps.side == GapSide.INSIDE) & _asked_for(m.timed, gaps.start, gaps.end)
    for device in m.timed.activity:
        rows = np.flatnonzero(inside & (gaps.device == device))
        explained = np.argsort(gaps.start[rows] - gaps.end[rows], kind="stable")[:EXPLAINED_GAPS]
        labels = [Label(cause.label, "") for cause in IdleCause]
        label = gaps.cause[rows].astype(np.int64)
        label[explained] = len(labels) + np.arange(len(explained))
        details = zip(
            gaps.cause[rows[explained]].tolist(),
            gap_details(m.timed, gaps, rows[explained]),
            strict=True,
        )
        labels += [Label(labels[cause].kind, "", detail) for cause, detail in details]
        yield Track(
            f"idle gaps of GPU {device}", gaps.start[rows], gaps.duration[rows], label, labels
        )


def _findings(m: Measurements, findings: list[Finding]) -> Track:
    """Each finding where the critical path has the longest segment of its kind, else where the
    steady state begins."""
    path = m.causes.critical_path
    first = int(m.timed.steps.start[m.timed.steps.warmup])
    moments = []
    for finding in findings:
        rows = np.flatnonzero(path.kind == PATH_OF_CLASS.get(finding.cls, len(PathKind)))
        moments.append(
            int(path.start[rows[(path.end[rows] - path.start[rows]).argmax()]])
            if len(rows)
            else first
        )
    order = np.argsort(moments, kind="stable")
    start = np.array(moments, np.int64)[order]
    labels = [Label(f.cls, f.id, f.title) for f in findings]
    return Track("findings", start, np.zeros_like(start), order, labels)


def _device_work(timed: Timed) -> Iterator[Track]:
    """Device ops by stream, for recordings that the viewer cannot open."""
    ops = timed.trace.device_ops
    stream = stream_numbers(timed.linked)
    asked = _asked_for(timed, ops.start, ops.end)
    for one in distinct(stream).tolist():
        rows = np.flatnonzero((stream == one) & asked)
        if len(rows):
            used, label = np.unique(ops.name[rows], return_inverse=True)
            labels = [Label("", timed.trace.strings[code]) for code in used.tolist()]
            title = f"GPU {ops.device[rows[0]]}, stream {ops.stream[rows[0]]}"
            yield Track(title, ops.start[rows], (ops.end - ops.start)[rows], label, labels)


def _queues(timed: Timed) -> Iterator[Counter]:
    """Ops launched and not finished, by stream."""
    ops = timed.trace.device_ops
    stream = stream_numbers(timed.linked)
    launched = timed.linked.launch_time
    asked = (launched >= 0) & _asked_for(timed, launched, ops.end)
    for one in distinct(stream).tolist():
        rows = np.flatnonzero((stream == one) & asked)
        if len(rows):
            time = np.concatenate((launched[rows], ops.end[rows]))
            order = np.argsort(time, kind="stable")
            depth = np.cumsum(np.repeat([1, -1], len(rows))[order])
            last = np.append(np.diff(time[order]) > 0, True)
            title = f"launch queue of GPU {ops.device[rows[0]]}, stream {ops.stream[rows[0]]}"
            yield Counter(title, time[order][last], depth[last])


def _asked_for(timed: Timed, start: I64, end: I64) -> Bool:
    """Which of these intervals touch the step that was asked for; all, where none was."""
    if timed.only_step is None:
        return np.ones(len(start), bool)
    return (end > timed.steps.start[0]) & (start < timed.steps.end[-1])


def compile_tracks(logs: Sequence[CompileLog], run: Run | None = None) -> str:
    """Events in Chrome's trace format, on the clock of the run's trace (of the epoch without one).
    Raises TraceAnalyzerError where the trace has no wall clock."""
    trace = None if run is None else fitting(run, logs)
    if trace is not None and not trace.epoch_ns:
        raise TraceAnalyzerError(
            f"{trace.path}: the trace has no wall clock, so compile work cannot be laid onto it"
        )
    # A time of the log less this is a time of the trace.
    epoch_ns = 0 if trace is None else trace.epoch_ns or 0
    events = [
        event
        for number, log in enumerate(logs)
        for event in _compile_events(log, FIRST_PID + number, epoch_ns)
    ]
    # Kineto's own base: Perfetto then shows both files on one clock.
    return orjson.dumps(
        {"schemaVersion": 1, "baseTimeNanoseconds": epoch_ns, "traceEvents": events}
    ).decode()


def _compile_events(log: CompileLog, pid: int, epoch_ns: int) -> Iterator[dict[str, Any]]:
    rank = "" if log.rank is None else f" rank {log.rank}"
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"torch.compile{rank}"}}
    threads = {
        thread: number
        for number, thread in enumerate(dict.fromkeys(span.thread for span in log.spans), 1)
    }
    for span in log.spans:
        yield {
            "ph": "X",
            "cat": "compile",
            "name": span.name,
            "pid": pid,
            "tid": threads[span.thread],
            "ts": (span.start_ns - epoch_ns) / NS_PER_US,
            "dur": (span.end_ns - span.start_ns) / NS_PER_US,
            "args": {
                "compile id": span.compile_id,
                "stage": stage_of(span.name),
                "kernel": span.kernel,
            },
        }


def overlay_pieces(overlay: Overlay) -> Iterator[bytes]:
    """The overlay as a Chrome trace of its own, which Perfetto opens, a piece at a time. Times are
    microseconds with three decimals on the recording's own clock, written as exact decimals (floats
    would not hold them), and `baseTimeNanoseconds` is the recording's: the events lie beside those
    of a Kineto trace."""
    yield orjson.dumps({"displayTimeUnit": "ms", "baseTimeNanoseconds": overlay.epoch_ns})[:-1]
    yield b',"traceEvents":[\n'
    yield from _events(overlay)
    yield b"\n]}\n"


def merged(overlay: Overlay, recording: Iterable[bytes]) -> Iterator[bytes]:
    """The (decompressed) JSON of the recording, read and given a piece at a time, with the
    overlay's events before its own. Raises UnreadableInputError where the recording has no list of
    events to put them into."""
    pieces = iter(recording)
    kept = b""
    begun = False
    for piece in pieces:
        text = kept + piece
        found = FIRST_EVENT.search(text) if not begun else LATER_EVENT.search(text)
        if found is not None:
            yield text[: found.end()]
            yield b"\n"
            yield from _events(overlay)
            yield from _rest_of(text[found.end() :], pieces)
            return
        # What is kept may be the beginning of what is looked for.
        cut = max(len(text) - LONGEST_MARK, 0)
        yield text[:cut]
        kept = text[cut:]
        begun = begun or bool(text[:cut].strip())
    raise UnreadableInputError(
        f"{overlay.path}: it has no list of events that an overlay could be put into"
    )


def _rest_of(text: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the overlay's events: a comma, if the recording has events of its own, and
    these."""
    while not text.strip() and (more := next(pieces, None)) is not None:
        text += more
    if text.lstrip()[:1] != b"]":
        yield b","
    yield text
    yield from pieces


def _events(overlay: Overlay) -> Iterator[bytes]:
    process = PROCESS + (overlay.rank or 0)
    rank = "" if overlay.rank is None else f" of rank {overlay.rank}"
    yield _about(process, 0, "process_name", name=f"traceanalyzer: analysis{rank}")
    yield BETWEEN + _about(process, 0, "process_sort_index", sort_index=-1)
    for thread, track in enumerate(overlay.tracks, 1):
        yield BETWEEN + _about(process, thread, "thread_name", name=track.title)
        yield BETWEEN + _about(process, thread, "thread_sort_index", sort_index=thread)
        rests = _rests(map(_said, track.labels), cat="traceanalyzer", pid=process, tid=thread)
        for here in _blocks(track.start):
            yield _slices(
                track.start[here], track.duration[here], rests[track.label[here]].tolist()
            )
    for counter in overlay.counters:
        rest = _rests([{"name": counter.title}], pid=process)[0]
        for here in _blocks(counter.time):
            ends = [f',"args":{{"ops":{one}}}{rest}' for one in counter.value[here].tolist()]
            yield _interleaved([',\n{"ph":"C","ts":'] * len(ends), *_us(counter.time[here]), ends)


def _blocks(column: I64) -> list[slice]:
    return [slice(i, i + EVENTS_A_PIECE) for i in range(0, len(column), EVENTS_A_PIECE)]


def _about(process: int, thread: int, what: str, **args: Any) -> bytes:
    return _json({"ph": "M", "pid": process, "tid": thread, "name": what, "args": args})


def _said(label: Label) -> dict[str, Any]:
    name = ": ".join(text for text in (label.kind, label.name) if text)
    return {"name": name, "args": {"detail": label.detail}} if label.detail else {"name": name}


def _rests(said: Iterable[dict[str, Any]], **where: Any) -> NDArray[np.object_]:
    """The ends of events: values that many of them share, as JSON. Written once: there may be a
    million events."""
    return np.array(["," + _json(where | one)[1:].decode() for one in said], object)


def _slices(start: I64, duration: I64, rests: list[str]) -> bytes:
    """Slices as JSON, those without a length as moments."""
    kind = [',\n{"ph":"X","dur":'] * len(start)
    (whole, rest) = _us(duration)
    for i in np.flatnonzero(duration == 0).tolist():
        kind[i] = ',\n{"ph":"i","s":"t"'
        whole[i] = ""
        rest[i] = ""
    return _interleaved(kind, whole, rest, [',"ts":'] * len(start), *_us(start), rests)


def _interleaved(*columns: list[str]) -> bytes:
    """The texts row by row: twice as fast as to put each row together."""
    texts = [""] * (len(columns) * len(columns[0]))
    for i, column in enumerate(columns):
        texts[i :: len(columns)] = column
    return "".join(texts).encode()


def _json(values: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(values)
    except TypeError:  # text that is no Unicode
        return orjson.dumps(as_plain(values))


def _us(ns: I64) -> tuple[list[str], list[str]]:
    """Nanoseconds as decimal numbers of microseconds: what stands before the point, and what
    follows from there on."""
    whole, rest = np.divmod(np.abs(ns), 1000)
    texts = orjson.dumps(whole, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode().split(",")
    for i in np.flatnonzero(ns < 0).tolist():
        texts[i] = f"-{texts[i]}"
    return texts, FRACTIONS[rest].tolist()
