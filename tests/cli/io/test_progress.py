"""The progress bar: for people who wait, on standard error."""

import io
import sys
import time

import pytest

from traceanalyzer.cli.io import progress as module


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("terminal", "waited_s", "drawn"), [(True, 2.0, True), (True, 0.5, False), (False, 2.0, False)]
)
def test_a_bar_is_drawn_only_on_a_terminal_and_after_a_while(
    monkeypatch, terminal, waited_s, drawn
):
    stream = Terminal() if terminal else io.StringIO()
    now = [0.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with module.progress("Reading") as report:
        report(1, 10)
        now[0] = waited_s
        report(5, 10)
        report(10, 10)
    assert ("Reading" in stream.getvalue()) == drawn


def test_what_takes_long_is_said_while_it_lasts(monkeypatch):
    shown = []
    monkeypatch.setattr(module, "is_terminal", lambda _: True)
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    monkeypatch.setattr(module._Bar, "start", lambda self: shown.append(self._what))
    with module.working("Analyzing"):
        time.sleep(0.2)
    assert shown == ["Analyzing"]


def test_quick_work_is_not_commented(monkeypatch):
    monkeypatch.setattr(module, "is_terminal", lambda _: True)
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)
    monkeypatch.setattr(module._Bar, "start", lambda self: pytest.fail("too soon"))
    with module.working("Analyzing"):
        pass
