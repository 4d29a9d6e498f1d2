"""CUDA graphs: recorded or skipped, and what of the step is in them."""

from collections import Counter
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra.intervals import contains, union
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.replay.changes.kernels import in_graph
from traceanalyzer.replay.compile.model import Compiled, CudaGraphUse
from traceanalyzer.replay.compile.regions import CompiledCode, Traced
from traceanalyzer.replay.compile.windows import without_windows
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.distinct import distinct

CAPTURED = "replayed without the profiler: each compiled graph is one launch that costs the host nothing more"


def cudagraph_use(log: CompileLog) -> CudaGraphUse:
    """CUDA graphs recorded and left out."""
    recorded = Counter(s.compile_id for s in log.spans if s.name == "CUDAGraphNode.record")
    skipped = [m.cudagraph_skip for c in log.compilations for m in c.metrics if m.cudagraph_skip]
    asked = [e.cudagraphs for c in log.compilations for e in c.caches if e.cudagraphs is not None]
    asked += [m.wants_cudagraphs for c in log.compilations for m in c.metrics if m.wants_cudagraphs]
    used, wanted = bool(recorded), bool(skipped) or any(asked)
    if wanted and not used and not skipped:
        skipped = [_why_not_recorded(log)]
    return CudaGraphUse(
        used=used,
        wanted=True if used or wanted else False if asked else None,
        recorded=sum(recorded.values()),
        rerecorded=sum(n - 1 for n in recorded.values()),
        skipped=list(dict.fromkeys(skipped)),
        skipped_graphs=len(skipped),
    )


def _why_not_recorded(log: CompileLog) -> str:
    changed = sum(c.inputs_changed for c in log.compilations)
    if changed:
        return f"mutated inputs: the graphs change {changed} of their inputs in place (concluded from the graphs)"
    return "asked for and never recorded; the log does not say why (TORCH_LOGS=cudagraphs does)"


def captured(compiled: Compiled, traced: Traced) -> CudaGraphUse:
    """CUDA graphs as the log has them, with what of the step was launched by them; where they were asked for and left
    out, the step with them."""
    rated = traced.rated
    ops, steady = rated.trace.device_ops, traced.steady
    by_graph = np.append(rated.linked.api_kind == ApiKind.GRAPH_LAUNCH, False)[rated.linked.launch]
    duration = (ops.end - ops.start).astype(float)
    busy = float(duration[steady].sum())
    launches = distinct(rated.linked.launch[steady & by_graph])
    share = float(duration[steady & by_graph].sum()) / busy if busy else None
    use = compiled.cudagraphs or CudaGraphUse(bool(len(launches)), None, 0, 0, [], 0)
    left_out = use.wanted and not use.used and not len(launches)
    prediction = None
    if left_out:
        prediction = traced.predict("graphs_captured", lambda tape: _as_one_launch(tape, traced.code), CAPTURED)
    step, low, high = traced.range_of(prediction)
    return replace(
        use,
        captured_share=share,
        launches_per_step=traced.per_step(float(len(launches))),
        predicted_step_ms=step,
        low_ms=low,
        high_ms=high,
    )


def _as_one_launch(tape: Tape, code: CompiledCode) -> Tape | None:
    """Each compiled graph as one launch: the host's time in it goes, its kernels follow at once."""
    windows = union(code.bodies.start, code.bodies.end)
    freed = without_windows(tape, windows)
    if freed is None:
        return None
    calls = tape.source.trace.api_calls
    inside = contains(windows, calls.start[tape.call])[tape.event]
    shorter = in_graph(tape.gap)
    return replace(
        freed, waits=tape.waits, duration=tape.duration, latency=tape.latency, gap=np.where(inside, shorter, tape.gap)
    )
