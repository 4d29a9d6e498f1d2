"""Logs in which training goes wrong: a loss that is no number any more, updates left out."""

import json
import math

import numpy as np
import pytest

from traceanalyzer.ingest.timing import read
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import Run

STEPS = 20
LOST_AT = 12


def losses():
    return [4 - 0.1 * step if step < LOST_AT else math.nan for step in range(STEPS)]


def written(tmp_path, name, lines):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


WRITERS = {
    "log.jsonl": lambda step, loss: json.dumps({"step": step, "iter_s": 0.12, "loss": loss}),
    "pairs.log": lambda step, loss: f"step {step} | loss {loss:.4f} | dt 120.00ms",
    "colon.log": lambda step, loss: f"iter {step}: loss: {loss}, time 120.00ms",
    "bar.log": lambda step, loss: (
        f"Epoch 0: {step}%|##   | {step}/20 [00:{step:02d}<00:10, 8.33it/s, loss={loss:.2f}]"
    ),
}


@pytest.mark.parametrize("name", [*WRITERS, "log.csv"])
def test_from_which_step_on_the_loss_is_lost_is_read_of_every_kind_of_log(tmp_path, name):
    if name == "log.csv":
        lines = ["step,loss,iter_s", *(f"{i},{one},0.12" for i, one in enumerate(losses()))]
    else:
        lines = [WRITERS[name](i, one) for i, one in enumerate(losses())]

    (trace,) = read(written(tmp_path, name, lines))

    log = trace.step_timings
    assert len(log) == STEPS
    assert np.isinf(log.loss).tolist() == [step >= LOST_AT for step in range(STEPS)]
    report = build_report(Run((trace,)))
    assert report.metrics.timing.loss is None  # the later half is mostly none
    assert report.metrics.timing.not_finite == STEPS - LOST_AT
    assert report.metrics.timing.loss_lost_at == LOST_AT
    assert report.notes[0] == "The loss is nan or infinite from step 12 on (8 of 20 logged steps)."


def test_a_gradient_norm_that_overflows_for_a_step_is_counted_and_the_loss_kept(tmp_path):
    lines = [
        f"step {i} | loss 2.5 | grad_norm {'inf' if i in (3, 9) else '1.25'} | dt 120.00ms"
        for i in range(STEPS)
    ]

    (trace,) = read(written(tmp_path, "train.log", lines))

    report = build_report(Run((trace,)))
    assert report.metrics.timing.not_finite == 2
    assert report.metrics.timing.loss_lost_at is None
    assert report.metrics.timing.loss == 2.5
    assert report.metrics.timing.grad_norm == 1.25


@pytest.mark.parametrize(
    "said",
    [
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "gradient overflow detected, ignoring gradient, setting loss scale to: 64.0",
    ],
)
def test_updates_that_a_loss_scaler_left_out_are_counted(tmp_path, said):
    lines = [f"step {i} | loss 2.5 | dt 120.00ms" for i in range(STEPS)]
    lines[5:5] = [said]
    lines[9:9] = [said]

    (trace,) = read(written(tmp_path, "train.log", lines))

    assert len(trace.step_timings) == STEPS
    assert any("2 updates of the optimizer left out" in note for note in trace.health.notes)


def test_megatrons_skipped_iterations_are_no_steps(tmp_path):
    lines = [
        f" iteration {i:8d}/ 500 | elapsed time per iteration (ms): 120.0 | lm loss: 8.1E+00 | "
        f"number of skipped iterations: {int(i == 30):3d} | number of nan iterations:   0 |"
        for i in range(10, 210, 10)
    ]

    (trace,) = read(written(tmp_path, "train.log", lines))

    assert trace.step_timings.step.tolist() == list(range(10, 210, 10))
    assert any("1 update of the optimizer left out" in note for note in trace.health.notes)
