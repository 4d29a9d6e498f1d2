"""What a question is about. It is loaded without what measures: a kept answer does without."""

from functools import cached_property
from typing import TYPE_CHECKING

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.trace import Run

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.selection import MeasuredRanks


@dataclass(frozen=True, eq=False)
class Query:
    """What a question is about: a run, which part of it, and what is known beside it."""

    run: Run
    selection: Selection | None = None
    knowledge: Knowledge | None = None

    @cached_property
    def measured(self) -> "MeasuredRanks":
        """What is asked about, measured when first needed: a kept answer needs no measurements. Raises as
        `measured` does."""
        from traceanalyzer.diagnosis.selection import measured

        return measured(self.run, self.selection, self.knowledge)

    @property
    def is_measured(self) -> bool:
        """Whether that has been done."""
        return "measured" in vars(self)
