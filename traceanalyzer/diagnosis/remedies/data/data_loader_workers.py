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
    waited_less,
)
from traceanalyzer.analysis.replay.scenarios import Scenario, input_ready
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.remedies.program import may_load, program, tape_of, tapes_of_others
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.figures import NS_PER_MS

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape

LOAD_OF_OTHERS = 0.1
"""Ranks that load hardly more than this share of what one does have no loading to share with it."""
READY = Scenario("data_loader_workers", loaded_by_workers, "batches are ready", missing="no input is loaded")
BASIS = (
    "{count} workers load the {load:.3g} ms of input a step while the step before runs, each of them {efficiency:.0%} "
    "of the time; the step takes a finished batch from their queue"
)

MORE = (
    "the workers have each batch ready when the step asks for it; how many of them that takes is not in the recording: "
    "they are processes of their own (upper end: they bring batches twice as fast)"
)


def offer(m: Measurements) -> Offer | None:
    """Where the step loads input itself: with as many workers as the rest of the step can wait for."""
    tape, replay = tape_of(m), m.replay
    if tape is None or replay is None or not loading_ns(tape) or _of_one_rank(m, tape):
        return None
    rest_ms = replay.step_under_ms(READY)
    if not rest_ms:
        return None
    load_ms = loading_ns(tape) * replay.scale / NS_PER_MS
    count = min(math.ceil(load_ms / rest_ms / WORKER_EFFICIENCY) + 1, MAX_WORKERS)
    if m.loading is not None and m.loading.workers:
        half_ns = replay.base_ms / replay.scale * NS_PER_MS / 2
        slower = waited_less(half_ns)
        ready = Scenario("data_loader_workers", loaded_by_workers, MORE, hopeful=input_ready, cautious=slower)
        return Offer(loader_advice.action(m.loading), ready)
    least_ns = loading_ns(tape) / (count * WORKER_EFFICIENCY)
    basis = BASIS.format(count=count, load=load_ms, efficiency=WORKER_EFFICIENCY)
    scenario = Scenario(
        "data_loader_workers", loaded_by_workers, basis, hopeful=input_ready, step_of_run=not_faster_than(least_ns)
    )
    if not program(m).pytorch:
        return Offer(f"Load input in {count} background processes or threads, at least one step ahead.", scenario)
    return Offer(loader_advice.action(m.loading, count), scenario)


def _of_one_rank(m: Measurements, tape: Tape) -> bool:
    """Whether the host of this rank alone works before a copy to the device, and nothing names that as loading: all
    ranks load what they learn from."""
    if not m.peers or may_load(m):
        return False
    return all(loading_ns(one) < LOAD_OF_OTHERS * loading_ns(tape) for one in tapes_of_others(m))


REMEDY = Remedy("data_loader_workers", "input", "input-wait", offer)
