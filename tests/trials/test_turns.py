"""The order of the trials, how many rounds a difference needs, and what is built from winners."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.trials.build import run
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.trials.measured import compare_runs
from traceanalyzer.trials.result import run_of
from traceanalyzer.trials.session import Options, TrialSession, command_of
from traceanalyzer.trials.turns import Turns


class Runs:
    """A session that knows how long each combination takes."""

    def __init__(self, steps, afford=True):
        self.steps = steps
        self.asked = []
        self.afford = afford

    model_draws = False

    def numerics(self, rows):
        return [row.numerics for row in rows]

    def affords(self, switches, runs=1):
        return self.afford

    def run(self, switches=(), seed=1, nudge=0.0, *, redrawn=False, as_eager=False):
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
    ("set_to_none", "fused_optimizer"): 9.0,
    ("compile", "tf32", "fused_optimizer"): 4.0,
}


def _turns(**times):
    runs = Runs({**TIMES, **times})
    return runs, Turns(runs, [run(), run()])


def test_each_switch_runs_once_at_first():
    runs, turns = _turns()
    trial = turns.screen("compile")
    assert runs.asked == [("compile",)]
    assert trial.won
    assert trial.sure
    assert trial.gain == 0.5
    assert not turns.screen("gc_freeze").won
    assert not turns.screen("set_to_none").won
    assert turns.screen("channels_last").failed == "ran out of memory"
    assert len(runs.asked) == 4


def test_one_fast_run_of_many_without_a_switch_does_not_end_its_trial():
    runs = Runs(TIMES | {("fused_optimizer",): 8.0})
    turns = Turns(runs, [run(ms=ms) for ms in (10.0, 10.2, 7.0, 9.9)])
    trial = turns.in_turns(("fused_optimizer",), ())
    assert trial.runs == 2
    assert not turns.in_turns(("gc_freeze",), ()).won
    assert runs.asked == [("fused_optimizer",), ("fused_optimizer",), (), ("gc_freeze",)]


def test_what_was_faster_runs_in_turns_with_the_unchanged_program():
    runs, turns = _turns()
    final = turns.best_of([turns.screen("compile")])
    assert runs.asked == [("compile",), ("compile",), ()]
    assert final.won
    assert (final.switches, final.runs) == (("compile",), 2)
    assert turns.confirmed == {("compile",): final}


def test_a_small_difference_takes_another_round():
    runs, turns = _turns()
    runs.steps["set_to_none",] = [9.8, 9.8, 9.8, 9.8]
    assert turns.best_of([turns.screen("set_to_none")]).won
    assert runs.asked == [("set_to_none",), ("set_to_none",), (), *[("set_to_none",)] * 2, ()]


def test_a_fast_run_that_is_not_repeated_is_an_accident():
    runs, turns = _turns()
    runs.steps["set_to_none",] = [8.0, *[10.0] * 5]
    final = turns.best_of([turns.screen(name) for name in ("set_to_none", "fused_optimizer")])
    assert final.switches == ("fused_optimizer",)
    assert not turns.confirmed["set_to_none",].won


def test_the_bases_own_difference_is_asked_for_where_a_result_differs():
    runs = Runs(TIMES)
    turns = Turns(runs, [run()])
    runs.run = lambda switches=(), seed=1, nudge=0.0, **asked: run(
        *switches, ms=5.0 if switches else 10.0, factor=1.05 if switches else 1.02
    )
    assert turns.screen("compile").verdict.same


def test_a_switch_that_draws_otherwise_may_differ_as_other_random_numbers_do():
    runs = Runs(TIMES)
    turns = Turns(runs, [run(), run()])

    def answered(switches=(), seed=1, nudge=0.0, *, redrawn=False, as_eager=False):
        runs.asked.append((switches, redrawn, as_eager))
        factor = 1.05 if switches and not as_eager else 1.04 if redrawn else 1.0
        return run(*switches, ms=5.0 if switches else 10.0, factor=factor)

    runs.run = answered
    assert not turns.screen("flash_attention").verdict.same
    assert not turns.screen("compile").verdict.same
    runs.model_draws = True
    del runs.asked[:]
    assert turns.screen("compile").verdict.same
    assert runs.asked == [(("compile",), False, False), (("compile",), False, True)]
    assert turns.screen("flash_attention").verdict.same
    assert not turns.screen("fused_optimizer").verdict.same


def test_nothing_is_asked_of_what_differs_and_is_no_faster():
    runs = Runs(TIMES)
    turns = Turns(runs, [run()])
    runs.run = lambda switches=(), seed=1, nudge=0.0, **asked: run(*switches, ms=10.0, factor=1.5)
    trial = turns.screen("compile")
    assert not trial.won
    assert trial.verdict is None


def test_the_best_combination_is_built_from_the_winners():
    runs, turns = _turns()
    promising = [turns.screen(name) for name in ("tf32", "compile", "fused_optimizer")]
    del runs.asked[:]
    best = turns.best_of(promising)
    both = ("compile", "tf32")
    assert best.switches == both
    in_turns = [("compile",), ()]
    assert runs.asked == [*in_turns, both, (*both, "fused_optimizer"), both, ()]


def test_without_time_what_was_plainly_faster_once_is_the_answer():
    runs, turns = _turns()
    promising = [turns.screen(name) for name in ("tf32", "compile")]
    runs.afford = False
    best = turns.best_of(promising)
    assert (best.switches, best.runs, best.won) == (("compile",), 1, True)


def test_where_it_ends_early_the_best_that_is_sure_is_the_answer():
    _, turns = _turns()
    assert turns.best_known() is None
    for name in ("fused_optimizer", "tf32", "gc_freeze"):
        turns.screen(name)
    assert turns.best_known().switches == ("tf32",)
    turns.screen("compile")
    turns.in_turns(("compile", "tf32"), ("compile",))
    assert turns.best_known().switches == ("compile", "tf32")


def test_runs_that_overlap_are_no_difference():
    without = [run(ms=10.0), run(ms=12.0)]
    found = compare_runs(without, [run(ms=9.0), run(ms=11.0)], rounds=1)
    assert not found.faster
    assert not found.plain
    assert compare_runs(without, [run(ms=9.0), run(ms=11.0)], rounds=3).plain


def test_a_mean_of_steps_that_come_in_bursts_has_its_own_interval(tmp_path):
    series = [1.0, 1.0, 1.0, 37.0] * 10
    timed = {
        "series_ms": series,
        "steps": len(series),
        "timed_steps": len(series),
        "step_time_ms": 1.0,
        "low_ms": 1.0,
        "high_ms": 37.0,
    }
    told = {"whole": True, "steps": 50, "rank": 0, "timed": timed, "peak_bytes": 0}
    told |= {"losses": [], "norms": [], "outputs": [], "weights": {}, "facts": {}, "unit": "step"}
    (tmp_path / "result.rank0.1.json").write_text(json.dumps(told))
    found = run_of(tmp_path, run(), None, 5.0)
    assert (found.low_ms, found.step_ms, found.high_ms) == pytest.approx((6.9, 10.0, 13.1), abs=3)
    assert found.high_ms < 20


def test_a_folder_of_an_earlier_try_is_resumed_or_left_alone(tmp_path):
    (tmp_path / ".runs.jsonl").write_text("")
    (tmp_path / "runs" / "000").mkdir(parents=True)
    session = TrialSession(Options(("true",), tmp_path, 60.0), print)
    with pytest.raises(TraceAnalyzerError, match="--resume"):
        session.begin()
    session.resume()
    assert session._new_folder() == tmp_path / "runs" / "001"


def test_an_earlier_session_knows_its_command(tmp_path):
    command = ("python", "train.py", "--epochs", "2")
    folder = tmp_path / "out"
    with pytest.raises(TraceAnalyzerError, match="no folder of an earlier try"):
        command_of(folder, command)
    TrialSession(Options(command, folder, 60.0), print).begin()
    assert command_of(folder, ()) == command
    assert command_of(folder, command) == command
    with pytest.raises(
        TraceAnalyzerError, match=r"of another command: python train\.py --epochs 2"
    ):
        command_of(folder, ("python", "other.py"))


def test_the_unchanged_program_runs_between_where_its_runs_differ():
    runs = Runs(TIMES | {(): [20.0, 12.0, 11.0]})
    turns = Turns(runs, [run(ms=10.0)])
    first = turns.screen("compile")
    for name in ("tf32", "fused_optimizer", "gc_freeze"):
        turns.screen(name)
    asked = ["compile", "", "tf32", "", "fused_optimizer", "", "gc_freeze"]
    assert [" ".join(one) for one in runs.asked] == asked
    assert turns.unchanged().high_ms == 20.0
    assert turns.against_all(first).found.base == turns.unchanged()
