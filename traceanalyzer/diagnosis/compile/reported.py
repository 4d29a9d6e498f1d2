"""What a report on time says of torch.compile. What reads its logs is loaded where something was
compiled."""

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.compile.answer import OnCompile
from traceanalyzer.replay.compile.model import REGION

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements

IN_EACH_STEP = ("graph-break", "recompilation")
"""Ids begin so of findings whose remedy comes first: what they leave eager would be captured, not
compiled."""


def on_compile(m: "Measurements") -> OnCompile:
    """What is said of what was compiled; empty where nothing was."""
    if not m.trace.compile_logs and not any(map(REGION.match, m.trace.strings)):
        return OnCompile("", [], [])
    from traceanalyzer.diagnosis.compile.measured import told_of

    return told_of(m)
