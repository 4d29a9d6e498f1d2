"""What is said of torch.compile: advice, and the diagnosis that has it."""

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import BottleneckClass, Finding


@dataclass(frozen=True, kw_only=True)
class CompileAdvice:
    """A remedy, with the step and the start that it leads to; null where the recording cannot tell."""

    id: str
    remedy: str
    cls: BottleneckClass
    action: str
    predicted_step_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    predicted_speedup: float | None = None
    predicted_compile_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    basis: str


@dataclass(frozen=True)
class CompileDiagnosis:
    """What torch.compile costs in a sentence, findings by what they cost, remedies by what they gain."""

    headline: str
    findings: list[Finding]
    recommendations: list[CompileAdvice]


Pair = tuple[Finding, list[CompileAdvice]]
"""A finding with what to do about it."""


def start_advice(
    ident: str, remedy: str, action: str, seconds: tuple[float, float, float] | None, basis: str
) -> CompileAdvice:
    """Advice on the start; `seconds` of compilation: least, expected, most."""
    low, usual, high = seconds or (None, None, None)
    return CompileAdvice(
        id=ident,
        remedy=remedy,
        cls="host",
        action=action,
        predicted_compile_s=usual,
        low_s=low,
        high_s=high,
        basis=basis,
    )


def count(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
