"""Predictions as a document: step times under each scenario, what each assumes, and why there is
none of the others."""

from collections.abc import Callable

from traceanalyzer.base import dataclass
from traceanalyzer.replay.prediction import Prediction, WhatIf, assumptions
from traceanalyzer.report.document import (
    Document,
    Facts,
    Item,
    Items,
    Paragraph,
    Part,
    Section,
    Table,
)
from traceanalyzer.report.format import DEFAULT_WIDTH, number
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


def _named(label: str, scenarios: list[Prediction]) -> Paragraph | None:
    """Scenarios that are only named; None without any."""
    names = ", ".join(one.id for one in scenarios)
    return Paragraph(f"{label}: {names}.", "dim") if names else None


def _not_predicted(scenarios: list[Prediction]) -> list[Section]:
    """Why scenarios are not predicted: those with the same reason together."""
    ids_of: dict[str, list[str]] = {}
    for scenario in scenarios:
        ids_of.setdefault(scenario.basis, []).append(scenario.id)
    reasons = [(", ".join(ids), basis) for basis, ids in ids_of.items()]
    return [Section("Not predicted", [Facts.of(*reasons)], is_minor=True)] if scenarios else []


@dataclass(frozen=True)
class ScenariosPage(Result):
    """The answer of `whatif`."""

    result: WhatIf
    # whether a terminal shows also what each assumes, and why others are not predicted
    full: bool = False

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """Scenarios by step time, those that change the step; in full what each assumes."""
        sections = self._whole() if self.full else self._brief()
        return Printed(Document("", sections)).terminal(width, colour)

    def markdown(self) -> str:
        """All of it, as a terminal has it in full."""
        return Printed(Document("", self._whole())).markdown()

    def _brief(self) -> list[Section]:
        missing = [one for one in self.result.scenarios if one.step_ms is None]
        asked, others = _parted(missing, _asked_for)
        return [
            self._table(),
            *self._explained(list(filter(_asked_for, self._shown))),
            *_not_predicted(asked),
            Section(
                "",
                [
                    "",
                    *self._below(),
                    _named("Not predicted", others),
                    Paragraph("What each assumes, and why there are no others: --full.", "dim"),
                ],
            ),
        ]

    def _whole(self) -> list[Section]:
        missing = [one for one in self.result.scenarios if one.step_ms is None]
        below = [part for part in self._below() if part is not None]
        return [
            self._table(),
            *([Section("", ["", *below])] if below else []),
            *self._explained(self._shown),
            *_not_predicted(missing),
        ]

    def _table(self) -> Section:
        table = Table(self._shown, chosen=COLUMNS, defined=True) if self._shown else None
        return Section("", [self._heading(), "", table])

    def _explained(self, some: list[Prediction]) -> list[Section]:
        """What each assumes, one by one; of combinations their parts say it."""
        items = [
            Item(one.id, details=assumptions(one.basis)) for one in some if not self._combines(one)
        ]
        return [Section("What each assumes", [Items(items)], is_minor=True)] if items else []

    def _below(self) -> list[Part | None]:
        """What the kinds mean, and which scenarios leave the step as it is."""
        predicted = [one for one in self.result.scenarios if one.step_ms is not None]
        has_ideals = any(one.kind == "ideal" for one in self._shown)
        small = [one for one in predicted if not self._matters(one) and not self._combines(one)]
        return [
            Paragraph(IDEALS, "dim") if has_ideals else None,
            _named(f"Gain under {LEAST_GAIN:.0%}", small),
        ]

    @property
    def _shown(self) -> list[Prediction]:
        """The scenarios of the table."""
        predicted = (one for one in self.result.scenarios if one.step_ms is not None)
        return list(filter(self._matters, predicted))

    def _combines(self, scenario: Prediction) -> bool:
        """Whether it is made of others that are there."""
        parts = set(scenario.id.split("+"))
        return len(parts) > 1 and parts <= {one.id for one in self.result.scenarios}

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

    def json(self) -> str:
        """All of it."""
        return dump(self.result)

    @property
    def printed(self) -> PrintedRows:
        """A scenario a row."""
        return PrintedRows("scenarios", self.result.scenarios, Prediction)

    def _heading(self) -> str:
        result = self.result
        text = f"Recorded {number(result.recorded_step_ms)} ms per step"
        if result.unprofiled_step_ms is not None:
            low = result.unprofiled_low_ms
            high = result.unprofiled_high_ms
            text = f"Step {number(result.unprofiled_step_ms)} ms without the profiler"
            if low is not None and high is not None:
                text += f" ({number(low)} to {number(high)})"
            text += f", as recorded {number(result.recorded_step_ms)} ms"
        if result.replayed_step_ms is not None:
            text += f"; the replay of the recording is off by {result.fidelity_error:+z.1%}"
        else:
            text += (
                ". The replay of the unchanged recording is too far from it: nothing is predicted"
            )
        return " ".join([f"{text}.", *result.notes])
