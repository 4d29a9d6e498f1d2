"""What torch.compile leaves in every step: graph breaks, and CUDA graphs that were skipped."""

from collections.abc import Iterator

from traceanalyzer.diagnosis.compile.pairs import CompileAdvice, Pair
from traceanalyzer.diagnosis.finding import BottleneckClass, Evidence, Finding, Severity
from traceanalyzer.replay.compile.model import BreakRow, Compiled, CudaGraphUse

HIGH_SHARE, MEDIUM_SHARE = 0.2, 0.05
"""Of the step; the same limits as for other findings."""
CAPTURED_AT_ONCE = "replayed without the profiler: each compiled graph is one launch"


def breaks(compiled: Compiled, step_ms: float | None) -> Iterator[Pair]:
    """A finding for each place of a graph break."""
    for index, row in enumerate(compiled.graph_breaks):
        ident = "graph-break" if index == 0 else f"graph-break-{index + 1}"
        gain = None if row.predicted_step_ms is None or step_ms is None else max(step_ms - row.predicted_step_ms, 0.0)
        where = row.location or row.function
        evidence = [
            Evidence("reason", row.detail, "", where),
            Evidence("met while compiling", row.count, "", where),
            Evidence("met in a step", row.per_step, "", where),
            Evidence("GPU idle because of it", row.idle_ms, "ms", "per step as recorded"),
        ]
        title = f"Graph break: {row.reason}, at {where}"
        if row.whole_function_eager:
            title += f"; all of {row.function or 'the function'} runs eager"
        finding = Finding(ident, "host", title, _severity(gain, step_ms), gain, evidence)
        action = f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}."
        yield finding, [_advice(ident, "remove_graph_breaks", "host", action, row.basis, row, step_ms)]


def _advice(
    ident: str,
    remedy: str,
    cls: BottleneckClass,
    action: str,
    basis: str,
    row: BreakRow | CudaGraphUse,
    step_ms: float | None,
) -> CompileAdvice:
    """Advice on the step, with what the replay makes of it."""
    step, speedup = row.predicted_step_ms, None
    if step and step_ms:
        speedup = step_ms / step
    return CompileAdvice(
        id=ident, remedy=remedy, cls=cls, action=action, predicted_step_ms=step, low_ms=row.low_ms, high_ms=row.high_ms,
        predicted_speedup=speedup, basis=basis,
    )  # fmt: skip


def cudagraphs(compiled: Compiled, step_ms: float | None) -> Iterator[Pair]:
    """A finding where CUDA graphs were asked for and left out."""
    use = compiled.cudagraphs
    if use is None or not use.skipped:
        return
    gain = None if use.predicted_step_ms is None or step_ms is None else max(step_ms - use.predicted_step_ms, 0.0)
    title = f"CUDA graphs were asked for and skipped: {'; '.join(use.skipped)}"
    evidence = [Evidence("reason", reason, "", "") for reason in use.skipped]
    if use.launches_per_step is not None:
        evidence.append(Evidence("CUDA graph launches", use.launches_per_step, "", "per step"))
    known = use.predicted_step_ms is not None
    basis = CAPTURED_AT_ONCE if known else "a trace of the same program tells what it would gain"
    advice = _advice("cudagraphs-skipped", "cuda_graph", "launch", _graph_action(use.skipped), basis, use, step_ms)
    yield Finding("cudagraphs-skipped", "launch", title, _severity(gain, step_ms), gain, evidence), [advice]


def _graph_action(reasons: list[str]) -> str:
    said = " ".join(reasons)
    if "mutated" in said:
        return "Return new tensors instead of changing inputs in place, or copy into a buffer outside of the function."
    if "cpu device" in said or "multiple devices" in said:
        return "Put every tensor of the function on the GPU, constants and scalars included."
    if "dynamic" in said or "symbolic" in said or "symint" in said:
        return "Give the function a few fixed shapes: CUDA graphs need them."
    return "Remove the cause, then check with TORCH_LOGS=cudagraphs."


def _severity(gain_ms: float | None, step_ms: float | None) -> Severity:
    if gain_ms is None or not step_ms:
        return "info"
    share = gain_ms / step_ms
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"
