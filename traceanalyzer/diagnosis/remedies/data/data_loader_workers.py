"""Input loaded by worker processes while the step before runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loading import (
    MAX_WORKERS,
    WORKER_EFFICIENCY,
    loaded_by_workers,
    loading_ns,
    not_faster_than,
)
from traceanalyzer.analysis.replay.scenarios import Scenario, input_ready
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.figures import NS_PER_MS

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

READY = Scenario("data_loader_workers", loaded_by_workers, "batches are ready", missing="no input is loaded")
BASIS = (
    "{count} workers load the {load:.3g} ms of input a step while the step before runs, each of them {efficiency:.0%} "
    "of the time; the step takes a finished batch from their queue"
)


def offer(m: Measurements) -> Offer | None:
    """Where the step loads input itself: with as many workers as the rest of the step can wait for."""
    tape, replay = tape_of(m), m.replay
    if tape is None or replay is None or not loading_ns(tape):
        return None
    rest_ms = replay.step_under_ms(READY)
    if not rest_ms:
        return None
    load_ms = loading_ns(tape) * replay.scale / NS_PER_MS
    count = min(math.ceil(load_ms / rest_ms / WORKER_EFFICIENCY) + 1, MAX_WORKERS)
    least_ns = loading_ns(tape) / (count * WORKER_EFFICIENCY)
    basis = BASIS.format(count=count, load=load_ms, efficiency=WORKER_EFFICIENCY)
    scenario = Scenario(
        "data_loader_workers", loaded_by_workers, basis, hopeful=input_ready, step_of_run=not_faster_than(least_ns)
    )
    return Offer(_how(program(m).pytorch, count), scenario)


def _how(pytorch: bool, count: int) -> str:
    if not pytorch:
        return f"Load input in {count} background processes or threads, at least one step ahead."
    return f"Load ahead: DataLoader(..., num_workers={count}, pin_memory=True, persistent_workers=True)."


REMEDY = Remedy("data_loader_workers", "input", "input-wait", offer)
