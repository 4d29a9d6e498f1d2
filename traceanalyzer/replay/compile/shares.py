"""What a trace of the same program adds: what breaks cost, how much of the step is compiled, what each kernel takes,
and which operators run eager.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.replay.compile.graphs import captured
from traceanalyzer.replay.compile.kernels import measured_kernels
from traceanalyzer.replay.compile.model import Compiled, EagerRow, TraceUse
from traceanalyzer.replay.compile.priced import priced
from traceanalyzer.replay.compile.regions import CompiledCode, Traced
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import I32, I64, Bool, RangeKind
from traceanalyzer.trace.compile_log import CompileLog

MAX_EAGER = 20
"""Eager operators that are listed."""
OPTIMIZER = "Optimizer.step#"
BACKWARD = "autograd::engine::evaluate_function"


def eager_operators(traced: Traced) -> list[EagerRow]:
    """Operators outside of compiled code that have GPU work in the steady step, those with most first."""
    rated, code = traced.rated, traced.code
    ops, tree = rated.trace.device_ops, rated.linked.tree
    chosen = np.flatnonzero(traced.steady & ~code.is_compiled & (code.launched_at >= 0))
    if not len(chosen):
        return []
    names = _names_of_nodes(rated)
    operator = tree.outermost(_operators(rated))[code.launched_at[chosen]]
    where = _where(traced, chosen)
    time: dict[tuple[str, str], float] = defaultdict(float)
    nodes: dict[tuple[str, str], set[int]] = defaultdict(set)
    for op, node, place in zip(chosen.tolist(), operator.tolist(), where, strict=True):
        key = (names[node] if node >= 0 else "no operator", place)
        time[key] += float(ops.end[op] - ops.start[op])
        nodes[key].add(node)
    rows = [
        EagerRow(name, traced.per_step(len(nodes[name, place])), traced.per_step(spent) / NS_PER_MS, place)
        for (name, place), spent in time.items()
    ]
    return sorted(rows, key=lambda row: -row.gpu_ms)[:MAX_EAGER]


def _operators(rated: Rated) -> Bool:
    """Which nodes are operators of the program: not regions and not what the autograd engine puts around them."""
    plain = np.array([_is_operator(text) for text in [*rated.trace.strings, ""]])
    tree = rated.linked.tree
    result: Bool = tree.kind == RangeKind.OP
    result[result] = plain[rated.trace.host_ranges.name[tree.row[result]]]
    return result


def _is_operator(text: str) -> bool:
    return not text.startswith(("Torch-Compiled", BACKWARD, "## Call", "CompiledFunction", "Optimizer", "ProfilerStep"))


def _names_of_nodes(rated: Rated) -> dict[int, str]:
    tree, ranges = rated.linked.tree, rated.trace.host_ranges
    nodes = np.flatnonzero(tree.kind == RangeKind.OP)
    return {int(n): rated.trace.strings[ranges.name[tree.row[n]]] for n in nodes.tolist()}


def _where(traced: Traced, chosen: I64) -> list[str]:
    """What each of these device ops was launched for: optimizer, backward, between compiled regions, or the rest."""
    rated, code = traced.rated, traced.code
    at = code.launched_at[chosen]
    optimizer = _inside(rated, OPTIMIZER, at)
    backward = _inside(rated, BACKWARD, at)
    inside = code.region_of_op[chosen] >= 0
    return [
        "optimizer" if o else "backward" if b else "in a compiled function" if i else "rest"
        for o, b, i in zip(optimizer.tolist(), backward.tolist(), inside.tolist(), strict=True)
    ]


def _inside(rated: Rated, prefix: str, at: I32 | I64) -> Bool:
    tree, ranges = rated.linked.tree, rated.trace.host_ranges
    named = np.array([text.startswith(prefix) for text in [*rated.trace.strings, ""]])
    chosen = np.zeros(len(tree.start), bool)
    rows = np.flatnonzero(~tree.is_call)
    chosen[rows] = named[ranges.name[tree.row[rows]]]
    return tree.innermost(chosen)[at] >= 0


def with_trace(compiled: Compiled, log: CompileLog | None, rated: Rated, replay: Replay | None) -> Compiled:
    """What was measured of the log, with what the trace says."""
    traced = Traced(rated, replay, CompiledCode(rated.joined))
    kernels, triton_ms, mapped = measured_kernels(compiled.kernels, traced)
    return replace(
        compiled,
        source="log+trace" if log is not None else "trace",
        graph_breaks=priced(compiled.graph_breaks, log, traced),
        kernels=kernels,
        cudagraphs=captured(compiled, traced),
        trace=_trace_use(traced, log, triton_ms, mapped),
    )


def _trace_use(traced: Traced, log: CompileLog | None, triton_ms: float, mapped: float | None) -> TraceUse:
    rated, code = traced.rated, traced.code
    ops, steady = rated.trace.device_ops, traced.steady
    duration = (ops.end - ops.start).astype(float)
    busy = float(duration[steady].sum())
    steady_regions = rated.timed.steady_host(code.regions.start) if len(code.regions) else np.zeros(0, bool)
    runs = Counter(text for text, here in zip(code.regions.text, steady_regions.tolist(), strict=True) if here)
    return TraceUse(
        path=rated.trace.path,
        regions_per_step={name: traced.per_step(n) for name, n in sorted(runs.items())},
        compiled_share=float(duration[steady & code.is_compiled].sum()) / busy if busy else None,
        triton_share=float(duration[steady & code.is_triton].sum()) / busy if busy else None,
        triton_ms=triton_ms,
        mapped_share=mapped,
        compiles_in_step=_compiles_within(rated, log),
        eager=eager_operators(traced),
        notes=_notes(traced, log),
    )


def _compiles_within(rated: Rated, log: CompileLog | None) -> int:
    """Compilations whose work overlaps the recording, on the clock both share."""
    if log is None or not rated.trace.epoch_ns or not len(rated.trace.device_ops):
        return 0
    ops = rated.trace.device_ops
    first, last = int(ops.start[0]) + rated.trace.epoch_ns, int(ops.end.max()) + rated.trace.epoch_ns
    within = [s for s in log.spans if s.name == "entire_frame_compile" and s.start_ns < last and s.end_ns > first]
    return len(within)


def _notes(traced: Traced, log: CompileLog | None) -> list[str]:
    code = traced.code
    notes = []
    if not len(code.bodies) and not code.is_triton.any():
        notes.append("The trace holds no compiled code: the steps that were recorded ran eager.")
    numbers = [int(text.rpartition("/")[2]) for text in code.regions.text if text.rpartition("/")[2].isdigit()]
    if log is None and numbers and max(numbers):
        most = code.regions.text[int(np.argmax(numbers))]
        notes.append(
            f"Region {most} ran: that function was compiled at least {max(numbers) + 1} times. "
            "Record the log to see why."
        )
    if log is None:
        notes.append(
            "Without the log: set TORCH_TRACE=FOLDER, or record with `traceanalyzer collect torch --compile-log`, to "
            "see compile times, reasons of graph breaks and recompilations, and source lines of kernels."
        )
    known = {e.key for c in log.compilations for e in c.caches} if log else set()
    keys = set(code.calls.text)
    if log and keys and not keys & known:
        notes.append("None of the trace's graphs is in the log: log and trace may be of different runs.")
    return notes
