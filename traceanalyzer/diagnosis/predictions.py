"""What the step would take under each scenario: of the replay, of the remedies that fit, and of what is asked for."""

from collections.abc import Sequence

from traceanalyzer.base.errors import EmptyRecordingError
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.selection import Knowledge, Selection, measured
from traceanalyzer.replay.scenarios import buckets_of, faster
from traceanalyzer.replay.whatif import WhatIf
from traceanalyzer.trace import Run


def predictions(
    run: Run,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    speedups: Sequence[tuple[str, float]] = (),
    bucket_mb: Sequence[float] = (),
) -> WhatIf:
    """What the step of a rank (the critical one unless one is asked for) would take under each scenario.

    `speedups` are pairs of a regular expression and a factor: the device work that matching names stand for becomes
    that many times faster; `bucket_mb` are sizes of gradient buckets. Raises EmptyRecordingError where the recording
    has no launches or device work to replay.
    """
    m = measured(run, selection, knowledge).critical
    if m.replay is None:
        raise EmptyRecordingError(
            f"{m.trace.path}: nothing to replay: it needs API calls and the device work that they launch; "
            "record CPU and CUDA activities"
        )
    more = [*(one.offer.scenario for one in advise(m)), *(faster(name, factor) for name, factor in speedups)]
    return m.replay.what_if([*more, *(buckets_of(size) for size in bucket_mb)])
