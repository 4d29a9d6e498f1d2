from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.recorded import GPU, KINETO, label
from tests.replay.test_replay import (
    GEMM,
    communicating,
    copying,
    gpu_bound,
    host_bound,
    loading,
    steps,
    thinking,
    waiting,
)
from traceanalyzer.analysis.causes.critical_path import path_parts
from traceanalyzer.analysis.tables.path_rows import PathTime, path_tables
from traceanalyzer.analysis.tables.timing import UnprofiledTime
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.ingest import load
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.replayed_path import replayed_path_time
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.whatif import Replay

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

RECORDINGS = [
    *GPU,
    *(path for path in KINETO if path.parent.name == "ablations" and ".base" in path.name),
]
DIFFERENCE = 0.001
"""By which a duration is changed to see whether the step follows."""


def tape_of(ctx: Measurements) -> Tape:
    tape = make_tape(ctx.rated)
    assert tape is not None
    return tape


def total(found: PathTime) -> float:
    return sum(vars(found).values())


@pytest.mark.parametrize("step", [gpu_bound, host_bound, loading, thinking, copying, communicating])
def test_the_replayed_path_is_the_recorded_one(step: object) -> None:
    ctx = steps(step)
    recorded = path_tables(ctx.timed, path_parts(ctx.started))[0]
    replayed = replayed_path_time([tape_of(ctx)])
    assert vars(replayed) == pytest.approx(vars(recorded), rel=0.03, abs=0.005)


def test_waits_lead_back_to_the_device() -> None:
    """The replay's calls return at once, so the time of the return is missing."""
    found = replayed_path_time([tape_of(steps(waiting))])
    assert found.compute == pytest.approx(0.3)
    assert found.launch == pytest.approx(0.086, abs=0.005)
    assert found.wait < 0.005


def test_a_faster_host_is_no_longer_on_the_path() -> None:
    def step(p: Program) -> None:
        for _ in range(10):
            p.spend(30).launch(GEMM, 25)

    replay = Replay.of(steps(step).rated, UnprofiledTime(0.3, 0.29, 0.31))
    assert replay is not None
    assert replayed_path_time(replay.recorded).launch > 0.3
    without = replayed_path_time(replay.typical, replay.scale)
    assert total(without) == pytest.approx(0.3, rel=0.02)


def test_a_full_queue_leads_back_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is four launches ahead at most, and works for long after the last one."""
    for module in ("simulate", "stretches", "replayed_path"):
        monkeypatch.setattr(f"traceanalyzer.replay.{module}.QUEUE_DEPTH", 4)

    def step(p: Program) -> None:
        for _ in range(12):
            p.launch(GEMM, 100)
        p.spend(700)

    tape = tape_of(steps(step))
    found = replayed_path_time([tape])
    assert total(found) == pytest.approx(step_time_ns(tape) / 1e6, rel=0.01)
    assert found.host > 0.5
    assert found.compute > 0.5


@pytest.mark.parametrize("recording", RECORDINGS, ids=label)
def test_paths_are_as_long_as_the_replayed_step(recording: Path) -> None:
    replay = measure(load([recording]).traces[0]).replay
    assert replay is not None
    found = replayed_path_time(replay.typical, replay.scale)
    assert total(found) == pytest.approx(replay.base_ms, rel=0.02)
    assert min(vars(found).values()) >= 0.0


@pytest.mark.parametrize("step", [gpu_bound, host_bound, waiting, copying, communicating])
def test_the_step_changes_by_what_is_on_the_path(step: object) -> None:
    """A step is homogeneous in its durations: what they are on the path is how it changes with
    them."""
    tape = tape_of(steps(step))
    found = replayed_path_time([tape])
    ops = {"compute": tape.compute, "communication": tape.communication, "copy": tape.copy}
    for kind, rows in ops.items():
        longer = np.where(rows, np.rint(tape.duration * (1 + DIFFERENCE)), tape.duration).astype(
            np.int64
        )
        change = step_time_ns(replace(tape, duration=longer)) - step_time_ns(tape)
        assert change / DIFFERENCE / 1e6 == pytest.approx(getattr(found, kind), rel=0.03, abs=0.003)
