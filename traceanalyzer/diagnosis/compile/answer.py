"""What a report on time says of torch.compile."""

from typing import NamedTuple

from traceanalyzer.diagnosis.finding import Finding, Recommendation


class OnCompile(NamedTuple):
    """The answer, findings and remedies."""

    headline: str
    findings: list[Finding]
    recommendations: list[Recommendation]
