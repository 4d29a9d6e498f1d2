"""What a page shows beyond the report, kept by the command that worked the report out: the page that is
asked for next is drawn without the analysis. It depends on all that a page depends on
(`ingest.cache.pages`)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.ingest.cache.pages import CachedPage, answered_page, keep_page, text_of_page
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.table_entries.asked_about import facts_of


def page_of_details(
    inputs: Sequence[str], selection: Selection | None, knowledge: Knowledge | None
) -> CachedPage | None:
    """Where the details of a report on these inputs are kept; None where they are not."""
    facts = facts_of(selection, knowledge)
    return None if facts is None else answered_page(("details", *facts, *inputs), inputs)


def keep_details(page: CachedPage, details: Details) -> None:
    """Keep them."""
    keep_page(page, msgspec.json.encode(details, enc_hook=_plain).decode())


def kept_details(page: CachedPage | None) -> Details | None:
    """What a report left there."""
    text = None if page is None else text_of_page(page)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Details, dec_hook=_column)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    """A column as its type and its bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} in what is kept")


def _column(_: type, kept: Any) -> NDArray[Any]:
    dtype, data = msgspec.convert(kept, tuple[str, bytes])
    return np.frombuffer(data, np.dtype(dtype))
