"""Remedies whose trigger is all that they have: offered where the thing is, silent where it is
not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import traceanalyzer as ta
from tests.analysis.build import TraceBuilder
from tests.analysis.collectives import GEMM, Ranked
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies.advice import looked_at, predictions
from traceanalyzer.diagnosis.remedies.communication import smaller_buckets
from traceanalyzer.diagnosis.remedies.kernels import pad_shapes
from traceanalyzer.diagnosis.rules.idle import unexplained
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
MILLION = 1_000_000


@pytest.mark.parametrize(("millions", "offered"), [(20, True), (6, False)])
def test_buckets_of_ddp_are_made_smaller_where_they_are_larger_than_usual(
    millions: int, offered: bool
) -> None:
    b = Ranked()
    for step in range(4):
        t = step * 1000.0
        b.op("DistributedDataParallel.forward", t, t + 10)
        b.launched(GEMM, t + 20, t + 300, t + 2)
        b.collective(t + 300, t + 500, t + 12, elements=millions * MILLION)
        b.annotation(f"ProfilerStep#{step}", t, t + 600)
    offer = smaller_buckets.offer(measure(b.trace(0, 2)))
    assert (offer is not None) == offered
    assert offer is None or "bucket_cap_mb=25" in offer.action.pytorch


@pytest.mark.parametrize(("sample", "odd"), [("wasteful_kernels", True), ("compute_bound", False)])
def test_odd_sizes_are_padded(sample: str, odd: bool) -> None:
    m = measured(ta.load(SAMPLES / sample)).critical
    tape = make_tape(m.rated)
    offer = pad_shapes.offer(m)
    assert tape is not None
    assert offer is not None
    changed = offer.scenario.change(tape)
    assert (changed is not None) == odd
    assert changed is None or step_time_ns(changed) < step_time_ns(tape)


@pytest.mark.parametrize(("pause", "found"), [(50, ["idle-unexplained"]), (0, [])])
def test_pauses_without_anything_on_the_host_are_not_explained(
    pause: int, found: list[str]
) -> None:
    b = TraceBuilder()
    for step in range(4):
        t = step * 100.0
        b.kernel(GEMM, t, t + 50 - pause / 2, 0).kernel(GEMM, t + 50 + pause / 2, t + 100, 0)
        b.annotation(f"ProfilerStep#{step}", t, t + 100)
    m = measure(b.build())
    assert [draft.id for draft in unexplained(m, np.ones(8, bool))] == found


@pytest.mark.parametrize(
    ("sample", "small"),
    [("wasteful_kernels", ["cuda_graph 2.3% (advised from 5%)"]), ("launch_bound", [])],
)
def test_what_gains_too_little_is_named_with_what_it_would_gain(
    sample: str, small: list[str]
) -> None:
    notes = [
        note
        for note in predictions(ta.load(SAMPLES / sample)).notes
        if note.startswith("Looked at")
    ]
    assert notes == [f"Looked at, gains too little: {one}." for one in small]


def test_what_was_looked_at_is_told_where_nothing_is_advised() -> None:
    def looking(folder: str) -> str:
        return looked_at(measured(ta.load(RECORDINGS / folder)).critical)

    assert looking("ranks2/straggler.fix.rank0.json.gz").startswith("Looked at, gains too little")
    assert looking("kineto/tiny_mlp_infer.base.json.gz") == ""


def test_a_scenario_has_the_mfu_of_as_many_operations_in_its_time() -> None:
    m = measured(ta.load(SAMPLES / "wasteful_kernels")).critical
    assert m.utilisation is not None
    assert m.utilisation.mfu is not None
    found = {one.id: one for one in predictions(ta.load(SAMPLES / "wasteful_kernels")).scenarios}
    assert found["pad_shapes"].step_ms == pytest.approx(5.33, abs=0.01)
    assert found["pad_shapes"].mfu == pytest.approx(m.utilisation.mfu * 6.96 / 5.33, rel=0.005)
    assert found["low_precision"].mfu is None
