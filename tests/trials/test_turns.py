"""The order of the trials, how many rounds a difference needs, and what is built from winners."""

from __future__ import annotations

from dataclasses import replace

from tests.trials.build import run
from traceanalyzer.trials.measured import compare_runs
from traceanalyzer.trials.turns import Turns


class Runs:
    """A session that knows how long each combination takes."""

    def __init__(self, steps, afford=True):
        self.steps = steps
        self.asked = []
        self.afford = afford

    def affords(self, switches, runs=1):
        return self.afford

    def run(self, switches=(), seed=1, nudge=0.0):
        self.asked.append(tuple(switches))
        found = self.steps[tuple(switches)]
        if isinstance(found, str):
            return replace(run(*switches), failed=found)
        ms = found.pop(0) if isinstance(found, list) else found
        return run(*switches, ms=ms)


TIMES = {
    (): 10.0,
    ("compile",): 5.0,
    ("tf32",): 8.0,
    ("fused_optimizer",): 9.0,
    ("set_to_none",): 10.0,
    ("gc_freeze",): 12.0,
    ("channels_last",): "ran out of memory",
    ("compile", "tf32"): 4.0,
    ("compile", "tf32", "fused_optimizer"): 4.0,
}


def _turns(**times):
    runs = Runs({**TIMES, **times})
    return runs, Turns(runs, [run(), run()])


def test_a_plain_difference_takes_one_round():
    runs, turns = _turns()
    trial = turns.one(("compile",))
    assert runs.asked == [("compile",), ("compile",), ()]
    assert trial.won
    assert trial.found.gain == 0.5


def test_a_small_difference_takes_another_round():
    runs, turns = _turns()
    runs.steps["set_to_none",] = [9.8, 9.8, 9.8, 9.8]
    assert turns.one(("set_to_none",)).won
    assert runs.asked == [("set_to_none",), ("set_to_none",), ()] * 2


def test_what_is_slower_runs_once_and_what_fails_is_a_row():
    runs, turns = _turns()
    assert not turns.one(("gc_freeze",)).won
    assert turns.one(("channels_last",)).failed == "ran out of memory"
    assert runs.asked == [("gc_freeze",), ("channels_last",)]


def test_the_bases_own_difference_is_asked_for_where_a_result_differs():
    runs = Runs(TIMES)
    turns = Turns(runs, [run()])
    runs.run = lambda switches=(), seed=1, nudge=0.0: run(
        *switches, ms=5.0, factor=1.05 if switches else 1.02
    )
    assert turns.one(("compile",)).verdict.same


def test_no_difference_is_no_win():
    _, turns = _turns()
    assert not turns.one(("set_to_none",)).won


def test_the_best_combination_is_built_from_the_winners():
    runs, turns = _turns()
    won = [turns.one((name,)) for name in ("tf32", "compile", "fused_optimizer")]
    best, tried = turns.together(won)
    assert best == ("compile", "tf32")
    assert [trial.switches for trial in tried] == [
        ("compile", "tf32"),
        ("compile", "tf32", "fused_optimizer"),
    ]
    runs.afford = False
    assert turns.together(won) == (("compile",), [])


def test_runs_that_overlap_are_no_difference():
    without = [run(ms=10.0), run(ms=12.0)]
    found = compare_runs(without, [run(ms=9.0), run(ms=11.0)], rounds=1)
    assert not found.faster
    assert not found.plain
    assert compare_runs(without, [run(ms=9.0), run(ms=11.0)], rounds=3).plain
