"""The report on torch.compile as a value; and when the program compiled, stage by stage, with the
steps that a trace recorded: one strip on one clock."""

from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, union
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_S, dataclass, digits
from traceanalyzer.diagnosis.compile.judged import CompileDiagnosis
from traceanalyzer.replay.compile.model import Compiled
from traceanalyzer.replay.compile.stages import STAGES, stage_of
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.trace.compile_log import CompileLog

STAGE_NAMES = {
    "dynamo": "dynamo (tracing the program)",
    "aot": "AOT (forward and backward graphs)",
    "inductor": "inductor (optimising, writing code)",
    "triton": "Triton (compiling kernels)",
    "cpp": "C++ compiler",
    "autotune": "autotuning",
    "cudagraphs": "CUDA graphs (recording)",
    "other": "rest",
}
STEPS = "steps that the trace recorded"
WIDTH = 1000  # of the drawing, of a row, and of its name, in the drawing's own unit
ROW = 22
LABEL = 250


@dataclass(frozen=True, eq=False)
class Strip:
    """Rows of stretches of time, ns from the origin."""

    length_ns: int
    rows: list[tuple[str, IntervalSet]]


@dataclass(frozen=True)
class CompileReport:
    """What was read, measured and concluded."""

    inputs: list[dict[str, Any]]
    compiled: Compiled
    diagnosis: CompileDiagnosis
    strip: Strip | None = None  # when it compiled, for people


def strip_of(log: CompileLog | None, timed: Timed | None) -> Strip | None:
    """The strip of a log, with the steps of a trace where the two have a clock in common; None
    without compile work."""
    if log is None or not log.spans:
        return None
    found = {STAGE_NAMES[stage]: _spans(log, stage) for stage in STAGES}
    if timed is not None and timed.steps.found and timed.trace.epoch_ns:
        epoch_ns = timed.trace.epoch_ns
        found[STEPS] = union(timed.steps.start + epoch_ns, timed.steps.end + epoch_ns)
    shown = [(name, times) for name, times in found.items() if len(times.start)]
    if not shown:
        return None
    starts = np.concatenate([times.start for _, times in shown])
    ends = np.concatenate([times.end for _, times in shown])
    covered = union(starts, ends)
    first = int(covered.start[0])
    length = int(covered.end[-1] - covered.start[0])
    # None is shorter than a pixel: a row has no more of them than pixels.
    pixel = max(length // WIDTH, 1)
    rows = []
    for name, times in shown:
        start = (times.start - first) // pixel * pixel
        rows.append((name, union(start, np.maximum(times.end - first, start + pixel))))
    return Strip(length, rows)


def _spans(log: CompileLog, stage: str) -> IntervalSet:
    spans = [(span.start_ns, span.end_ns) for span in log.spans if stage_of(span.name) == stage]
    return union(*np.array(spans, np.int64).reshape(-1, 2).T)


def strip_svg(strip: Strip) -> Markup:
    """The strip as a drawing."""
    scale = (WIDTH - LABEL) / max(strip.length_ns, 1)
    rows = [_row(label, times, number, scale) for number, (label, times) in enumerate(strip.rows)]
    height = ROW * (len(rows) + 1)
    seconds = f"{digits(strip.length_ns / NS_PER_S, 4)} s"
    begin = tag("text", "0 s", x=LABEL, y=height - 6, font_size=12, fill="currentColor")
    end = tag(
        "text", seconds, x=WIDTH, y=height - 6, font_size=12, fill="currentColor", text_anchor="end"
    )
    drawn = tag(
        "svg",
        *rows,
        begin,
        end,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        width="100%",
        aria_label=f"Compile work by stage over {seconds}.",
    )
    caption = (
        "Stages of compilation and the recorded steps on one clock; a stage may run inside another."
    )
    return tag("figure", drawn, tag("figcaption", caption))


def _row(label: str, times: IntervalSet, number: int, scale: float) -> Markup:
    y = number * ROW
    bars = [
        tag(
            "rect",
            x=f"{LABEL + start * scale:.1f}",
            y=y + 3,
            width=f"{max((end - start) * scale, 1.0):.1f}",
            height=ROW - 6,
            style=f"fill:var(--{'compute' if label == STEPS else 'compile'})",
        )
        for start, end in zip(times.start.tolist(), times.end.tolist(), strict=True)
    ]
    return tag(
        "g",
        tag(
            "text",
            label,
            x=0,
            y=y + ROW - 7,
            font_size=12,
            fill="currentColor",
        ),
        *bars,
    )
