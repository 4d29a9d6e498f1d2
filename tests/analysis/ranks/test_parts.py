"""Recordings of one capture one after the other are pooled: the middle one, with all steps beside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.ranks.test_compare import rank_trace
from traceanalyzer.analysis.ranks.parts import pooled
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.trace import Run


def recorded(part, step, rank=0, world=1):
    name = "" if part == 1 else f".part{part}"
    epoch = 1_700_000_000_000_000_000 + part * 60_000_000_000
    trace = rank_trace(rank, compute=300, step=step, world=world, ranks=world, epoch=epoch)
    return replace(trace, path=f"out/trace.rank{rank}{name}.json.gz")


def test_of_three_parts_the_middle_one_is_told_with_the_spread_of_all():
    parts = [recorded(1, 1000), recorded(2, 1100), recorded(3, 1040)]
    found = measured(Run(tuple(parts)))
    assert [trace.path for trace in found.run.traces] == ["out/trace.rank0.part3.json.gz"]
    (note,) = [text for text in found.ranks.notes if "one after the other" in text]
    assert "3 recordings" in note
    assert "mean steps 1, 1.1, 1.04 ms, 10% apart" in note
    assert "not of one run" not in " ".join(found.ranks.notes)


@pytest.mark.parametrize(
    "traces",
    [
        [recorded(1, 1000)],
        [recorded(1, 1000, 0, 2), recorded(1, 1000, 1, 2)],
        [recorded(1, 1000, 0, 2), recorded(2, 1000, 1, 2)],  # not the same ranks
    ],
)
def test_ranks_are_no_parts(traces):
    assert pooled(traces, lambda _: [1.0, 1.0]) is None
