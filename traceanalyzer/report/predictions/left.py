"""Predictions that a report left: `whatif` prints them without reading the recording again. They
depend on all that a page depends on (`ingest.cache.pages`)."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.ingest.cache.pages import CachedPage, answered_page, text_of_page
from traceanalyzer.replay.prediction import WhatIf
from traceanalyzer.report.table_entries.asked_about import facts_of

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge


def page_of_predictions(
    inputs: Sequence[str], selection: Selection | None, knowledge: "Knowledge | None"
) -> CachedPage | None:
    """Where the predictions of a report on these inputs are kept; None where they are not."""
    facts = facts_of(selection, knowledge)
    return None if facts is None else answered_page(("predictions", *facts, *inputs), inputs)


def left_predictions(page: CachedPage | None) -> WhatIf | None:
    """What a report left there."""
    text = None if page is None else text_of_page(page)
    if text is None:
        return None
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=WhatIf)
    return None
