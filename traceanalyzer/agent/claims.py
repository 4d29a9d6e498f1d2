"""What somebody says a change brought, checked by the stopwatches of both sides: it holds, it does
not, or that cannot be known. No word of the claim counts, only its figures."""

import re
from typing import Literal

from traceanalyzer.base import TraceAnalyzerError, dataclass, digits, regex
from traceanalyzer.comparison.model import Comparison, Side
from traceanalyzer.comparison.noise import RUN_NOISE_SHARE
from traceanalyzer.report import document as doc
from traceanalyzer.report.printed import Printed

Verdict = Literal["holds", "does not hold", "cannot tell"]

_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
_RANGE = regex(
    rf"(?:{_NUMBER}\s*\()?{_NUMBER}\s*(?:to|-|\u2013)\s*{_NUMBER}\)?\s*(?:ms)?(?: per step)?"
)
_SPEEDUP = regex(rf"{_NUMBER}\s*x(?: faster)?", re.IGNORECASE)
MOST_SPEEDUP = 1_000.0
WIDEST = 10.0  # ends of a range further apart claim nothing
FORMS = "`0.68 to 1.05 ms` (the step after the change), `1.3x` (at least so much faster), `faster`, or `no change`"


@dataclass(frozen=True)
class StatedChange:
    """The figures of a claim; those that it does not make are None."""

    low_ms: float | None = None  # the step after the change
    high_ms: float | None = None
    speedup: float | None = None  # at least
    direction: Literal["faster", "no change"] | None = None

    @classmethod
    def of(cls, text: str) -> "StatedChange":
        """What a text claims. Raises TraceAnalyzerError where it is of no known form."""
        words = " ".join(text.split()).strip(" .").lower()
        match = _RANGE.fullmatch(words)
        if match:
            return cls._range(text, float(match[2]), float(match[3]))
        match = _SPEEDUP.fullmatch(words)
        if match:
            return cls._speedup(text, float(match[1]))
        if words == "faster":
            return cls(direction="faster")
        if words == "no change":
            return cls(direction="no change")
        raise TraceAnalyzerError(f"a claim is one of {FORMS}, not {text[:60]!r}")

    @classmethod
    def _range(cls, text: str, first: float, last: float) -> "StatedChange":
        low, high = sorted((first, last))
        if low <= 0:
            raise TraceAnalyzerError(
                f"no step takes 0 ms, as {text[:60]!r} has it; say 0.68 to 1.05 ms"
            )
        if high > WIDEST * low:
            raise TraceAnalyzerError(
                f"{text[:60]!r} claims nothing: its ends are more than {WIDEST:.0f}x apart"
            )
        return cls(low_ms=low, high_ms=high)

    @classmethod
    def _speedup(cls, text: str, speedup: float) -> "StatedChange":
        if speedup <= 1:
            raise TraceAnalyzerError(
                f"{text[:60]!r} claims no gain; say more than 1x, such as 1.3x, or `no change`"
            )
        if speedup > MOST_SPEEDUP:
            raise TraceAnalyzerError(
                f"{text[:60]!r} is more than any change brings; say at most {MOST_SPEEDUP:,.0f}x"
            )
        return cls(speedup=speedup)


@dataclass(frozen=True)
class Judgement:
    """What is to be said of a claim."""

    verdict: Verdict
    why: str
    before_ms: float | None = None
    after_ms: float | None = None


def judged_claim(claim: StatedChange, found: Comparison) -> Judgement:
    """The claim against the stopwatches of both sides."""
    before = stopwatch_ms(found.a)
    after = stopwatch_ms(found.b)
    if found.verdict == "not_comparable":
        differing = [one.name for one in found.conditions if one.incomparable]
        why = f"the two are not alike: {', '.join(differing)}" if differing else found.headline
        return Judgement("cannot tell", why, before, after)
    if before is None or after is None:
        which = "before" if before is None else "after"
        why = f"no stopwatch {which} the change; `traceanalyzer collect` records one, or give a log of step times"
        return Judgement("cannot tell", why, before, after)
    verdict, why = _of_figures(claim, before, after, found.could_see)
    return Judgement(verdict, why, before, after)


def judgement_page(judgement: Judgement) -> Printed:
    """The judgement as it is printed."""
    text = f"{judgement.verdict[0].upper()}{judgement.verdict[1:]}: {judgement.why}."
    values = {
        "verdict": judgement.verdict,
        "why": judgement.why,
        "before_ms": judgement.before_ms,
        "after_ms": judgement.after_ms,
    }
    return Printed(doc.Document("Claim", [doc.Section("", [doc.Verdict(text)])]), values)


def stopwatch_ms(side: Side) -> float | None:
    """The step time that was measured without a profiler; None where none was."""
    if side.kind == "timing_log":
        return side.step_ms
    return side.timed_ms or None


def _of_figures(
    claim: StatedChange, before: float, after: float, could_see: float
) -> tuple[Verdict, str]:
    noise = max(RUN_NOISE_SHARE, could_see)
    measured = (
        f"measured {digits(before, 4)} \u2192 {digits(after, 4)} ms ({digits(before / after)}x)"
    )
    if claim.low_ms is not None and claim.high_ms is not None:
        return _of_range(claim.low_ms, claim.high_ms, after, measured)
    if claim.speedup is not None:
        claimed = f"{measured}, claimed at least {claim.speedup:g}x"
        return _of_speedup(claim.speedup, before / after), claimed
    change = (after - before) / before
    claimed = f"{measured}, claimed {claim.direction}; runs differ by up to {noise:.1%}"
    if claim.direction == "faster":
        return _of_faster(change, noise), claimed
    return _of_no_change(change, noise), claimed


def _of_speedup(claimed: float, reached: float) -> Verdict:
    if reached >= claimed:
        return "holds"
    is_near = reached >= claimed * (1 - RUN_NOISE_SHARE)
    return "cannot tell" if is_near else "does not hold"


def _of_faster(change: float, noise: float) -> Verdict:
    if change < -noise:
        return "holds"
    return "does not hold" if change > RUN_NOISE_SHARE else "cannot tell"


def _of_no_change(change: float, noise: float) -> Verdict:
    if abs(change) <= RUN_NOISE_SHARE:
        return "holds"
    return "does not hold" if abs(change) > noise else "cannot tell"


def _of_range(low: float, high: float, after: float, measured: str) -> tuple[Verdict, str]:
    """The step after the change against a range for it; a run's own noise beyond its ends tells
    nothing."""
    if low <= after <= high:
        return "holds", f"{measured}, within {digits(low, 4)} to {digits(high, 4)} ms"
    beyond = low * (1 - RUN_NOISE_SHARE) <= after <= high * (1 + RUN_NOISE_SHARE)
    outside = f"{measured}, outside {digits(low, 4)} to {digits(high, 4)} ms"
    return ("cannot tell" if beyond else "does not hold"), outside
