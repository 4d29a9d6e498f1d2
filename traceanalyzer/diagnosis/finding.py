"""The vocabulary of a diagnosis: classes, evidence, findings, recommendations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from traceanalyzer.figures import metric as defined

BottleneckClass = Literal[
    "compute", "memory", "launch", "communication", "sync", "input", "host", "transfer", "inconclusive"
]
Severity = Literal["high", "medium", "low", "info"]


@dataclass(frozen=True)
class Evidence:
    """A measured figure that supports a finding; `threshold` is what it was held against, if anything.

    A `value` that counts something is an int.
    """

    metric: str = defined("what was measured")
    value: int | float | str | None = defined("its value; null where it could not be measured")
    unit: str = defined("unit of the value, or empty")
    where: str = defined("the place in the recording or in the program, or what the value is of")
    threshold: float | None = defined("what the value was held against; null where nothing was", default=None)


@dataclass(frozen=True)
class Finding:
    """Something that costs time, with the evidence. `headroom_ms` is counted once over all findings."""

    id: str = defined("name of the finding, for `explain`")
    cls: BottleneckClass = defined("class of bottleneck that it speaks for")
    title: str = defined("the finding in a sentence")
    severity: Severity = defined("by its share of the step")
    headroom_ms: float | None = defined(
        "time a step that removing the cause would save at most; null where it is unknown", "ms"
    )
    evidence: list[Evidence] = defined("what supports it")


@dataclass(frozen=True)
class Recommendation:
    """A concrete remedy for a finding and what it would bring at most; `basis` says how that was estimated."""

    id: str = defined("name of the finding that it is against")
    cls: BottleneckClass = defined("class of bottleneck of that finding")
    action: str = defined("what to do")
    predicted_step_ms: float | None = defined("step time that it would lead to; null where it is unknown", "ms")
    predicted_speedup: float | None = defined("step time before it over the one after it; null where it is unknown")
    basis: str = defined("how that was estimated")


@dataclass(frozen=True)
class Summary:
    """The bottleneck class, how sure it is (0..1), and the answer in a sentence."""

    bottleneck: BottleneckClass = defined("what the step waits for most")
    confidence: float = defined("how sure that is, 0 to 1", "share")
    headline: str = defined("the answer in a sentence")
