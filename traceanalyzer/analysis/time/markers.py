"""Steps that the program or its framework marks itself: profiler steps, a server's iterations,
calls of the model."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import contains, texts_where
from traceanalyzer.analysis.joined.launched import capture_intervals, is_cut
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.phase_names import Role, role_of
from traceanalyzer.analysis.names.pytorch import (
    LAYER_LIKE,
    LIBRARY_MARK,
    MODULE_PREFIX,
    PROFILER_STEP,
)
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.time import step_evidence
from traceanalyzer.analysis.time.step_evidence import (
    MIN_COVERAGE,
    MIN_WORK_SHARE,
    HostSteps,
    held,
    without_numbers,
)
from traceanalyzer.base import regex
from traceanalyzer.trace import I64, Bool, CopyKind, RangeKind

PART_OF_ITERATION = regex(r"^(draft(_extend)?(_v\d)?$|step\[DRAFT)", re.IGNORECASE)
"""Ranges of speculative decoding around the model that guesses; SGLang marks its passes as if they
were iterations."""
JAX_STEP = regex(
    r" step_num=-?\d+$"
)  # `StepTraceAnnotation("train", step_num=5)`, as the reader names it


def profiler_steps(linked: TraceJoins) -> HostSteps | None:
    """`ProfilerStep#N` annotations; in a recording without a host those projected on the device."""
    named = texts_where(linked.trace.strings, PROFILER_STEP.match)
    rows = outermost_ranges(linked, named, RangeKind.ANNOTATION)
    if not len(rows):
        return _projected(linked, named, "profiler_step")
    return _last_session(HostSteps.of_ranges(linked, rows, "profiler_step"))


def _last_session(found: HostSteps) -> HostSteps:
    """The steps of the last time that the profiler was started, where their numbers begin again: the
    pause before it belongs to no step."""
    digits = [step_evidence.DIGITS.findall(name)[-1] for name in found.names]
    numbers = np.array(list(map(int, digits)))
    restarts = np.flatnonzero(np.diff(numbers) <= 0) + 1
    if not len(restarts):
        return found
    last = slice(int(restarts[-1]), None)
    return replace(
        found,
        names=found.names[last],
        start=found.start[last],
        end=found.end[last],
    )


def step_annotations(linked: TraceJoins) -> HostSteps | None:
    """JAX's `StepTraceAnnotation`. What is launched between two of them belongs to the first: it is
    dispatched there, and XLA's own threads launch later."""
    rows = outermost_ranges(
        linked, texts_where(linked.trace.strings, JAX_STEP.search), RangeKind.ANNOTATION
    )
    if linked.trace.source != "xplane" or not len(rows):
        return None
    found = HostSteps.of_ranges(linked, rows, "annotation")
    return replace(found, end=_until_next(found.start, found.end))


def iterations(linked: TraceJoins) -> HostSteps | None:
    """A serving engine's iterations, by the marks of its framework; one is enough, nested ones are
    one.

    What is launched between two marks (sampling, output) belongs to the first of them until its
    tokens are copied to the host; what is launched then prepares the second."""
    rows = linked.memo(iteration_marks)
    if not len(rows):
        return _projected(
            linked, texts_where(linked.trace.strings, _marks_iteration(linked)), "annotation"
        )
    host_steps = HostSteps.of_ranges(linked, rows)
    reads = (linked.trace.device_ops.copy_kind == CopyKind.DEVICE_TO_HOST) & (linked.launch >= 0)
    returned = linked.trace.api_calls.end[linked.launch[reads]]
    read = np.append(np.iinfo(np.int64).min, np.sort(returned))
    last = read[np.searchsorted(read, host_steps.start, side="right") - 1]
    # launching begins behind the last copy to the host since the mark before; where there is none
    # with the mark
    before = np.append(read[0], host_steps.end[:-1])
    start = np.where(last > before, last, host_steps.start)
    end = _until_next(start, host_steps.end)
    share = held(linked, start, end)
    if share.work < MIN_WORK_SHARE:
        return None
    if len(rows) == 1 and share.work >= MIN_COVERAGE:  # it is extended to all launches
        time = linked.launch_time[linked.launch_time >= 0]
        start = np.minimum(start, time.min(initial=start[0]))
        end = np.maximum(end, time.max(initial=0) + 1)
    return replace(host_steps, start=start, end=end, by_device=True, unlike=True)


def iteration_marks(linked: TraceJoins) -> I64:
    """Rows of host ranges that mark one iteration each, in time order. A mark inside another is of
    the same iteration; those of drafts belong to the iteration that verifies them; those in a
    graph's capture mark none."""
    ranges = linked.trace.host_ranges
    strings = linked.trace.strings
    part = texts_where(strings, PART_OF_ITERATION.match)
    named = texts_where(strings, _marks_iteration(linked))
    kinds = (
        ranges.kind == RangeKind.ANNOTATION
        if linked.knowledge.iteration_name is None
        else ranges.kind > 0
    )
    rows = np.flatnonzero(kinds & (named | part)[ranges.name])
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    reach = np.maximum.accumulate(ranges.end[rows])
    outside = np.append(True, ranges.end[rows][1:] > reach[:-1])
    rows = rows[outside[: len(rows)]]
    for captured in linked.memo(capture_intervals).values():
        rows = rows[~contains(captured, ranges.start[rows])]
    entire = rows[~part[ranges.name[rows]]]
    return entire if len(entire) else rows[named[ranges.name[rows]]]


def _marks_iteration(linked: TraceJoins) -> Callable[[str], object]:
    """What tells the name of an iteration's mark: the user's own pattern, else those of the
    frameworks."""
    own = linked.knowledge.iteration_name
    return iteration if own is None else re.compile(own).search


def calls_of_only_module(linked: TraceJoins) -> HostSteps | None:
    """The calls of the one module, in no other, that launch nearly all device work of the
    recording."""
    rows = outermost_modules(linked)
    ranges = linked.trace.host_ranges
    strings = linked.trace.strings
    for code in dict.fromkeys(ranges.name[rows].tolist()):
        calls = rows[ranges.name[rows] == code]
        start = ranges.start[calls]
        end = ranges.end[calls]
        share = held(linked, start, end)
        if min(share.between, share.work) >= MIN_COVERAGE:
            names = tuple(
                f"{strings[code].removeprefix(MODULE_PREFIX)} call {i}" for i in range(len(calls))
            )
            return HostSteps("annotation", names, start, end, by_device=True)
    return None


def one_marked_step(linked: TraceJoins) -> HostSteps | None:
    """The outermost annotation called a step that holds nearly all launches and device work; it
    need not repeat."""
    return _one_marked(linked, lambda text: bool(step_evidence.STEP_LIKE.search(text)))


def one_marked_range(linked: TraceJoins) -> HostSteps | None:
    """The steps that the one annotation marks which is there, of any name but those of phases of a
    step and of parts of a model."""
    return _one_marked(linked, lambda text: role_of(text) is Role.NONE)


def _one_marked(linked: TraceJoins, usable: Callable[[str], bool]) -> HostSteps | None:
    """None where the recording was cut while the device was behind: a part of a step then holds all
    that is left."""
    own = texts_where(
        linked.trace.strings,
        lambda text: not (LIBRARY_MARK.search(text) or LAYER_LIKE.search(text)),
    )
    rows = outermost_ranges(linked, own, RangeKind.ANNOTATION)
    tree = linked.tree
    around = tree.parent[tree.node_of_range[rows]]
    rows = rows[(around < 0) | (tree.kind[around] != RangeKind.OP)]
    if not len(rows) or is_cut(linked):
        return None
    ranges = linked.trace.host_ranges
    kind, texts = without_numbers(linked.trace.strings, ranges.name[rows])
    for which in np.flatnonzero([usable(text) for text in texts]).tolist():
        group = rows[kind == which]
        if min(held(linked, ranges.start[group], ranges.end[group])) >= MIN_COVERAGE:
            return HostSteps.of_ranges(linked, group)
    return None


def outermost_modules(linked: TraceJoins) -> I64:
    """Rows of host ranges that are calls of a module and lie in no other one."""
    named = texts_where(linked.trace.strings, lambda text: text.startswith(MODULE_PREFIX))
    return outermost_ranges(linked, named, RangeKind.PYTHON)


def outermost_ranges(linked: TraceJoins, named: Bool, kind: RangeKind) -> I64:
    """Rows of host ranges of this kind with such a name, in time order, that begin in no earlier
    one."""
    ranges = linked.trace.host_ranges
    rows = np.flatnonzero((ranges.kind == kind) & named[ranges.name])
    rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
    reach = np.maximum.accumulate(ranges.end[rows])
    apart = np.append(True, ranges.start[rows][1:] >= reach[:-1])
    return rows[apart[: len(rows)]]


def _until_next(start: I64, end: I64) -> I64:
    """Each end moved to the next start; the last one by as much as the others in the median."""
    if len(start) < 2:
        return end
    pause = int(np.median(start[1:] - end[:-1]))
    return np.append(start[1:], end[-1] + pause)


def _projected(linked: TraceJoins, named: Bool, source: str) -> HostSteps | None:
    """Steps from ranges that the recorder projected on the device, where it recorded none of the
    host."""
    projected = linked.trace.device_ranges
    ops = linked.trace.device_ops
    rows = np.flatnonzero(named[projected.name])
    if not len(rows) or not len(ops) or len(linked.trace.host_ranges):
        return None
    start, end, codes = _one_a_step(
        projected.start[rows], projected.end[rows], projected.name[rows].astype(np.int64)
    )
    of_op = np.searchsorted(start, ops.start, side="right") - 1
    of_op[ops.start >= end[np.maximum(of_op, 0)]] = -1
    texts = tuple(linked.trace.strings[c] for c in codes)
    unlike = source != "profiler_step"
    return HostSteps(
        source, texts, start, end, of_op.astype(np.int32), unlike=unlike, projected=True
    )


def _one_a_step(start: I64, end: I64, code: I64) -> tuple[I64, I64, I64]:
    """Ranges on several streams joined where they overlap and have one name; in time order."""
    order = np.lexsort((start, code))
    start = start[order]
    end = end[order]
    code = code[order]
    new = np.append(True, code[1:] != code[:-1])
    for i in range(1, len(start)):
        if not new[i]:
            new[i] = start[i] >= end[i - 1]
            end[i] = end[i] if new[i] else max(end[i], end[i - 1])
    first = np.flatnonzero(new)
    last = np.append(first[1:] - 1, len(start) - 1)
    by_start = np.argsort(start[first], kind="stable")
    return start[first][by_start], end[last][by_start], code[first][by_start]
