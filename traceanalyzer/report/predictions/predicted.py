"""Predictions that are made one time: kept beside the model of a recording, and left by a report for
the command that prints them (`left`)."""

from collections.abc import Sequence

import msgspec

from traceanalyzer.diagnosis.question import Query
from traceanalyzer.diagnosis.remedies.advice import predictions_of
from traceanalyzer.ingest.cache.answers import answered_once
from traceanalyzer.ingest.cache.pages import CachedPage, keep_page
from traceanalyzer.replay.prediction import WhatIf
from traceanalyzer.report.kept_answers import kept_question, kept_text

_DECODER = msgspec.json.Decoder(WhatIf)


def kept_predictions(
    asked: Query, speedups: Sequence[tuple[str, float]], bucket_mb: Sequence[float]
) -> WhatIf:
    """What the step would take under each scenario. Raises as `predictions` does."""

    def make() -> WhatIf:
        return predictions_of(asked.measured.critical, speedups=speedups, bucket_mb=bucket_mb)

    question = kept_question(asked, "whatif", list(speedups), list(bucket_mb))
    return (
        make()
        if question is None
        else answered_once(asked.run, question, make, kept_text, _DECODER.decode)
    )


def keep_predictions(page: CachedPage, asked: Query) -> None:
    """Keep what the step would take under each scenario; a report has replayed most of them. Nothing
    where the recording cannot be replayed, or text does not hold the answer as it is."""
    m = asked.measured.critical
    if m.replay is None:
        return
    result = predictions_of(m)
    text = kept_text(result)
    if _DECODER.decode(text) == result:
        keep_page(page, text)
