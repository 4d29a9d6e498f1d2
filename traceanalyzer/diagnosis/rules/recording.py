"""Sentences on what the recording is: which part of it the steps are, what repeats within them, what it cannot hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.time.coverage import WHOLE_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements

NOTED_SPAN = 0.9
"""Device work that spans less of the recording than this leaves start-up or shutdown to be told."""
UNEVEN_RATIO = 1.3
"""A mean this far above the median is that of a few steps, not of the usual one."""


def recording_notes(m: Measurements) -> Iterator[str]:
    """What a reader should know before reading the figures of a step."""
    if m.trace.source == "timing_log":
        return
    yield from _steps(m) if m.steps.found else _no_steps(m)
    yield from _kinds_of_iterations(m)
    yield from _repeats(m)


def _steps(m: Measurements) -> Iterator[str]:
    seen, steps = m.coverage, m.steps
    if seen.steps_share is not None and seen.steps_share < WHOLE_SHARE:
        outside = (
            "" if seen.idle_outside_share is None else f" and {seen.idle_outside_share:.0%} of the GPU's idle time"
        )
        work = f"; {seen.work_outside_share:.0%} of the GPU's work" if seen.work_outside_share is not None else ""
        yield (
            f"The steps cover {_time(seen.steps_ms)} of {_time(seen.recorded_ms)} recorded ({seen.steps_share:.0%}): "
            f"{1 - seen.steps_share:.0%} of the recording{outside} lie outside them{work}."
        )
    if steps.source == "periodicity":
        yield (
            f"No marker says what a step is: {len(steps)} repeats of the same GPU work are called one. They may be "
            "parts of a step, such as layers; name the step with an annotation (NVTX) to be sure."
        )
    times = m.step_time
    if times is not None and times.median and times.mean > UNEVEN_RATIO * times.median:
        yield (
            f"The steps are uneven: mean {times.mean:.3g} ms, median {times.median:.3g} ms, longest {times.max:.3g} "
            "ms; figures are means."
        )


def _no_steps(m: Measurements) -> Iterator[str]:
    seen = m.coverage
    if seen.device_span_ms is None or seen.device_span_ms >= NOTED_SPAN * seen.recorded_ms:
        return
    before = f"; the first GPU work comes after {_time(seen.before_first_op_ms)}" if seen.before_first_op_ms else ""
    yield f"GPU work spans {_time(seen.device_span_ms)} of {_time(seen.recorded_ms)} recorded{before}."


def _kinds_of_iterations(m: Measurements) -> Iterator[str]:
    """Iterations of a serving engine by phase."""
    steps = m.steps
    told = [iteration(name) for name in steps.names] if steps.found else []
    if not told or None in told:
        return
    phases = [one.phase for one in told if one is not None]
    parts = []
    for phase, count in Counter(phases).most_common():
        time = np.mean([d for d, p in zip(steps.duration.tolist(), phases, strict=True) if p == phase]) / 1e6
        parts.append(f"{count} {phase} ({time:.3g} ms)")
    first = told[0]
    assert first is not None
    what = "iteration" if len(told) == 1 else "iterations"
    size = f" of {first.requests} requests" if len(told) == 1 and first.requests else ""
    yield f"A step is one iteration of {first.framework}: {len(told)} {what}{size}, {', '.join(parts)}."


def _repeats(m: Measurements) -> Iterator[str]:
    found = m.repeats
    if found is None:
        return
    where = "Within the step" if m.steps.found else "In the recording"
    guess = "layers or micro-batches" if m.steps.found else "whether these are steps or parts of one is not recorded"
    yield f"{where} the GPU's work repeats {found.count} times, {_time(found.mean_ms)} each ({guess})."


def _time(ms: float | None) -> str:
    """`2.27 us`, `604 ms`, `1.2 s`."""
    if ms is None:
        return "an unknown time"
    if ms < 1:
        return f"{ms * 1e3:.3g} us"
    return f"{ms:.3g} ms" if ms < 1e4 else f"{ms / 1e3:.3g} s"
