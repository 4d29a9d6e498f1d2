"""What is tried on top of a combination: other values, and what showed nothing before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.trials.build import GPU
from tests.trials.build import run as built
from tests.trials.test_turns import Runs
from traceanalyzer.trials.refine import Refinement
from traceanalyzer.trials.switches import excluded, switch_named, with_other_values
from traceanalyzer.trials.turns import Turns
from traceanalyzer.trials.workers import more_than_now, other_counts, workers_needed

IO_BOUND = {"step_ms": 42.0, "loading_ms": 40.0, "cpu_ms": 3.0, "loading_cpu_ms": 1.0}
CPU_BOUND = {"step_ms": 42.0, "loading_ms": 40.0, "cpu_ms": 42.0, "loading_cpu_ms": 40.0}
CPU = replace(GPU, gpu=False, cpus=2)
WAITS = replace(CPU, loading=IO_BOUND)
COMPUTES = replace(CPU, loading=CPU_BOUND)


class Steps(Runs):
    """Each combination takes what a function says; what has run once takes that again."""

    def __init__(self, step_ms):
        super().__init__({})
        self.step_ms = step_ms

    def run(self, switches=(), seed=1, nudge=0.0, **asked):
        self.steps[tuple(switches)] = self.step_ms(tuple(switches))
        return super().run(switches, seed, nudge, **asked)


def _workers(switches):
    name = next((one for one in switches if one.startswith("loader_workers")), None)
    return switch_named(name).value(WAITS) if name else 0


def _refined(step_ms, best, possible=(), gain=0.5):
    runs = Steps(step_ms)
    turns = Turns(runs, [built(), built()])
    for name in possible:
        turns.screen(name)
    del runs.asked[:]
    refinement = Refinement(runs, turns, WAITS, lambda best: possible)
    return refinement.refined(best, gain), runs, refinement


def test_workers_make_batches_as_fast_as_the_rest_of_the_step_takes_them():
    # 40 ms of waiting in the 2 ms that the rest computes, and a quarter to spare
    assert workers_needed(WAITS) == 25
    # two CPUs make 42 ms of work in 21 ms: two workers and a quarter
    assert workers_needed(COMPUTES) == 3
    # sixteen make it in 2.6 ms
    assert workers_needed(replace(COMPUTES, cpus=16)) == 20
    # its rest takes longer as something else runs beside it
    busy = IO_BOUND | {"step_ms": 140.0}
    assert workers_needed(replace(CPU, loading=busy)) == 25
    # on a GPU the rest is what the host waits for
    assert workers_needed(replace(GPU, loading=busy)) == 2
    assert workers_needed(replace(GPU, cpus=64, ranks=8)) == 8
    assert workers_needed(replace(CPU, loading=IO_BOUND | {"loading_ms": 41.9})) == 32


def test_workers_that_the_step_waits_for_become_more():
    loaders = [{"num_workers": 4}]
    waiting = replace(GPU, loaders=loaders, loading={"step_ms": 10.0, "loading_ms": 8.0})
    # four of them busy for 10 ms, of which the rest takes 2
    assert workers_needed(waiting) == 25
    keeping_up = replace(waiting, loading={"step_ms": 10.0, "loading_ms": 0.1})
    assert more_than_now(keeping_up) == 8


def test_more_workers_than_cpus_are_tried_where_batches_wait():
    assert other_counts(WAITS, 25) == [50, 12]
    assert other_counts(COMPUTES, 3) == [1]
    assert other_counts(WAITS, 1) == [2]


def test_another_value_has_a_name_of_its_own():
    assert with_other_values("loader_workers", WAITS) == ["loader_workers=50", "loader_workers=12"]
    assert with_other_values("compile", WAITS) == []
    assert switch_named("loader_workers=12").value(GPU) == 12
    assert switch_named("loader_workers=12").id == "loader_workers=12"
    assert excluded("more_loader_workers", ["loader_workers=12"])
    assert excluded("loader_workers", ["loader_workers=12"])
    assert not excluded("compile", ["loader_workers=12"])


@pytest.mark.parametrize(
    ("fastest", "tried"),
    [
        (25, ["loader_workers=50", "loader_workers=12"]),
        (12, ["loader_workers=50", "loader_workers=12", "loader_workers=24", "loader_workers=6"]),
        (50, ["loader_workers=50", "loader_workers=25"]),
    ],
)
def test_a_setting_moves_as_long_as_that_makes_the_step_shorter(fastest, tried):
    best, runs, _ = _refined(
        lambda switches: 2.0 + abs(_workers(switches) - fastest) / 10, ("loader_workers",)
    )
    assert _workers(best) == fastest
    asked = dict.fromkeys(one for (one,) in runs.asked if one != "loader_workers")
    assert set(asked) <= set(tried) | {"loader_workers=25"}


def test_what_showed_nothing_is_tried_on_top_and_the_workers_again():
    def step_ms(switches):
        fastest = 12 if "one_thread" in switches else 25
        return (5.0 if "one_thread" in switches else 8.0) + abs(_workers(switches) - fastest) / 10

    best, _, refinement = _refined(step_ms, ("loader_workers",), ["gc_freeze", "one_thread"])
    assert best == ("loader_workers=12", "one_thread")
    on_top = [set(trial.switches) - set(trial.without) for trial in refinement.trials]
    assert {"one_thread"} in on_top
    assert {"gc_freeze"} in on_top


def test_a_small_gain_has_not_moved_what_holds_the_step_up():
    best, runs, _ = _refined(lambda switches: 8.0, ("compile",), ["one_thread"], gain=0.1)
    assert (best, runs.asked) == (("compile",), [])


def test_nothing_is_tried_without_time():
    runs = Steps(lambda switches: 1.0)
    runs.afford = False
    turns = Turns(runs, [built(), built()])
    refinement = Refinement(runs, turns, WAITS, lambda best: ["one_thread"])
    assert refinement.refined(("loader_workers",), 0.5) == ("loader_workers",)
    assert runs.asked == []
