"""Predictions of real recordings, next to the stopwatch where there is one."""

from __future__ import annotations

from functools import cache

import pytest

from tests.analyzed import measurements
from tests.recorded import CASES, recording
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.diagnosis.remedies.kernels import IN_BF16, TF32
from traceanalyzer.diagnosis.unmade import known_of
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.unmade.answer import Known, Unmade, predicted
from traceanalyzer.replay.unmade.question import Question, QuestionError, question_of


@cache
def known(name: str) -> Known:
    return known_of(measurements(recording(name)).critical)


def asked(name: str, price: float | None = None, **settings: str) -> Unmade:
    return predicted(known(name), question_of(**settings), price)  # type: ignore[arg-type]


def test_as_recorded_is_the_step_without_the_profiler() -> None:
    name = "kineto/gpt_large_batch.base"
    made = predicted(known(name), Question())
    assert made.step_ms == pytest.approx(made.now_ms, rel=1e-6)
    assert made.low_ms < made.step_ms < made.high_ms
    assert (made.batch, made.length) == (8, 2048)


@pytest.mark.parametrize(
    ("name", "precision", "other"),
    [
        ("kineto/gemm_fp32.base", "tf32", "kineto/gemm_fp32.fix"),
        ("kineto/gemm_fp32.fix", "fp32", "kineto/gemm_fp32.base"),
    ],
)
def test_another_format_against_the_stopwatch(name: str, precision: str, other: str) -> None:
    made = asked(name, precision=precision)
    true_ms = CASES[other]["step_ms_unprofiled"]
    assert made.step_ms == pytest.approx(true_ms, rel=0.1)
    assert made.low_ms <= true_ms <= made.high_ms


@pytest.mark.parametrize(
    ("name", "precision", "advised"),
    [
        ("kineto/gemm_fp32.base", "bf16", IN_BF16),
        ("kineto/gemm_fp32.base", "tf32", TF32),
        ("kineto/gemm_fp32.fix", "bf16", IN_BF16),
    ],
)
def test_another_format_is_predicted_as_advice_has_it(
    name: str, precision: str, advised: Scenario
) -> None:
    made = asked(name, precision=precision)
    promised = known(name).replay.predict(advised)
    assert (made.step_ms, made.low_ms, made.high_ms) == pytest.approx(
        (promised.step_ms, promised.low_ms, promised.high_ms)
    )


def test_products_in_16_bits_are_not_predicted_in_16_bits() -> None:
    with pytest.raises(QuestionError, match="already"):
        asked("kineto/gpt_large_batch.base", precision="bf16")


def test_a_batch_against_the_stopwatch() -> None:
    small = asked("kineto/vit_small_batch.base", batch="64")
    # of the step now, which a trace alone does not tell better than its host allows
    true_ms, now_ms = (
        CASES[f"kineto/vit_small_batch.{which}"]["step_ms_unprofiled"] for which in ("fix", "base")
    )
    assert small.low_ms / small.now_ms <= true_ms / now_ms <= small.high_ms / small.now_ms
    assert small.bottleneck.startswith("launches")
    assert small.gpu_limit_from is not None
    assert small.gpu_limit_from > 64


def test_the_bottleneck_is_what_the_step_is_shortest_without() -> None:
    """On a slower GPU its own work is longer than what the host does between launches."""
    made = asked("kineto/python_between_ops.base", gpu="T4")
    assert made.bottleneck.startswith("GPU compute")
    loading = asked("kineto/slow_dataloader.base", gpu="V100")
    assert loading.bottleneck.startswith("input")


def test_a_step_of_the_gpu_goes_with_the_batch() -> None:
    made = asked("kineto/gpt_large_batch.base", batch="2x", price=2.0)
    assert 1.8 < made.step_ms / made.now_ms < 2.0
    assert made.batch == 16
    assert made.tokens_per_s == pytest.approx(16 * 2048 / made.step_ms * 1e3)
    hours = made.step_ms / 1e3 / 3600
    assert made.price_per_million_tokens == pytest.approx(2.0 * hours / (16 * 2048) * 1e6)
    assert made.bottleneck.startswith("GPU")


def test_advice_of_a_larger_batch_is_the_same_prediction() -> None:
    name = "kineto/gpt_large_batch.base"
    advice = {one.remedy.id: one for one in advise(measurements(recording(name)).critical)}
    double = advice["larger_batch"].prediction
    assert double.step_ms == pytest.approx(asked(name, batch="2x").step_ms / 2, rel=0.01)


@pytest.mark.parametrize("name", ["kineto/vit_small_batch.base", "kineto/tiny_mlp_infer.base"])
def test_a_batch_that_is_advised_has_one_range(name: str) -> None:
    advice = {one.remedy.id: one for one in advise(measurements(recording(name)).critical)}
    each = advice["larger_batch"].prediction
    whole = asked(name, batch="8x")
    assert whole.low_ms == pytest.approx(8 * each.low_ms, rel=0.02)
    assert whole.high_ms == pytest.approx(8 * each.high_ms, rel=0.02)


def test_a_larger_batch_takes_no_less_than_today_and_than_the_gpu_works() -> None:
    name = "kineto/vit_small_batch.base"
    least = known(name).replay.range_ms[0]
    made = [asked(name, batch=f"{times}x") for times in (1, 2, 8, 32)]
    assert all(one.low_ms >= min(least, one.step_ms) for one in made)
    assert all(one.low_ms >= 0.9 * one.gpu_ms for one in made)
    works = [one.gpu_ms for one in made]
    assert works == sorted(works)
    assert works[-1] > 2 * works[0]


def test_another_gpu_changes_what_the_memory_limits() -> None:
    here = predicted(known("kineto/adam_big.base"), Question())
    slower = asked("kineto/adam_big.base", gpu="H100")
    assert 1.05 < slower.step_ms / here.step_ms < 1.45


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("kineto/gemm_fp32.base", {"length": "2x"}, "no operator takes sequences"),
        ("kineto/gemm_fp32.base", {"precision": "fp32"}, "in fp32 already"),
        ("kineto/gemm_fp32.base", {"gpu": "Wonder 9"}, "no such GPU"),
        ("nsys/tiny_mlp_infer.base", {"batch": "2x"}, "no shapes"),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_line(
    name: str, settings: dict[str, str], why: str
) -> None:
    with pytest.raises(QuestionError, match=why) as error:
        asked(name, **settings)
    assert "\n" not in str(error.value)
