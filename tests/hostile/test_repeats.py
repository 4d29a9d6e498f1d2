"""Patterns that took the square of what they repeat, behind what has to come before it."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.ingest.kineto import names as copies
from traceanalyzer.ingest.texts import memory_summary
from traceanalyzer.ingest.timing import names, pairs, pattern, special
from traceanalyzer.ingest.torch_log import explained

LENGTH = 30_000
PATIENCE_S = 0.5
"""The square of it takes seconds."""


@pytest.mark.parametrize(
    ("searched", "before", "unit"),
    [
        (copies._ENDS.search, "(a", " "),
        (memory_summary._ROW.search, "|A", " "),
        (names._IN_PARENTHESES.search, "a", " "),
        (pairs._CELL.search, "|a", " "),
        (pattern._VALUE.search, "a", " "),
        (special._SAMPLES.search, "", "/1, "),
        (explained._NODE.match, "a :", " "),
    ],
    ids=["ends", "row", "parentheses", "cell", "value", "samples", "node"],
)
def test_white_space_costs_time_in_proportion(searched, before, unit):
    text = before + unit * (LENGTH // len(unit)) + "\0!"
    began = time.process_time()
    assert searched(text) is None
    assert time.process_time() - began < PATIENCE_S


@pytest.mark.parametrize(
    ("searched", "text", "groups"),
    [
        (
            copies._ENDS.search,
            "Memcpy (Device Static  -> Pinned )",
            ("Device Static", "Pinned "),
        ),
        (memory_summary._ROW.search, "| Active memory  | 1 | 2 |", ("Active memory", " 1 ", " 2 ")),
        (names._IN_PARENTHESES.search, "step time  (ms) ", ("ms",)),
        (pairs._CELL.search, "| loss | step time  | ", ("step time",)),
        (pattern._VALUE.search, "'time' : '", ()),
        (
            special._SAMPLES.search,
            "epoch=0/1, global_step=7, RunningAvgSamplesPerSec=x, CurrSamplesPerSec=2.5, ",
            ("1", "2.5"),
        ),
        (explained._NODE.match, "mul: f32[8, 8] = torch.mul()", ("mul",)),
        (explained._NODE.match, "mul = torch.mul()", ("mul",)),
    ],
)
def test_they_find_what_they_found(searched, text, groups):
    assert searched(text).groups() == groups
