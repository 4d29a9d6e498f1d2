"""More or fewer ranks."""

from __future__ import annotations

import pytest

from tests.analyzed import measurements
from tests.recorded import CASES, ranks, recording
from traceanalyzer.diagnosis.unmade import known_of
from traceanalyzer.replay.unmade.answer import Unmade, predicted
from traceanalyzer.replay.unmade.question import QuestionError, question_of
from traceanalyzer.replay.unmade.ranks import transfer_ns
from traceanalyzer.trace.hardware import HardwareTable

H200 = next(gpu for gpu in HardwareTable().gpus if gpu.name == "H200 SXM")
MB = 2**20


@pytest.mark.parametrize(
    ("count", "size", "measured_us"),
    [(2, 64 * MB, 248), (2, 1024 * MB, 3228), (4, 64 * MB, 328), (4, 1024 * MB, 4538)],
)
def test_the_message_curve_against_two_and_four_gpus(
    count: int, size: int, measured_us: float
) -> None:
    """Measured with NCCL between H200s of one host."""
    assert transfer_ns("all_reduce", size, count, H200) / 1e3 == pytest.approx(
        measured_us, rel=0.15
    )


def test_beyond_a_node_the_network_carries_messages() -> None:
    """Bus bandwidths that others measured with nccl-tests (`OF_PORTS`)."""
    size = 8192 * MB
    for count in (16, 64, 1984):
        gbs = size * 2 * (count - 1) / count / transfer_ns("all_reduce", size, count, H200)
        assert 216 < gbs < 350
    assert transfer_ns("all_reduce", size, 16, H200) > transfer_ns("all_reduce", size, 8, H200)


def test_what_goes_from_one_gpu_to_another_has_its_own_port() -> None:
    apart = transfer_ns("all_to_all", 1024 * MB, 64, H200)
    assert 1024 * MB * 63 / 64 / apart == pytest.approx(45, rel=0.05)


def test_a_job_of_more_ranks_is_told_with_the_rates_of_all_of_them() -> None:
    known = known_of(measurements(recording("kineto/gpt_large_batch.base")).critical)
    one = predicted(known, question_of(ranks=1), 3.0)
    eight = predicted(known, question_of(ranks=8), 3.0)
    assert eight.samples_per_s == pytest.approx(8 * one.samples_per_s * one.step_ms / eight.step_ms)
    assert eight.work_gain == pytest.approx(8 * eight.now_ms / eight.step_ms)
    longer = eight.step_ms / one.step_ms
    assert eight.price_per_million_tokens == pytest.approx(one.price_per_million_tokens * longer)


def test_rows_of_a_matrix_are_no_samples() -> None:
    made = asked("ranks2/ddp_accum_sync.base", 8)
    assert made.samples_per_s is None
    assert made.ms_per_sample is None
    assert made.work_gain == pytest.approx(4 * made.now_ms / made.step_ms)
    known = known_of(measurements(*ranks("ranks2/ddp_accum_sync.base")).critical)
    assert "no price" in predicted(known, question_of(ranks=8), 3.0).basis[-1]


def asked(name: str, count: int) -> Unmade:
    known = known_of(measurements(*ranks(name)).critical)
    return predicted(known, question_of(ranks=count))


def test_gradients_take_longer_over_more_ranks() -> None:
    name = "ranks2/ddp_accum_sync.base"
    steps = [asked(name, count).step_ms for count in (1, 2, 4, 8, 16)]
    assert steps == sorted(steps)
    assert steps[1] == pytest.approx(CASES[name]["step_ms_unprofiled"], rel=0.1)


def test_ranks_that_split_layers_are_refused() -> None:
    with pytest.raises(QuestionError, match="split each layer"):
        asked("ranks2/tensor_parallel.base", 4)


def test_one_rank_gets_the_buckets_of_ddp() -> None:
    known = known_of(measurements(recording("kineto/gpt_large_batch.base")).critical)
    made = predicted(known, question_of(ranks=2))
    assert 1.0 < made.step_ms / made.now_ms < 1.2
    assert "in 67 buckets" in made.basis[-1]


def test_one_rank_that_does_not_train_is_refused() -> None:
    known = known_of(measurements(recording("kineto/tiny_mlp_infer.base")).critical)
    with pytest.raises(QuestionError, match="without a backward pass"):
        predicted(known, question_of(ranks=2))
