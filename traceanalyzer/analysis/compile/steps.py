"""The first step and the warm-up apart from the steady step, and when compilation has paid for itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceanalyzer.analysis.compile.model import Compiled, StepsUse
from traceanalyzer.figures import NS_PER_MS

if TYPE_CHECKING:
    from traceanalyzer.analysis.time.timed import Timed

NO_EAGER = (
    "Record the program eager, too (TORCH_COMPILE_DISABLE=1), to see after how many steps compilation has paid for "
    "itself: divide the compile time by what a step saves."
)


def steps_use(compiled: Compiled, timed: Timed, step_ms: float | None, eager_step_ms: float | None = None) -> StepsUse:
    """Steps of a trace beside the compile time; `eager_step_ms` is the step of the same program without compilation."""
    if not timed.steps.found:
        return StepsUse(basis="The trace has no steps.")
    durations = timed.steps.duration
    warmup = timed.steps.warmup
    first = float(durations[0]) / NS_PER_MS if warmup else None
    saved = None if eager_step_ms is None or step_ms is None else eager_step_ms - step_ms
    pays = None
    if saved and saved > 0 and compiled.compile_s is not None:
        pays = math.ceil(compiled.compile_s * 1e3 / saved)
    return StepsUse(
        step_ms=step_ms,
        first_step_ms=first,
        warmup_ms=float(durations[:warmup].sum()) / NS_PER_MS if warmup else None,
        warmup_steps=warmup or None,
        eager_step_ms=eager_step_ms,
        pays_after_steps=pays,
        basis="" if pays is not None or compiled.compile_s is None else NO_EAGER,
    )
