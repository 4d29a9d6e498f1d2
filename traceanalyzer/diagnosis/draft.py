"""What a rule hands in: a finding before its headroom is settled, with the remedy it suggests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.scenarios import Scenario
    from traceanalyzer.diagnosis.finding import BottleneckClass

Slice = Literal[
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
class Remedy:
    """What to do. `scenario` is replayed to predict the step; without one the headroom bounds it, as `basis` says."""

    action: str
    basis: str
    scenario: Scenario | None = None
    suffix: str = ""
    """Ending of the recommendation's id, where a finding has several remedies."""


@dataclass(frozen=True)
class Draft:
    """A finding as a rule sees it. `claim_ms` is None where the recording cannot tell what there is to win."""

    id: str
    cls: BottleneckClass
    title: str
    part: Slice
    claim_ms: float | None
    evidence: list[Evidence]
    remedies: list[Remedy] = field(default_factory=list)


def share(value_ms: float, step_ms: float, what: str, threshold: float | None = None) -> Evidence:
    """Evidence that something takes a share of the step."""
    return Evidence(what, value_ms / step_ms if step_ms else None, "share", "of the mean steady-state step", threshold)
