"""Calls of modules in a program that is about to train."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.profilers.profiler_range import ProfilerRange
from traceanalyzer.collect.steps.step_finder import TRAINING_SECONDS, StepFinder

torch = pytest.importorskip("torch")


def finder() -> StepFinder:
    """One that tells nobody what it finds."""
    nothing = (lambda: None, lambda: None, lambda: None)
    return StepFinder(*nothing, lambda error: None)


def test_a_program_with_an_optimizer_is_awaited_to_train(monkeypatch):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    found = finder()
    assert found.awaits_training()
    later = time.monotonic() + TRAINING_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not found.awaits_training(), "an evaluation that goes on is what the program does"
    trained = finder()
    trained._optimizer_stepped()
    assert not trained.awaits_training()
    del optimizer


def test_what_records_once_does_not_begin_before_training(monkeypatch):
    begun = []
    monkeypatch.setattr(ProfilerRange, "_start", lambda self: begun.append(self._step))
    early = [True, True, False]
    plan = CapturePlan("", recorder="nsys", wait=2, unprofiled_steps=0)
    recorder = ProfilerRange(plan, lambda phase: None, lambda: "step", lambda: early.pop(0))
    for _ in range(4):
        recorder.step()
    assert begun == [4], "the first step of four is waited for, two are too early"
    asked = ProfilerRange(plan, lambda phase: None, lambda: "step", lambda: True)
    asked.record_now()
    asked.step()
    assert begun == [4, 1]
