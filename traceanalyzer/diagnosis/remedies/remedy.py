"""A remedy: a change of the program, with its own trigger in the recording and its own replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.scenarios import Scenario
    from traceanalyzer.diagnosis.finding import BottleneckClass, RemedyName


@dataclass(frozen=True)
class Offer:
    """What a remedy would be for this program."""

    action: str
    """What to type, in one line."""
    scenario: Scenario
    """The change of host and device together."""
    after: tuple[RemedyName, ...] = ()
    """Remedies that have to come first; `scenario` has them, too."""
    against: tuple[str, BottleneckClass] | None = None
    """Finding and class that it is against here, where those are not the remedy's usual ones."""
    aside: bool = False
    """Whether it changes what a step does: what it leads to is the time of as much work, not that of a step."""

    @property
    def single(self) -> bool:
        """Whether it shortens the step by itself."""
        return not self.after and not self.aside

    @property
    def told(self) -> str:
        """What the predicted step is for, where that is not the same step; empty otherwise."""
        return "as much work as a step does now" if self.aside else "a step with both" if self.after else ""


@dataclass(frozen=True)
class Remedy:
    """A change of a program. `offer` is its trigger: None where the recording has nothing that it would change."""

    id: RemedyName
    cls: BottleneckClass
    """Class of bottleneck that it is against."""
    finding: str
    """Finding that it is against, where none in the report names it."""
    offer: Callable[[Measurements], Offer | None]
    least_gain: float = 0.02
    """Share of the step that it must be predicted to save: less is within the spread of steps, or not worth it."""
    sure: float = 0.5
    """Share of that which it must save by the cautious reading, too: a range that has "nothing" in it is no promise."""
    costs_host: bool = False
    """Whether it can cost the host time: then that of a fast one counts where the GPU sets the pace."""
