"""Predicted step times as they are shown and kept: loaded without what makes them."""

import re
from typing import Literal

from traceanalyzer.base import dataclass, digits, metric

Kind = Literal["change", "ideal", "asked"]
BETWEEN = "; "
"""What stands between the assumptions of a prediction; within parentheses it is part of one."""
OUTSIDE_PARENTHESES = r"(?![^()]*\))"


def assumptions(basis: str) -> list[str]:
    """What a prediction takes for granted, one by one."""
    return re.split(BETWEEN + OUTSIDE_PARENTHESES, basis)


@dataclass(frozen=True)
class Prediction:
    """A scenario and the step time it leads to; null where the recording does not say what it
    needs."""

    id: str = metric("what is different", text="scenario")
    step_ms: float | None = metric("predicted step time without a profiler")
    low_ms: float | None = metric(
        "lower end of the 90 % range: nine of ten stopwatch medians lie inside"
    )
    high_ms: float | None = metric("upper end of it")
    speedup: float | None = metric("unprofiled step time over the predicted one")
    basis: str = metric("what is assumed, or why there is no prediction", text="sentence")
    mfu: float | None = metric(
        (
            "MFU at that step time, for as many operations; null where today's is not known, "
            "or with another number format"
        ),
        "share",
        default=None,
    )
    kind: Kind = metric(
        "`change`: one that can be made; `ideal`: one cost is gone and all else stays, which no change does; "
        "`asked`: asked for by name",
        default="change",
        text="own",
    )


@dataclass(frozen=True)
class WhatIf:
    """The step as recorded, replayed, without a profiler, and under each scenario."""

    recorded_step_ms: float = metric("mean steady-state step of the recording")
    replayed_step_ms: float | None = metric(
        "the same from the replay of its causes; null where that is too far off to tell anything"
    )
    fidelity_error: float = metric(
        "replayed over recorded step time (outliers left out), less 1", "share"
    )
    unprofiled_step_ms: float | None = metric(
        "step time without a profiler: measured with the capture, else estimated; null "
        "where it is not known"
    )
    unprofiled_low_ms: float | None = metric("lower end of its 90 % range")
    unprofiled_high_ms: float | None = metric("upper end of it")
    ranks: int = metric("ranks replayed together")
    scenarios: list[Prediction] = metric("scenarios, largest gain first")
    notes: list[str] = metric("what all of them assume", text="sentence")

    def __repr__(self) -> str:
        base = self.recorded_step_ms if self.unprofiled_step_ms is None else self.unprofiled_step_ms
        best = next(
            (
                f", {one.id} {digits(one.step_ms)} ms"
                for one in self.scenarios
                if one.step_ms is not None
            ),
            "",
        )
        return f"<WhatIf: step {digits(base)} ms{best}, {len(self.scenarios)} scenarios>"
