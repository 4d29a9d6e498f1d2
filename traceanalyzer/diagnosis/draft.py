"""What a rule hands in: a finding before its headroom is settled, with what the rule proposes."""

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import BottleneckClass, Evidence, Words, written
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import page_of
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.trace import Bool

Part = Literal[
    "compute",
    "exposed_communication",
    "exposed_copy",
    "idle.launch",
    "idle.sync",
    "idle.input",
    "idle.host",
    "idle.communication",
    "idle.profiler",
    "idle.other",
    "none",
]
"""Part of the step that a finding's headroom is taken from; each part is given away only once."""


@dataclass(frozen=True)
class Proposal:
    """What a rule proposes. `scenario` is replayed to predict the step; without one the headroom
    bounds it, as `basis` says. One that has the name of a remedy speaks only where the recording
    cannot be replayed."""

    action: Words
    basis: str
    scenario: Scenario | None = None
    suffix: str = ""  # ending of the recommendation's id, where a finding has several proposals
    # whether the headroom only bounds what it gains from above: nothing is then predicted
    bound: bool = False
    alone: bool = False
    """Whether it speaks for itself, although the list of remedies has one of its name (for another
    cause)."""
    least_ms: float = 0.0  # step time that it cannot lead below, where it is not replayed
    # class of bottleneck that it is against, where that is not the finding's
    cls: BottleneckClass | None = None
    name: str | None = None
    """The change of the program in the contract's words (`remedies.NAMES`); None where it has
    none."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A finding as a rule sees it. `claim_ms`, of the step that `Measurements.step` is, is None
    where the recording cannot tell what there is to win."""

    id: str
    cls: BottleneckClass
    title: str
    part: Part
    claim_ms: float | None
    evidence: list[Evidence]
    proposals: list[Proposal] = field(default_factory=list)
    # device ops whose time it would save: no later rule may claim these too
    rows: Bool | None = None
    # what to do where a remedy against it has no words for the program's framework
    words: Words | None = None


def finding(
    id_: str,
    part: Part,
    claim_ms: float | None,
    evidence: list[Evidence],
    proposals: Sequence[Proposal] = (),
    rows: Bool | None = None,
    words: Words | None = None,
    basis: str = "",
    name: str | None = None,
) -> Draft:
    """A draft with the title and the class of the finding's page; with a `basis` it proposes the
    page's words."""
    page = page_of(id_)
    if basis:
        words = written(page.words["words"])
        proposals = [Proposal(words, basis, name=name)]
    return Draft(
        id_,
        page.cls,
        page.title.removesuffix("."),
        part,
        claim_ms,
        evidence,
        list(proposals),
        rows,
        words,
    )


def share(
    m: Measurements, value_ms: float, what: str, threshold: float | None = None, less: str = ""
) -> Evidence:
    """Evidence that something takes a share of the step that the report speaks of. `less`: what the
    budget has in the part of this name, and this share has not."""
    unit = m.timed.steps.unit
    recorded = "mean steady-state step" if m.timed.steps.found else unit
    share_of = (
        f"of the {unit} without the profiler"
        if m.step.basis == "unprofiled"
        else f"of the {recorded}"
    )
    where = f"{share_of}, less {less}" if less else share_of
    value = value_ms / m.step.step_ms if m.step.step_ms else None
    return Evidence(what, value, "share", where, threshold)


def times(top: list[tuple[str, float]], metric: str = "time") -> list[Evidence]:
    """Evidence on the kernels that take most of the time of a group."""
    return [Evidence(metric, time_ms, "ms", name) for name, time_ms in top]
