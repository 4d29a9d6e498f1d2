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


def test_one_base_run_does_not_say_what_two_differ_by():
    why = compare(run("x", factor=1.031), [run()], [Numerics.ORDER]).why
    assert re.fullmatch(r"loss at step \d differs by 3.10 %, only one base run", why)


def test_a_base_that_differs_from_run_to_run_allows_three_times_that():
    noisy = [run(), run(factor=1.02)]
    assert compare(run("x", factor=1.05), noisy, [Numerics.EXACT]).same
    assert not compare(run("x", factor=1.1), noisy, [Numerics.EXACT]).same


def test_a_switch_that_draws_otherwise_may_differ_as_another_seed_does():
    other = run(factor=1.8, seed=2)
    trial = run("x", factor=2.5)
    assert not compare(trial, BASES, [Numerics.DRAWN]).same
    assert compare(trial, BASES, [Numerics.DRAWN], [other]).same


def _changed(**values):
    base = run()
    return replace(base, ranks=[replace(base.ranks[0], **values)])


@pytest.mark.parametrize("kind", [Numerics.ORDER, Numerics.TF32, Numerics.HALF])
@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"gradients": [[6.0, 8.0, 0.02], [4.0, 6.0, 0.02]]},
            "gradient at step 1 differs by 100.00 %",
        ),
        (
            {"gradients": [[3.0, 4.0, 0.0], [2.0, 3.0, 0.01]]},
            "gradient of weight 3 at step 1 is missing",
        ),
        ({"gradients": [[3.0, 4.0, 0.02]]}, "gradient of weight 3 at step 1 differs by 100.00 %"),
        ({"gradients": []}, "number of calls of the optimizer at step 0 is 0 instead of 2"),
        (
            {"rates": [[0.9, 0.999, 1e-3], [0.9, 0.999, 9.001e-4]]},
            "learning rate, or another number of the optimizer, at step 2 differs by 0.01 %",
        ),
        ({"buffers": {"1": [0.0, 0.0, 0.0, 0.0]}}, "update of the running statistics at step 1"),
    ],
)
def test_what_the_loss_does_not_show_is_refused_under_any_precision(kind, values, why):
    verdict = compare(_changed(**values), BASES, [kind])
    assert not verdict.same
    assert why in verdict.why


def test_a_gradient_that_rounding_decides_is_not_compared():
    noise = [[3.0, 4.0, 0.02], [2.0, 3.0, 0.01]]
    trial = _changed(gradients=[[3.0, 4.0, 0.03], [2.0, 3.0, 0.01]])
    assert not compare(trial, BASES, [Numerics.ORDER]).same
    assert compare(trial, BASES, [Numerics.ORDER], nudged=_changed(gradients=noise)).same


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"gradients": [[3.0, 4.0, 0.0], [2.0, 3.0, 0.01]]}, "gradient of weight 3 at step 1"),
        ({"rates": [[0.9, 0.999, 2e-3]]}, "learning rate"),
        ({"buffers": {"1": [0.0, 0.0, 0.0, 0.0]}}, "buffers at step 1 have not moved"),
        ({"weights": {"5": [0.0, 0.0, 0.0, 0.0]}}, "weights at step 5 have not moved"),
        # the base's largest step from one loss to the next is a third
        ({"losses": [5.0, 4.0, 3.0, 3.0, 3.0]}, "loss at step"),
    ],
)
def test_other_data_explain_other_gradients_and_not_that_there_are_none(values, why):
    verdict = compare(_changed(**values), BASES, [Numerics.DRAWN])
    assert not verdict.same
    assert why in verdict.why


def test_a_stream_in_another_order_is_allowed_what_the_next_batch_brings():
    reordered = _changed(losses=[1.5, 2.0, 1.0, 1.2, 0.9], gradients=[[2.0, 5.0, 0.01]] * 2)
    assert compare(reordered, BASES, [Numerics.DRAWN]).same
    assert not compare(reordered, BASES, [Numerics.ORDER]).same


def test_a_gradient_that_rounding_has_reached_is_left_out_from_then_on():
    base = [[3.0, 4.0, 1.0]] * 3
    nudged = [[3.0, 4.0, 1.0], [3.0, 4.0, 1.004], [3.0, 4.0, 1.0]]
    trial = [[3.0, 4.0, 1.0], [3.0, 4.0, 1.02], [3.0, 4.0, 1.06]]
    bases = [_changed(gradients=base)]
    decided = _changed(gradients=nudged)
    assert not compare(_changed(gradients=trial), bases, [Numerics.ORDER]).same
    assert compare(_changed(gradients=trial), bases, [Numerics.ORDER], nudged=decided).same
    early = [[3.0, 4.0, 1.06], *trial[1:]]
    assert not compare(_changed(gradients=early), bases, [Numerics.ORDER], nudged=decided).same


def test_a_loader_that_makes_other_batches_is_refused():
    facts = {"loaders": [{"batch_size": 8, "drop_last": False, "num_workers": 0}]}
    other = {"loaders": [{"batch_size": 8, "drop_last": True, "num_workers": 4}]}
    verdict = compare(run("x", facts=other), [run(facts=facts)], [Numerics.DRAWN])
    assert verdict.why == "its DataLoader has drop_last=True instead of False"
    workers = {"loaders": [{"batch_size": 8, "drop_last": False, "num_workers": 4}]}
    assert compare(run("x", facts=workers), [run(facts=facts)], [Numerics.DRAWN]).same


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
