"""What a trace of the same program adds: what breaks cost, how much of the step is compiled, what
each kernel takes, and which operators run eager."""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import subtract, texts_where, union
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import NS_PER_MS, regex
from traceanalyzer.replay.changes.fusion import ELEMENTWISE, Reading, fusing
from traceanalyzer.replay.compile.kernels import measured_kernels
from traceanalyzer.replay.compile.model import BreakRow, Compiled, EagerRow, TraceUse
from traceanalyzer.replay.compile.regions import OPTIMIZER, CompiledCode, TracedCompile
from traceanalyzer.replay.compile.windows import (
    Seam,
    captured_graphs,
    graph_break_windows,
    idle_in,
    without_windows,
)
from traceanalyzer.replay.patterns.named import nodes_named
from traceanalyzer.replay.scenarios import LAUNCHES_FREE
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import I32, I64, Bool, RangeKind
from traceanalyzer.trace.compile_log import CompileLog, compiled_before, resumed_at

NO_SEAM = (
    "the trace holds no run of what goes on after it: it was not met in the recorded steps, "
    "or not recorded"
)
WHOLE = (
    "the whole function runs eager, and what it would take compiled is not recorded; estimated by fusing its "
    "elementwise kernels and launching nothing"
)
REST = (
    "what follows the break runs eager; replayed without the profiler, between launching it "
    "for nothing and as now"
)
BASIS = (
    "replayed without the profiler: the host goes from the graph before the break to the one after it in no time, "
    "without the waits and copies between them; kernels stay as they are"
)
RECORD_LOG = "record the log (TORCH_TRACE=FOLDER) to see the line and the reason"
NO_CODE = "The trace holds no compiled code: the steps that were recorded ran eager."
COMPILED_AGAIN = (
    "Region {} ran: that function was compiled at least {} times. Record the log to see why."
)
WITHOUT_LOG = (
    "Without the log: set TORCH_TRACE=FOLDER, or record with `traceanalyzer collect torch --compile-log`, to see "
    "compile times, reasons of graph breaks and recompilations, and source lines of kernels."
)
OF_ANOTHER_RUN = "None of the trace's graphs is in the log: log and trace may be of different runs."
NOT_FAITHFUL = "the trace cannot be replayed faithfully: only the idle time is known"


MAX_EAGER = 20  # eager operators that are listed
BACKWARD = regex(r"^autograd::engine::evaluate_function")
AROUND = regex(
    rf"{BACKWARD.pattern}|^(Torch-Compiled|## Call|CompiledFunction|Optimizer|ProfilerStep)"
)
"""Ranges that are no operators of the program: regions, and what the autograd engine puts around
them."""


def priced(rows: list[BreakRow], log: CompileLog | None, traced: TracedCompile) -> list[BreakRow]:
    """The graph breaks of a log with what each costs in a step; without a log those that the trace
    shows."""
    left = graph_break_windows(traced.code)
    if log is None:
        return [_with_price(_without_reason(seam), [seam], traced) for seam in left]
    result = []
    for row in rows:
        own = [seam for seam in left if _is_seam_of(seam, row, log)]
        left = [seam for seam in left if seam not in own]
        if own:
            result.append(_with_price(row, own, traced))
        elif row.whole_function_eager:
            result.append(_whole_function(row, traced))
        else:
            result.append(_rest_eager(row, log, traced))
    return result


def _without_reason(seam: Seam) -> BreakRow:
    """A graph break that the trace shows, and of which only the log would tell line and reason."""
    detail = f"compiled region {seam.before} goes on as {seam.after}"
    return BreakRow("a graph break", detail, "", 1, "", False, RECORD_LOG)


def _is_seam_of(seam: Seam, row: BreakRow, log: CompileLog) -> bool:
    """Whether what goes on after a break is the function of the seam: PyTorch names it after the
    line of the break."""
    named = {c.compile_id: c for c in log.compilations}
    before = named.get(seam.before)
    after = named.get(seam.after)
    at = None if after is None else resumed_at(after.name)
    if after is None or at is None:
        return False
    broken_here = before is not None and any(b.location == row.location for b in before.breaks)
    return broken_here or row.location == f"{after.location.rpartition(':')[0]}:{at}"


def _with_price(row: BreakRow, seams: list[Seam], traced: TracedCompile) -> BreakRow:
    rated = traced.rated
    windows = union(
        *(np.concatenate([getattr(seam, side) for seam in seams]) for side in ("start", "end"))
    )
    prediction = traced.predict(
        f"without_break {row.location}", lambda tape: without_windows(tape, windows), BASIS
    )
    forward = (seam.start[: seam.forward] for seam in seams)
    steady = sum(int(rated.timed.steady_host(starts).sum()) for starts in forward)
    step, low, high = traced.range_of(prediction)
    row = replace(row, per_step=traced.per_step(steady), idle_ms=idle_in(rated.timed, windows))
    basis = NOT_FAITHFUL if step is None else BASIS
    return replace(row, predicted_step_ms=step, low_ms=low, high_ms=high, basis=basis)


def _rest_eager(row: BreakRow, log: CompileLog, traced: TracedCompile) -> BreakRow:
    """A break after which the function goes on eager (its rest was not compiled, or the recompile
    limit was hit): the host time from the end of the last graph before it to the end of the
    function."""
    regions = traced.code.regions
    broken = {
        c.compile_id for c in log.compilations for b in c.breaks if b.location == row.location
    }
    runs = np.flatnonzero(np.isin(np.array(regions.text, object), list(broken)))
    if not len(runs):
        return replace(row, basis=NO_SEAM)
    starts = _ends_of_graphs(traced.code, runs)
    steady = int(traced.rated.timed.steady_host(starts).sum())
    found = union(starts, regions.end[runs])
    free = traced.predict("rest_compiled", lambda tape: without_windows(tape, found), REST)
    row = replace(
        row,
        per_step=traced.per_step(steady),
        idle_ms=idle_in(traced.rated.timed, found),
        basis=REST,
    )
    if free is None or free.step_ms is None or traced.replay is None:
        return row
    # What goes on has to be launched by compiled code, too: no less than nothing, no more than it
    # takes now.
    middle = (free.step_ms + traced.replay.base_ms) / 2
    return replace(
        row, predicted_step_ms=middle, low_ms=free.low_ms, high_ms=traced.replay.range_ms[1]
    )


def _whole_function(row: BreakRow, traced: TracedCompile) -> BreakRow:
    """A function that runs eager as a whole: it idles while its operators are launched, the
    optimizer left out."""
    timed = traced.rated.timed
    ranges = traced.rated.trace.host_ranges
    if len(traced.code.bodies) or timed.device is None:
        return replace(row, basis=NO_SEAM)
    optimizer = texts_where(traced.rated.trace.strings, OPTIMIZER.match)[ranges.name]
    steps = union(timed.steps.host_start, timed.steps.host_end)
    idle = idle_in(timed, subtract(steps, union(ranges.start[optimizer], ranges.end[optimizer])))
    fused = traced.predict("compiled", fusing(ELEMENTWISE, Reading.TYPICAL), WHOLE)
    free = traced.predict("compiled", LAUNCHES_FREE.change, WHOLE)
    row = replace(row, per_step=1.0, idle_ms=idle, basis=WHOLE)
    if fused is None or free is None or fused.step_ms is None or free.step_ms is None:
        return row
    low = free.step_ms
    high = fused.high_ms or fused.step_ms
    return replace(row, predicted_step_ms=(low + fused.step_ms) / 2, low_ms=low, high_ms=high)


def _ends_of_graphs(code: CompiledCode, runs: I64) -> I64:
    """When the last graph in each of these runs of compiled functions ends, ns; where the run
    begins, without any."""
    regions = code.regions
    columns = (regions.thread, regions.start, regions.end)
    of_runs = zip(*(column[runs].tolist() for column in columns), strict=True)
    ends = [code.bodies.last_end(thread, start, end, start) for thread, start, end in of_runs]
    return np.array(ends, np.int64)


def eager_operators(traced: TracedCompile) -> list[EagerRow]:
    """Operators outside of compiled code that have GPU work in the steady step, those with most
    first."""
    rated = traced.rated
    tree = traced.rated.linked.tree
    eager = traced.steady & ~traced.code.is_compiled
    chosen = np.flatnonzero(eager & (rated.joined.launch_node >= 0))
    at = rated.joined.launch_node[chosen]
    operator = tree.outermost((tree.kind == RangeKind.OP) & ~nodes_named(rated.linked, AROUND))[at]
    spent = (rated.trace.device_ops.end - rated.trace.device_ops.start)[chosen].tolist()
    keys = _names_and_places(traced, operator, at)
    time = defaultdict[tuple[str, str], float](float)
    nodes = defaultdict[tuple[str, str], set[int]](set)
    for key, node, ns in zip(keys, operator.tolist(), spent, strict=True):
        time[key] += ns
        nodes[key].add(node)
    rows = [
        EagerRow(
            name=key[0],
            per_step=traced.per_step(len(nodes[key])),
            gpu_ms=traced.per_step(ns) / NS_PER_MS,
            where=key[1],
        )
        for key, ns in time.items()
    ]
    return sorted(rows, key=lambda row: -row.gpu_ms)[:MAX_EAGER]


def _names_and_places(
    traced: TracedCompile,
    operator: I32 | I64,
    at: I32 | I64,
) -> list[tuple[str, str]]:
    """The name of each operator, and what the node that launches something for it is part of."""
    code = traced.code
    linked = traced.rated.linked
    optimizer = linked.tree.innermost(nodes_named(linked, OPTIMIZER))[at] >= 0
    backward = linked.tree.innermost(nodes_named(linked, BACKWARD))[at] >= 0
    in_region = code.around(code.regions)[at] >= 0
    places = ("optimizer", "backward", "in a compiled function")
    where = np.select((optimizer, backward, in_region), places, "rest")
    text = traced.rated.trace.text
    names = (text(code) or "no operator" for code in linked.tree.names(operator).tolist())
    return list(zip(names, where.tolist(), strict=True))


def with_trace(
    compiled: Compiled, log: CompileLog | None, rated: Rated, replay: Replay | None
) -> Compiled:
    """What was measured of the log, with what the trace says."""
    traced = TracedCompile(rated, replay, CompiledCode(rated.joined))
    kernels, triton_ms, mapped_share = measured_kernels(compiled.kernels, traced)
    use = TraceUse(
        path=rated.trace.path,
        regions_per_step=_regions_per_step(traced),
        compiled_share=_busy_share(traced, traced.code.is_compiled),
        triton_share=_busy_share(traced, traced.code.is_triton),
        triton_ms=triton_ms,
        mapped_share=mapped_share,
        compiles_in_step=_compiles_within(rated, log),
        eager=eager_operators(traced),
        notes=_notes(traced, log),
    )
    return replace(
        compiled,
        source="trace" if log is None else "log+trace",
        graph_breaks=priced(compiled.graph_breaks, log, traced),
        kernels=kernels,
        cudagraphs=captured_graphs(compiled, traced),
        trace=use,
    )


def _regions_per_step(traced: TracedCompile) -> dict[str, float]:
    """Runs of each compiled region in a mean steady step, by its compile id."""
    regions = traced.code.regions
    if not len(regions):
        return {}
    steady = traced.rated.timed.steady_host(regions.start).tolist()
    runs = Counter(text for text, here in zip(regions.text, steady, strict=True) if here)
    return {name: traced.per_step(count) for name, count in sorted(runs.items())}


def _busy_share(traced: TracedCompile, part: Bool) -> float | None:
    """Share of these ops in the GPU's busy time; None where it is never busy."""
    ops = traced.rated.trace.device_ops
    duration = (ops.end - ops.start).astype(float)
    busy = float(duration[traced.steady].sum())
    return float(duration[traced.steady & part].sum()) / busy if busy else None


def _compiles_within(rated: Rated, log: CompileLog | None) -> int:
    """Compilations whose work overlaps the recording, on the clock both share."""
    if log is None or not rated.trace.epoch_ns or not len(rated.trace.device_ops):
        return 0
    ops = rated.trace.device_ops
    first = int(ops.start[0]) + rated.trace.epoch_ns
    last = int(ops.end.max()) + rated.trace.epoch_ns
    return sum(
        s.name == "entire_frame_compile" and s.start_ns < last and s.end_ns > first
        for s in log.spans
    )


def _notes(traced: TracedCompile, log: CompileLog | None) -> list[str]:
    code = traced.code
    keys = set(traced.code.calls.text)
    notes = [] if len(code.bodies) or code.is_triton.any() else [NO_CODE]
    if log is not None:
        known = {event.key for one in log.compilations for event in one.caches}
        return notes if not keys or keys & known else [*notes, OF_ANOTHER_RUN]
    most = max(code.regions.text, key=compiled_before, default="")
    if compiled_before(most):
        notes.append(COMPILED_AGAIN.format(most, compiled_before(most) + 1))
    return [*notes, WITHOUT_LOG]
