"""Kept predictions: what the step would take under each scenario."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.diagnosis.predictions import predictions
from traceanalyzer.diagnosis.selection import Asked
from traceanalyzer.ingest.cache.answers import answered_once
from traceanalyzer.replay.whatif import WhatIf
from traceanalyzer.report.kept import question_of, text_of

_WHAT_IF = msgspec.json.Decoder(WhatIf)


def kept_predictions(asked: Asked, speedups: Sequence[tuple[str, float]], bucket_mb: Sequence[float]) -> WhatIf:
    """What the step would take under each scenario. Raises as `predictions` does."""

    def make() -> WhatIf:
        return predictions(asked.run, asked.selection, asked.knowledge, speedups=speedups, bucket_mb=bucket_mb)

    question = question_of(asked, "whatif", list(speedups), list(bucket_mb))
    return make() if question is None else answered_once(asked.run, question, make, text_of, _WHAT_IF.decode)
