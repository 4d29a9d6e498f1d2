"""Whether a result is the same: against the base's own difference, and what a switch explains."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from tests.trials.build import run
from traceanalyzer.trials.result import RankResult
from traceanalyzer.trials.same import compare
from traceanalyzer.trials.switch import Numerics, ProgramFacts

BASES = [run(), run()]


@pytest.mark.parametrize(
    ("kind", "factor", "same", "numerics"),
    [
        (Numerics.EXACT, 1.0, True, False),
        (Numerics.EXACT, 1.0001, False, False),
        (Numerics.ORDER, 1.0001, True, False),
        (Numerics.ORDER, 1.03, False, False),
        (Numerics.HALF, 1.01, True, True),
        (Numerics.HALF, 1.05, False, False),
    ],
)
def test_a_kind_of_switch_explains_so_much(kind, factor, same, numerics):
    verdict = compare(run("x", factor=factor), BASES, [kind])
    assert (verdict.same, verdict.numerics) == (same, numerics)


def test_what_differs_is_said_with_the_bases_own_difference():
    why = compare(run("x", factor=1.031), [run(), run(factor=1.0002)], [Numerics.ORDER]).why
    assert re.fullmatch(r"loss at step \d differs by 3.08 %, two base runs by 0.02 %", why)


def test_a_base_that_differs_from_run_to_run_allows_three_times_that():
    noisy = [run(), run(factor=1.02)]
    assert compare(run("x", factor=1.05), noisy, [Numerics.EXACT]).same
    assert not compare(run("x", factor=1.1), noisy, [Numerics.EXACT]).same


def test_a_switch_that_draws_otherwise_may_differ_as_another_seed_does():
    other = run(factor=1.1, seed=2)
    trial = run("x", factor=0.9)
    assert not compare(trial, BASES, [Numerics.DRAWN]).same
    assert compare(trial, BASES, [Numerics.DRAWN], [other]).same


def test_an_update_of_another_size_is_seen_where_the_losses_are_the_same():
    base = run()
    (rank,) = base.ranks
    halved = {step: [one / 2 for one in moved] for step, moved in rank.weights.items()}
    trial = replace(base, ranks=[replace(rank, weights=halved)])
    verdict = compare(trial, BASES, [Numerics.ORDER])
    assert verdict.why.startswith("update of the weights at step 1 differs by 50.00 %")


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused(loss):
    base = run()
    trial = replace(base, ranks=[replace(base.ranks[0], losses=[2.0, loss])])
    verdict = compare(trial, BASES, [Numerics.HALF])
    assert not verdict.same
    assert "loss at step 2 is not finite" in verdict.why


def test_a_run_without_losses_or_ranks_that_the_base_has_is_refused():
    base = run()
    assert not compare(replace(base, ranks=[RankResult()]), BASES, [Numerics.HALF]).same
    assert not compare(replace(base, ranks=base.ranks * 2), BASES, [Numerics.HALF]).same


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (ProgramFacts(gpu=True), Numerics.ORDER),
        (ProgramFacts(gpu=True, settings={"autocast": True}), Numerics.HALF),
        (ProgramFacts(models=[{"dtype": "float32"}, {"dtype": "bfloat16"}]), Numerics.HALF),
        (ProgramFacts(gpu=True, settings={"float32_matmul_precision": "high"}), Numerics.TF32),
        (ProgramFacts(settings={"float32_matmul_precision": "high"}), Numerics.ORDER),
        (
            ProgramFacts(
                gpu=True, settings={"cudnn_allow_tf32": True}, models=[{"convolutions": 9}]
            ),
            Numerics.TF32,
        ),
    ],
)
def test_sums_in_another_order_round_as_the_program_does(facts, kind):
    assert facts.rounds_as == kind
