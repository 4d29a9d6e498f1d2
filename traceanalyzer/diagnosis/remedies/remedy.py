"""A remedy: a change of the program, with its own trigger in the recording, its words and its own
replay."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import AGAINST, BottleneckClass, Words, written
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.tape import Change

NO_FIGURES: Mapping[str, object] = {}


@dataclass(frozen=True)
class Offer:
    """What a remedy would be for this program."""

    action: Words  # what to type, in one line
    scenario: Scenario  # the change of host and device together
    after: tuple[str, ...] = ()  # remedies that have to come first; `scenario` has them, too
    first: Scenario | None = None  # those alone; None where none has to come first
    against: tuple[str, BottleneckClass] | None = None
    """Finding and class that it is against here, where those are not the remedy's usual ones."""
    changes_work: bool = False
    """Whether it changes what a step does: what it leads to is the time of as much work, not that
    of a step."""
    ranks: tuple[int | None, ...] = ()
    """The ranks that it is about, where it is about some of several."""

    @property
    def single(self) -> bool:
        """Whether it shortens the step by itself."""
        return not self.after and not self.changes_work


Trigger = Callable[[Measurements], Offer | None]


@dataclass(frozen=True)
class Remedy:
    """A change of a program. `offer` is its trigger: None where the recording has nothing that it
    would change; its docstring says where that is."""

    id: str  # its name in the report's `remedy`: a contract
    cls: BottleneckClass  # class of bottleneck that it is against
    finding: str  # finding that it is against, where none in the report names it
    offer: Trigger
    least_gain: float = 0.02
    """Share of the step that it must be predicted to save: less is within the spread of steps, or
    not worth it."""
    min_pessimistic_share: float = 0.5
    """Share of that which it must save by the cautious reading, too: a range that has "nothing" in
    it is no promise."""
    costs_host: bool = False
    """Whether it can cost the host time: then that of a fast one counts where the GPU sets the
    pace."""


def replay_decides(there_is: str, cls: BottleneckClass, scenario: Scenario) -> Remedy:
    """A remedy whose replay alone tells whether it changes anything."""

    def offer(_: Measurements) -> Offer:
        return Offer(words(scenario.id), scenario)

    offer.__doc__ = f"Wherever {there_is}."
    return Remedy(scenario.id, cls, AGAINST[scenario.id], offer)


def remedy(
    id_: str,
    cls: BottleneckClass,
    least_gain: float = Remedy.least_gain,
    min_pessimistic_share: float = Remedy.min_pessimistic_share,
    *,
    costs_host: bool = False,
) -> Callable[[Trigger], Remedy]:
    """A trigger as a remedy."""

    def made(offer: Trigger) -> Remedy:
        return Remedy(
            id_,
            cls,
            AGAINST[id_],
            offer,
            least_gain,
            min_pessimistic_share,
            costs_host=costs_host,
        )

    return made


@cache
def entries() -> dict[str, dict[str, Any]]:
    """What `remedies.toml` has of each remedy."""
    source = Path(__file__).with_name("remedies.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


def text(id_: str, which: str) -> str:
    """A text of a remedy's entry."""
    return " ".join(entries()[id_][which].split())


def words(id_: str, which: str = "words", **figures: object) -> Words:
    """What a remedy's entry says to do, with these figures in it."""
    return written(entries()[id_][which], **figures)


def scenario_of(
    id_: str,
    change: Change,
    which: str = "assumes",
    figures: Mapping[str, object] = NO_FIGURES,
    **more: Any,
) -> Scenario:
    """The replay of a remedy, with what its entry says that it assumes, with these figures in
    it."""
    assumed = text(id_.rpartition("+")[2], which)
    return Scenario(id_, change, assumed.format(**figures), **more)
