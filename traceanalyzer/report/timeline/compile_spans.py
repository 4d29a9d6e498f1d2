"""Compile work of a log on the clock of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.replay.compile.stages import stage_of
from traceanalyzer.trace import I64, Trace
from traceanalyzer.trace.compile_log import CompileLog


@dataclass(frozen=True, eq=False)
class CompileSpans:
    """Stretches of compile work, times in ns on the trace's clock."""

    start: I64
    end: I64
    depth: I64
    name: list[str]
    detail: list[str]
    """Compile id and stage."""


def compile_spans(logs: Sequence[CompileLog], trace: Trace) -> CompileSpans:
    """The compile work of the trace's rank; none where the two have no clock in common."""
    fitting = [log for log in logs if log.rank in (trace.rank, None)] if trace.epoch_ns else []
    spans = [span for log in fitting for span in log.spans]
    epoch_ns = trace.epoch_ns or 0
    return CompileSpans(
        np.array([span.start_ns - epoch_ns for span in spans], np.int64),
        np.array([span.end_ns - epoch_ns for span in spans], np.int64),
        np.array([span.depth for span in spans], np.int64),
        [span.name for span in spans],
        [", ".join(part for part in (span.compile_id, stage_of(span.name)) if part) for span in spans],
    )
