from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.build import TraceBuilder
from tests.recorded import ROOT, ranks, recording
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest import load
from traceanalyzer.trace import StepAmounts

GIVEN = Knowledge(amounts=StepAmounts(samples=32, tokens=30_000, padded_tokens=40_000, flops=2e12))


def of(name: str, knowledge: Knowledge | None = None) -> Measurements:
    return measured(load(ranks(name)), knowledge=knowledge).critical


def test_work_per_second_of_amounts_that_are_given() -> None:
    m = of("ranks2/ddp_accum_sync.base", GIVEN)
    work = m.throughput
    seconds = m.step.step_ms / 1e3
    assert work is not None
    assert work.source == "given"
    assert work.steps_per_s == pytest.approx(1 / seconds)
    assert work.samples_per_s == pytest.approx(32 / seconds)
    assert work.ms_per_sample == pytest.approx(m.step.step_ms / 32)
    assert (work.tokens_per_s, work.padding_share) == pytest.approx((30_000 / seconds, 0.25))
    assert (work.tflop, work.flops_source) == (2.0, "given")
    assert work.tflops_per_s == pytest.approx(2 / seconds)


def test_the_global_batch_is_replicas_times_micro_batch_times_micro_steps() -> None:
    work = of("ranks2/ddp_accum_sync.base", GIVEN).throughput
    assert work is not None
    assert (work.replicas, work.micro_batch, work.global_batch) == (2, 8.0, 64.0)
    assert work.samples_per_s is not None
    assert work.global_samples_per_s == pytest.approx(2 * work.samples_per_s)


def test_ranks_that_share_their_samples_are_no_replicas() -> None:
    work = of("ranks2/tensor_parallel.base", GIVEN).throughput
    assert work is not None
    assert work.replicas is work.global_batch is work.global_samples_per_s is None
    assert work.samples_per_s is not None


def test_mfu_from_known_operations_is_their_rate_over_the_peak_of_the_format() -> None:
    name = "kineto/gpt_large_batch.base"
    plain = of(name)
    m = of(name, Knowledge(amounts=StepAmounts(flops=1e14)))
    assert m.utilisation is not None
    assert m.utilisation.mfu == pytest.approx(1e14 / (m.step.step_ms / 1e3) / 989.4e12, rel=1e-3)
    assert m.utilisation.sol == pytest.approx(m.roofline_step.ideal_ms / m.step.step_ms)
    assert m.utilisation.room == pytest.approx(1 / m.utilisation.sol)
    own = plain.utilisation
    assert own is not None
    assert own.mfu == pytest.approx(
        plain.roofline_step.mfu * plain.mean_step_ms / plain.step.step_ms
    )
    assert own.attainable_mfu == pytest.approx(own.mfu / own.sol)
    assert own.mfu < own.attainable_mfu < 1


def test_a_peak_of_the_users_own() -> None:
    knowledge = Knowledge(amounts=StepAmounts(flops=1e12), peak_flops_per_s=1e15)
    m = of("kineto/tiny_mlp_infer.base", knowledge)
    assert m.utilisation is not None
    assert m.utilisation.mfu == pytest.approx(1e12 / (m.step.step_ms / 1e3) / 1e15)


def test_what_is_not_known_is_null() -> None:
    work = of("kineto/gpt_large_batch.base").throughput
    assert work is not None
    assert (
        work.samples
        is work.samples_per_s
        is work.tokens_per_s
        is work.global_batch
        is work.source
        is None
    )
    assert work.flops_source == "modelled"


def test_operations_of_the_models_by_a_sum_over_operators() -> None:
    m = of("kineto/gpt_large_batch.base")
    roofline = m.rated.roofline
    steady = m.timed.steady_ops
    total = sum(
        float(f)
        for f, s in zip(roofline.flops.tolist(), steady.tolist(), strict=True)
        if s and f == f
    )
    assert m.throughput is not None
    assert m.throughput.tflop == pytest.approx(total / 1e12 / m.timed.steps.steady_count)


def test_the_loaders_batch_size_times_its_batches() -> None:
    trace = load([recording("kineto/slow_dataloader.base")]).traces[0]
    work = measure(replace(trace, batch_size=32)).throughput
    assert work is not None
    assert (work.source, work.samples) == ("loader", 32.0)


def test_a_batch_is_of_the_step_in_which_it_is_asked_for() -> None:
    """Four steps of 100 us; the last one's two batches come while it runs, one only after its
    end."""
    b = TraceBuilder()
    for i in range(4):
        b.annotation(f"ProfilerStep#{i}", 100 * i, 100 * i + 100).kernel(
            "gemm", 100 * i + 50, 100 * i + 90
        )
        b.annotation(
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100 * i + 1, 100 * i + 20
        )
    b.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 390, 410)
    work = measure(b.build(batch_size=8)).throughput
    assert work is not None
    assert work.samples == 8 * 5 / 4


def captured(folder: Path, **environment: object) -> Measurements:
    """A capture of a recording with this `environment.json`."""
    (folder / "trace.rank0.json.gz").write_bytes(
        recording("kineto/slow_dataloader.base").read_bytes()
    )
    (folder / "environment.json").write_text(json.dumps(environment))
    return measured(load([folder])).critical


def test_amounts_of_a_capture(tmp_path: Path) -> None:
    work = captured(
        tmp_path, step={"samples": 64, "tokens": 4096}, loader={"batch_size": 8}
    ).throughput
    assert work is not None
    assert (work.source, work.samples, work.tokens) == ("environment", 64.0, 4096.0)


@pytest.mark.parametrize("size", [0, -1, True, "8", 1.5, None, 10**30])
def test_a_senseless_batch_size_is_none(tmp_path: Path, size: object) -> None:
    work = captured(
        tmp_path, step={"samples": size, "flops": float("nan")}, loader={"batch_size": size}
    ).throughput
    assert work is not None
    assert work.samples in (None, 1.5)


def test_a_log_keeps_tokens_and_padding(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    line = {"iter_ms": 20.0, "samples": 8, "tokens": 900, "padded_tokens": 1200, "flops": 3e12}
    log.write_text("".join(json.dumps({"step": i, **line}) + "\n" for i in range(30)))
    work = measured(load([log])).critical.throughput
    assert work is not None
    assert (work.source, work.samples_per_s, work.tokens_per_s) == (
        "log",
        pytest.approx(400),
        pytest.approx(45_000),
    )
    assert (work.padding_share, work.tflops_per_s) == pytest.approx((0.25, 150.0))
    assert work.global_batch is None


def test_rates_of_a_log_that_names_no_amounts() -> None:
    critical = measured(load([ROOT / "tests" / "data" / "timing" / "torchtitan.log"])).critical
    assert critical.timing is not None
    assert critical.throughput is not None
    assert critical.throughput.tokens_per_s == critical.timing.tokens_per_s
