"""Predictions as a document: step times under each scenario, what each assumes, and why there is
none of the others."""

from collections.abc import Callable

from traceanalyzer.base import dataclass, digits
from traceanalyzer.replay.prediction import Prediction, WhatIf
from traceanalyzer.report.document import Document, Facts, Paragraph, Part, Section, Table
from traceanalyzer.report.format import DEFAULT_WIDTH
from traceanalyzer.report.json import dump
from traceanalyzer.report.printed import Printed, PrintedRows, Result

COLUMNS = ["id", "kind", "step_ms", "low_ms", "high_ms", "speedup", "mfu"]
"""Assumptions stand below the table."""
IDEALS = "change: can be made, see `explain ID`; ideal: one cost less, all else stays."
LEAST_GAIN = 0.01  # a smaller change of the step is none


def _asked_for(scenario: Prediction) -> bool:
    """Whether the user named it (`--speedup`, `--bucket-mb`): it is answered, whatever the
    answer."""
    return "=" in scenario.id


def _parted(
    rows: list[Prediction], test: Callable[[Prediction], bool]
) -> tuple[list[Prediction], list[Prediction]]:
    """Those that pass the test, and the others."""
    return [one for one in rows if test(one)], [one for one in rows if not test(one)]


def _left_out(
    small: list[Prediction], unexplained: list[Prediction], *, ideals: bool
) -> list[Part | None]:
    gain, none = (", ".join(s.id for s in some) for some in (small, unexplained))
    return [
        "",
        Paragraph(IDEALS, "dim") if ideals else None,
        Paragraph(f"Gain under {LEAST_GAIN:.0%}: {gain}.", "dim") if gain else None,
        Paragraph(f"Not predicted: {none}.", "dim") if none else None,
        Paragraph("What each assumes, and why there are no others: --full.", "dim"),
    ]


@dataclass(frozen=True)
class ScenariosPage(Result):
    """The answer of `whatif`."""

    result: WhatIf
    # whether a terminal shows also what gains nothing, and why the others are not predicted
    full: bool = False

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """Scenarios by step time; in full what each assumes, combinations what their parts do."""
        predicted, missing = _parted(self.result.scenarios, lambda s: s.step_ms is not None)
        shown, small = (predicted, []) if self.full else _parted(predicted, self._matters)
        explained, unexplained = (missing, []) if self.full else _parted(missing, _asked_for)
        below = (
            ("What each assumes", list(filter(self._is_explained, shown))),
            ("Not predicted", explained),
        )
        sections = [
            Section("", [self._heading(), "", Table(shown, chosen=COLUMNS) if shown else None])
        ]
        for title, some in below:
            sections += (
                [
                    Section(
                        title,
                        [Facts.of(*((s.id, s.basis) for s in some))],
                        is_minor=True,
                    )
                ]
                if some
                else []
            )
        ideals = any(one.kind == "ideal" for one in shown)
        sections += [] if self.full else [Section("", _left_out(small, unexplained, ideals=ideals))]
        return Printed(Document("", sections)).terminal(width, colour)

    def _is_explained(self, scenario: Prediction) -> bool:
        """Whether what it assumes is shown; parts say it for what combines them."""
        parts = set(scenario.id.split("+"))
        combines = len(parts) > 1 and parts <= {s.id for s in self.result.scenarios}
        return not combines and (self.full or _asked_for(scenario))

    def _matters(self, scenario: Prediction) -> bool:
        """Whether the scenario changes the step, and differs from those that it combines."""
        parts = [
            s.step_ms
            for s in self.result.scenarios
            if s.id in scenario.id.split("+") and s.id != scenario.id
        ]
        same = any(
            ms is not None and abs(ms - (scenario.step_ms or 0.0)) < LEAST_GAIN * ms for ms in parts
        )
        return _asked_for(scenario) or (
            not same and abs((scenario.speedup or 1.0) - 1.0) >= LEAST_GAIN
        )

    def markdown(self) -> str:
        """All of it as one table."""
        return f"{self._heading()}\n\n{self.printed.markdown()}"

    def json(self) -> str:
        """All of it."""
        return dump(self.result)

    @property
    def printed(self) -> PrintedRows:
        """A scenario a row."""
        return PrintedRows("scenarios", self.result.scenarios, Prediction)

    def _heading(self) -> str:
        result = self.result
        text = f"Recorded {digits(result.recorded_step_ms, 4)} ms per step"
        if result.unprofiled_step_ms is not None:
            low = result.unprofiled_low_ms
            high = result.unprofiled_high_ms
            text = f"Step {digits(result.unprofiled_step_ms, 4)} ms without the profiler"
            if low is not None and high is not None:
                text += f" ({digits(low, 4)} to {digits(high, 4)})"
            text += f", as recorded {digits(result.recorded_step_ms, 4)} ms"
        if result.replayed_step_ms is not None:
            text += f"; the replay of the recording is off by {result.fidelity_error:+z.1%}"
        else:
            text += (
                ". The replay of the unchanged recording is too far from it: nothing is predicted"
            )
        return " ".join([f"{text}.", *result.notes])
