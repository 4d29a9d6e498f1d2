"""Advice on the first screen: three changes, what they do where there is room, none cut to a stub."""

from __future__ import annotations

from dataclasses import replace

import traceanalyzer as ta
from tests.recorded import ROOT
from traceanalyzer.report.terminal.screen import SCREEN_LINES, render_screen

ACTION = (
    "Remove the wait: queue the next work of the step without waiting for it, keep its values on "
    "the GPU as they are, and read all of the results in one go at the end of the step"
)


def test_without_room_for_three_changes_the_last_have_their_gain_and_name() -> None:
    report = ta.analyze(str(ROOT / "sample_traces" / "sync_bound"))
    changes = [replace(one, action=ACTION) for one in report.recommendations]
    text = render_screen(replace(report, recommendations=changes))
    assert text.count("\n") <= SCREEN_LINES
    assert " 1 1.39" in text
    assert " 3 1.39" in text
    assert text.count("Remove the wait") < 3
    assert "…" not in text
