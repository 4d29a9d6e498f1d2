"""What a question is about, as a key of what is kept: it is told without numpy."""

from typing import TYPE_CHECKING

from traceanalyzer.base.reading import reading
from traceanalyzer.diagnosis.part_of_run import Selection

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge


def facts_of(
    selection: Selection | None, knowledge: "Knowledge | None"
) -> tuple[object, ...] | None:
    """The part of a run that is asked about, and what is known beside it; None where that is files
    of the user's."""
    stated = () if knowledge is None else knowledge.stated
    return None if stated is None else (selection or Selection(), stated, reading().iteration)
