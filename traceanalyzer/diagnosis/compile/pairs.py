"""What is said of torch.compile: advice, and the diagnosis that has it."""

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.diagnosis.finding import BottleneckClass, Finding


@dataclass(frozen=True)
class CompileAdvice:
    """A remedy, with the step and the start that it leads to; null where the recording cannot tell."""

    id: str
    remedy: str
    cls: BottleneckClass
    action: str
    predicted_step_ms: float | None
    low_ms: float | None
    high_ms: float | None
    predicted_speedup: float | None
    predicted_compile_s: float | None
    low_s: float | None
    high_s: float | None
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
    return CompileAdvice(ident, remedy, "host", action, None, None, None, None, usual, low, high, basis)


def count(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
