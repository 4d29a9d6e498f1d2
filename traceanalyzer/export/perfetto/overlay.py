"""What the analysis found as tracks over time on the recording's own clock, for a viewer."""

from collections.abc import Iterator

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.causes.critical_path import PathKind
from traceanalyzer.analysis.causes.gaps import GapSide
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.launched import stream_numbers
from traceanalyzer.analysis.tables.gap_rows import gap_details
from traceanalyzer.analysis.tables.path_rows import segment_names
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.diagnosis.finding import Finding
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.question import Query
from traceanalyzer.export.perfetto.tracks import CounterTrack, Label, Overlay, Track
from traceanalyzer.report.kept_report import kept_findings
from traceanalyzer.trace import I64, Bool, Run, distinct, distinct_places

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
"""Longest gaps of a device whose cause is written out; each costs a search of the host's
timeline."""


def build_overlay(
    run: Run, selection: Selection | None = None, knowledge: Knowledge | None = None
) -> Overlay:
    """The overlay of one rank, the critical one unless one is asked for. Raises EmptyRecordingError
    for a rank, device or step that the recording does not have."""
    asked = Query(run, selection, knowledge)
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
    used, label = distinct_places(key[first])
    labels = [
        Label(
            PathKind(k % len(PathKind)).label,
            names[k // len(PathKind)],
        )
        for k in used.tolist()
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
        longest = first
        if len(rows):
            duration = path.end[rows] - path.start[rows]
            longest = int(path.start[rows[duration.argmax()]])
        moments.append(longest)
    order = np.argsort(moments, kind="stable")
    start = np.array(moments, np.int64)[order]
    labels = [Label(f.cls, f.id, f.title) for f in findings]
    return Track("findings", start, np.zeros_like(start), order, labels)


def _device_work(timed: Timed) -> Iterator[Track]:
    """Device ops by stream, for recordings that the viewer cannot open."""
    ops = timed.trace.device_ops
    stream = stream_numbers(timed.linked)
    asked = _asked_for(timed, ops.start, ops.end)
    for number in distinct(stream).tolist():
        rows = np.flatnonzero((stream == number) & asked)
        if len(rows):
            used, label = np.unique(ops.name[rows], return_inverse=True)
            labels = [Label("", timed.trace.strings[code]) for code in used.tolist()]
            title = f"GPU {ops.device[rows[0]]}, stream {ops.stream[rows[0]]}"
            yield Track(title, ops.start[rows], (ops.end - ops.start)[rows], label, labels)


def _queues(timed: Timed) -> Iterator[CounterTrack]:
    """Ops launched and not finished, by stream."""
    ops = timed.trace.device_ops
    stream = stream_numbers(timed.linked)
    launched = timed.linked.launch_time
    asked = (launched >= 0) & _asked_for(timed, launched, ops.end)
    for number in distinct(stream).tolist():
        rows = np.flatnonzero((stream == number) & asked)
        if len(rows):
            time = np.concatenate((launched[rows], ops.end[rows]))
            order = np.argsort(time, kind="stable")
            depth = np.cumsum(np.repeat([1, -1], len(rows))[order])
            last = np.append(np.diff(time[order]) > 0, True)
            title = f"launch queue of GPU {ops.device[rows[0]]}, stream {ops.stream[rows[0]]}"
            yield CounterTrack(title, time[order][last], depth[last])


def _asked_for(timed: Timed, start: I64, end: I64) -> Bool:
    """Which of these intervals touch the step that was asked for; all, where none was."""
    if timed.only_step is None:
        return np.ones(len(start), bool)
    return (end > timed.steps.start[0]) & (start < timed.steps.end[-1])
