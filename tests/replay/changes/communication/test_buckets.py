"""Gradient buckets of another size, compared with what the same model makes of the recorded
ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.collectives import GEMM, Ranked
from tests.recorded import ranks
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest import load
from traceanalyzer.replay.changes.communication.buckets import (
    BucketSize,
    cost_of,
    rebucketed,
    reduced_bytes,
)
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.scenarios import BUCKETS_HALVED

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements

BUCKET = 250_000
"""Elements of four bytes: 1 MB."""


def small_buckets(*, barrier: bool, waits: int | None = None) -> Measurements:
    """Steps of ten kernels, a bucket of 1 MB behind each that takes 50 us, and where wanted a
    barrier of 40 us; in one step a kernel waits for the third bucket."""
    b = Ranked()
    now = 0.0
    for step in range(6):
        begun = now
        for bucket in range(10):
            at = begun + 100 * bucket
            b.launched(GEMM, at + 20, at + 40, at)
            b.collective(at + 45, at + 95, at + 10, elements=BUCKET, stream=9)
            if step == waits and bucket == 2:
                b.launched(GEMM, at + 96, at + 98, at + 14)
        if barrier:
            b.collective(
                begun + 1010,
                begun + 1050,
                begun + 1000,
                name="barrier",
                kernel="ncclDevKernel_Barrier",
                elements=0,
            )
        now = begun + 1100
        b.call("cudaStreamSynchronize", begun + 1005, now)
        b.annotation(f"ProfilerStep#{step}", begun, now)
    return measure(b.trace(0, 2))


def test_the_latency_of_a_collective_is_taken_from_short_messages() -> None:
    m = small_buckets(barrier=True)
    assert m.replay is not None
    (tape,) = m.replay.typical
    cost = cost_of(tape, reduced_bytes(tape))
    assert cost is not None
    assert cost.latency_ns == pytest.approx(40_000)
    assert cost.of(np.array([4.0 * BUCKET])).tolist() == [50_000]


def test_buckets_of_one_size_alone_do_not_tell() -> None:
    m = small_buckets(barrier=False)
    assert m.replay is not None
    (tape,) = m.replay.typical
    assert cost_of(tape, reduced_bytes(tape)) is None
    assert "would" in m.replay.predict(BUCKETS_HALVED).basis


def test_larger_buckets_have_the_latency_once() -> None:
    m = small_buckets(barrier=True)
    assert m.replay is not None
    (tape,) = m.replay.typical
    larger = rebucketed(BucketSize(bytes=10 * 4 * BUCKET))(tape)
    assert larger is not None
    spent = larger.duration[larger.communication].sum() / larger.steps / 1e3
    assert spent == pytest.approx(40 + 40 + 10 * 10)


def test_what_a_kernel_seems_to_wait_for_between_buckets_in_one_step_is_chance() -> None:
    m = small_buckets(barrier=True, waits=4)
    assert m.replay is not None
    (tape,) = m.replay.typical
    changed = rebucketed(None)(tape)
    assert changed is not None
    awaited = [
        int(
            (
                one.communication[one.dependencies.awaited]
                & one.compute
                & (one.dependencies.awaited >= 0)
            ).sum()
        )
        for one in (tape, changed)
    ]
    assert awaited == [1, 0]


def test_what_waits_for_a_bucket_in_one_step_alone_does_not_keep_buckets_apart() -> None:
    plain = small_buckets(barrier=True)
    other = small_buckets(barrier=True, waits=4)
    counts = []
    for m in (plain, other):
        assert m.replay is not None
        larger = rebucketed(BucketSize(bytes=10 * 4 * BUCKET))(m.replay.typical[0])
        assert larger is not None
        counts.append(int((larger.communication & (larger.duration > 0)).sum()))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "run", ["ranks2/ddp_accum_sync.base", "pairs/buckets_small.base", "pairs/reduce_after.base"]
)
def test_the_recorded_buckets_gain_nothing(run: str) -> None:
    replay = measured(load(ranks(run))).critical.replay
    assert replay is not None
    recorded = rebucketed(None)
    same = Scenario("same", recorded, "", may_cost=True, baseline=recorded)
    assert replay.step_under_ms(same) == pytest.approx(replay.base_ms)
