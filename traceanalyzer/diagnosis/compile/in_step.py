"""What torch.compile leaves in every step: graph breaks, and CUDA graphs that were skipped."""

from collections.abc import Iterator

from traceanalyzer.diagnosis.compile.pairs import CompileAdvice, Pair
from traceanalyzer.diagnosis.finding import Evidence, Finding, Severity
from traceanalyzer.replay.compile.model import BreakRow, Compiled

HIGH_SHARE, MEDIUM_SHARE = 0.2, 0.05
"""Of the step; the same limits as for other findings."""


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
        yield finding, [_step_advice(ident, "remove_graph_breaks", row, step_ms)]


def _step_advice(ident: str, remedy: str, row: BreakRow, step_ms: float | None) -> CompileAdvice:
    return CompileAdvice(
        ident,
        remedy,
        "host",
        f"{row.location}: {row.remedy}." if row.location else f"{row.remedy}.",
        row.predicted_step_ms,
        row.low_ms,
        row.high_ms,
        step_ms / row.predicted_step_ms if row.predicted_step_ms and step_ms else None,
        None,
        None,
        None,
        row.basis,
    )


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
    advice = CompileAdvice(
        "cudagraphs-skipped",
        "cuda_graph",
        "launch",
        _graph_action(use.skipped),
        use.predicted_step_ms,
        use.low_ms,
        use.high_ms,
        step_ms / use.predicted_step_ms if use.predicted_step_ms and step_ms else None,
        None,
        None,
        None,
        "replayed without the profiler: each compiled graph is one launch"
        if use.predicted_step_ms is not None
        else "a trace of the same program tells what it would gain",
    )
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
