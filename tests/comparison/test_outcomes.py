"""Loss, gradient norm and peak memory of two logs: what became worse is said."""

from __future__ import annotations

import json

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report


def logged(path, *, step_s=0.1, steps=40, **columns):
    """A report of a log whose columns fall or stay, with noise that is known."""
    lines = []
    for step in range(steps):
        noise = 1.0 + 0.02 * (-1) ** step
        row = {"step": step, "step_time_s": step_s * (1 + 0.01 * (step % 3))}
        row |= {name: value * noise for name, value in columns.items()}
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n")
    return build_report(load([path]))


@pytest.fixture
def base(tmp_path):
    return logged(tmp_path / "a.jsonl", loss=2.0, grad_norm=1.0)


def test_a_loss_that_doubles_is_said_beside_the_faster_step(base, tmp_path):
    found = compare_reports(
        base, logged(tmp_path / "b.jsonl", step_s=0.05, loss=4.0, grad_norm=1.0)
    )
    loss, norm = found.outcomes
    assert (loss.name, loss.worse) == ("loss", True)
    assert loss.change_share == pytest.approx(1.0, abs=0.05)
    assert (norm.name, norm.worse) == ("grad_norm", False)
    assert "Faster" in found.headline
    assert "Loss is worse: 2" in found.headline


def test_a_loss_within_what_steps_vary_by_is_not(base, tmp_path):
    found = compare_reports(base, logged(tmp_path / "b.jsonl", loss=2.05, grad_norm=1.0))
    assert not any(outcome.worse for outcome in found.outcomes)
    assert "worse" not in found.headline


def test_a_loss_that_falls_is_not_worse(base, tmp_path):
    found = compare_reports(base, logged(tmp_path / "b.jsonl", loss=1.0, grad_norm=0.5))
    assert [outcome.worse for outcome in found.outcomes] == [False, False]


def test_without_a_loss_on_both_sides_nothing_is_said(base, tmp_path):
    assert compare_reports(base, logged(tmp_path / "b.jsonl")).outcomes == []


def beside_a_trace(folder, loss, steps=40):
    """A report of a recording of two steps in a folder with the log of its run."""
    folder.mkdir()
    t = KinetoTrace()
    for i in range(3):
        t.step(i, 10_000 * i, 9_000)
        t.launched("gemm", 10_000 * i + 10, 10_000 * i + 30, 8_000)
    t.write(folder / "trace.json")
    lines = [{"step": i, "step_time_s": 0.008, "loss": loss + 0.01 * (i % 2)} for i in range(steps)]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return build_report(load([folder]))


def test_logs_beside_recordings_are_compared_whole(tmp_path):
    a = beside_a_trace(tmp_path / "a", 2.0)
    found = compare_reports(a, beside_a_trace(tmp_path / "b", 4.0))
    assert "Loss is worse: 2" in found.headline
    assert figures_by_path(a)["timing.loss"].value == pytest.approx(2.005)
    assert any("loss is not joined" in note for note in a.notes)
    assert compare_reports(a, beside_a_trace(tmp_path / "c", 4.0, steps=90)).outcomes == []


def test_parts_of_a_step_that_a_log_times(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "\n".join(
            json.dumps(
                {"step": i, "timing_s/step": 40.0, "timing_s/gen": 24.0, "timing_s/ref": 4.0}
            )
            for i in range(9)
        )
    )
    notes = build_report(load([tmp_path / "a.jsonl"])).notes
    assert "Parts of a step as logged: rollout 60%, ref 10%." in notes
