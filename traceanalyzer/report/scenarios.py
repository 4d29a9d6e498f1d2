"""Predictions as a document: step times under each scenario, what each assumes, and why there is none of the others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from traceanalyzer.analysis.replay.whatif import Prediction, WhatIf
from traceanalyzer.report.document import Document, Rows
from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.json import dump
from traceanalyzer.report.terminal.drawing import Page


@dataclass(frozen=True)
class ScenariosPage(Document):
    """The answer of `whatif`."""

    result: WhatIf

    def terminal(self, width: int, colour: bool) -> str:
        """Scenarios by step time, then in full what each assumes; combinations assume what their parts do."""
        predicted = [s for s in self.result.scenarios if s.step_ms is not None]
        page = Page(width, colour)
        page.line(self._heading())
        page.line("")
        if predicted:
            grid = make_grid(predicted)
            page.grid(dataclasses.replace(grid, columns=[c for c in grid.columns if c.label != "basis"]))
        ids = {s.id for s in self.result.scenarios}
        single = [s for s in predicted if "+" not in s.id or not ids.issuperset(s.id.split("+"))]
        missing = [s for s in self.result.scenarios if s.step_ms is None]
        for title, members in (("What each assumes", single), ("Not predicted", missing)):
            if members:
                page.title(title)
                page.facts([(s.id, s.basis) for s in members])
        return page.text()

    def markdown(self) -> str:
        """All of it as one table."""
        return f"{self._heading()}\n\n{self._rows().markdown()}"

    def json(self) -> str:
        """All of it."""
        return dump(self.result)

    def csv(self) -> str:
        """A scenario a row."""
        return self._rows().csv()

    def _rows(self) -> Rows:
        return Rows("scenarios", self.result.scenarios, Prediction)

    def _heading(self) -> str:
        of = self.result
        text = f"Recorded {of.recorded_step_ms:.4g} ms per step"
        if of.replayed_step_ms is not None:
            text += f", replayed {of.replayed_step_ms:.4g} ms (fidelity {of.fidelity_error:+z.1%})"
        if of.unprofiled_step_ms is not None:
            low, high = of.unprofiled_low_ms, of.unprofiled_high_ms
            text += f"; without the profiler {of.unprofiled_step_ms:.4g} ms ({low:.4g} to {high:.4g})"
        if of.replayed_step_ms is None:
            text += ". The replay of the unchanged recording is too far from it: nothing is predicted"
        return " ".join([f"{text}.", *of.notes])
