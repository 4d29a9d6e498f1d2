"""What a trace of the same program adds: what breaks cost, how much of the step is compiled, what each kernel takes,
and which operators run eager.
"""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.replay.compile.graphs import captured
from traceanalyzer.replay.compile.kernels import measured_kernels
from traceanalyzer.replay.compile.model import Compiled, EagerRow, TraceUse
from traceanalyzer.replay.compile.priced import priced
from traceanalyzer.replay.compile.regions import OPTIMIZER, CompiledCode, Traced
from traceanalyzer.replay.patterns.named import nodes_named
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import I32, RangeKind
from traceanalyzer.trace.compile_log import CompileLog

MAX_EAGER = 20
"""Eager operators that are listed."""
BACKWARD = re.compile(r"^autograd::engine::evaluate_function")
AROUND = re.compile(rf"{BACKWARD.pattern}|^(Torch-Compiled|## Call|CompiledFunction|Optimizer|ProfilerStep)")
"""Ranges that are no operators of the program: regions, and what the autograd engine puts around them."""


def eager_operators(traced: Traced) -> list[EagerRow]:
    """Operators outside of compiled code that have GPU work in the steady step, those with most first."""
    rated, code, tree = traced.rated, traced.code, traced.rated.linked.tree
    chosen = np.flatnonzero(traced.steady & ~code.is_compiled & (rated.joined.launch_node >= 0))
    at = rated.joined.launch_node[chosen]
    operator = tree.outermost((tree.kind == RangeKind.OP) & ~nodes_named(rated.linked, AROUND))[at]
    spent = (rated.trace.device_ops.end - rated.trace.device_ops.start)[chosen]
    time: dict[tuple[str, str], float] = defaultdict(float)
    nodes: dict[tuple[str, str], set[int]] = defaultdict(set)
    keys = zip(tree.names(operator).tolist(), _where(traced, at), strict=True)
    for (name, place), node, ns in zip(keys, operator.tolist(), spent.tolist(), strict=True):
        key = (rated.trace.text(name) or "no operator", place)
        time[key] += ns
        nodes[key].add(node)
    rows = [
        EagerRow(name, traced.per_step(len(nodes[name, place])), traced.per_step(ns) / NS_PER_MS, place)
        for (name, place), ns in time.items()
    ]
    return sorted(rows, key=lambda row: -row.gpu_ms)[:MAX_EAGER]


def _where(traced: Traced, at: I32) -> list[str]:
    """What is launched at each of these nodes for: optimizer, backward, between compiled regions, or the rest."""
    tree, linked, around = traced.rated.linked.tree, traced.rated.linked, traced.code.around(traced.code.regions)
    optimizer, backward = (tree.innermost(nodes_named(linked, one))[at] >= 0 for one in (OPTIMIZER, BACKWARD))
    places = ("optimizer", "backward", "in a compiled function")
    return np.select((optimizer, backward, around[at] >= 0), places, "rest").tolist()


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
