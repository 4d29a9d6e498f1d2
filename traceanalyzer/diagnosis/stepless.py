"""Texts on steps for a recording that has none."""

from __future__ import annotations

import re
from dataclasses import replace

from traceanalyzer.diagnosis.finding import Finding, Recommendation

_WITHOUT_STEPS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r",? ?\bper (recorded )?step\b", ""),
        (r"\bsteady state\b", "whole recording"),
        (r"^a step, ", ""),
        (r",? a step\b(?! without)", ""),
        (r"\b(each|the) previous step\b|\bthe step before\b", "earlier work"),
        (r"\b([Cc])apture the (whole )?step\b", r"\1apture the repeated part"),
        (r"\b([Aa])head of the step\b", r"\1head"),
        (r" behind the step\b", ""),
        (r"\ba step without\b", "work without"),
        (r"once every many steps|once every 100 steps", "seldom"),
        (r"one step ahead|one batch ahead", "ahead of its use"),
        (r"\brest of the step: it takes\b", "rest: all takes"),
        (r"\bof the recorded step\b", "of the recording"),
        (r"\ba fused step\b", "a fused update"),
        (r"\bmore of the step, or several steps,", "more"),
        (r"\b(the|each|every|whole) step\b", "the loop"),
        (r"; if it is the program's start, later steps do not have it", ""),
    )
)
"""How a text on a step reads where the recording has none: everything is then of the whole recording."""


def without_steps(text: str) -> str:
    """A text of a rule for a recording in which no steps are known."""
    for pattern, instead in _WITHOUT_STEPS:
        text = pattern.sub(instead, text)
    return text


def finding_without_steps(finding: Finding) -> Finding:
    """A finding in words for a recording without steps."""
    evidence = [replace(e, metric=without_steps(e.metric), where=without_steps(e.where)) for e in finding.evidence]
    return replace(finding, title=without_steps(finding.title), evidence=evidence)


def advice_without_steps(advice: Recommendation) -> Recommendation:
    """A recommendation likewise."""
    return replace(advice, action=without_steps(advice.action), basis=without_steps(advice.basis))
