"""The vocabulary of a diagnosis: classes, evidence, findings, recommendations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BottleneckClass = Literal[
    "compute", "memory", "launch", "communication", "sync", "input", "host", "transfer", "inconclusive"
]
Severity = Literal["high", "medium", "low", "info"]


@dataclass(frozen=True)
class Evidence:
    """A measured figure that supports a finding; `threshold` is what it was held against, if anything.

    A `value` that counts something is an int.
    """

    metric: str
    value: int | float | str | None
    unit: str
    where: str
    threshold: float | None = None


@dataclass(frozen=True)
class Finding:
    """Something that costs time, with the evidence. `headroom_ms` is counted once over all findings."""

    id: str
    cls: BottleneckClass
    title: str
    severity: Severity
    headroom_ms: float | None
    evidence: list[Evidence]


@dataclass(frozen=True)
class Recommendation:
    """A concrete remedy for a finding and what it would bring at most; `basis` says how that was estimated."""

    id: str
    cls: BottleneckClass
    action: str
    predicted_step_ms: float | None
    predicted_speedup: float | None
    basis: str


@dataclass(frozen=True)
class Summary:
    """The bottleneck class, how sure it is (0..1), and the answer in a sentence."""

    bottleneck: BottleneckClass
    confidence: float
    headline: str
