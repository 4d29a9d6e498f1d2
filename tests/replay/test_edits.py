"""The small changes that scenarios and remedies are made of, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.recorded import recording
from tests.replay.test_replay import copying, host_bound, steps
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.ingest import load
from traceanalyzer.replay.changes.communication.collectives import kinds, sizes, wide_sums
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.scenarios import COMBINED
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import CopyKind, DeviceOpKind

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

READING = "kineto/item_every_layer.base"


def taped(step: object) -> Tape:
    tape = make_tape(steps(step).rated)
    assert tape is not None
    return tape


@pytest.fixture(scope="module")
def reading() -> Tape:
    """A program whose layers read values."""
    tape = make_tape(measure(load([recording(READING)]).traces[0]).rated)
    assert tape is not None
    assert tape.reading.any()
    return tape


def test_of_less_dispatch_no_more_is_reading(reading: Tape) -> None:
    half = reading.with_dispatch(reading.reading * 0.5)
    assert (half.dispatch == np.rint(reading.reading * 0.5)).all()
    assert (half.reading == half.dispatch).all()
    assert (reading.with_dispatch(reading.dispatch * 2).reading == reading.reading).all()


def test_what_is_no_longer_read_is_left_out_once(reading: Tape) -> None:
    once = reading.without_reads()
    assert (once.dispatch == reading.dispatch - reading.reading).all()
    assert not once.duration[reading.reads[reading.event]].any()
    assert (once.waits == reading.waits).all()
    twice = once.without_reads()
    assert (twice.dispatch == once.dispatch).all()


@pytest.mark.parametrize("scenario", COMBINED, ids=lambda one: one.id)
def test_scenarios_leave_reading_a_part_of_dispatch(reading: Tape, scenario: object) -> None:
    """Whatever is combined with whatever, in whatever order, the host takes no time below zero."""
    changed = scenario.change(reading) or reading
    for other in COMBINED:
        both = other.change(changed) or changed
        for tape in (changed, both):
            assert (tape.reading >= 0).all()
            assert (tape.reading <= tape.dispatch).all()


def test_events_by_what_they_launch() -> None:
    tape = taped(copying)
    copies = tape.events_of_only(tape.copy)
    kernels = tape.events_of_only(tape.compute)
    assert copies.sum() == kernels.sum() == tape.steps
    assert (tape.launching_events == copies | kernels).all()
    joined = replace(tape, event=np.zeros_like(tape.event))
    assert not joined.events_of_only(joined.copy).any()
    assert joined.events_of(joined.copy).sum() == 1


def test_the_usual_dispatch_is_that_before_these_ops() -> None:
    tape = taped(host_bound)
    assert tape.usual_dispatch_ns(tape.compute) == float(np.median(tape.dispatch))
    assert tape.usual_dispatch_ns(tape.copy) == 0.0


def test_passes_over_bytes_take_what_the_memory_takes(reading: Tape) -> None:
    bandwidth = reading.source.linked.limit("bandwidth")[reading.row]
    assert np.isfinite(bandwidth).all()
    size = np.full(len(reading.row), 10_000_000)
    assert reading.moving_ns(size, 3.0) == pytest.approx(3.0 * 1e7 / bandwidth * 1e9)
    unknown = taped(copying)
    assert not unknown.moving_ns(np.full(len(unknown.row), 1 << 20)).any()


def test_a_tape_without_collectives_has_none() -> None:
    tape = taped(copying)
    assert (kinds(tape) == -1).all()
    assert (sizes(tape) == -1).all()
    assert len(kinds(tape)) == len(sizes(tape)) == len(tape.row)
    assert not wide_sums(tape).any()


def test_a_program_that_only_copies_is_advised_too() -> None:
    """No kernel says what a launch takes the host."""

    def only_copies(p: Program) -> None:
        for _ in range(3):
            p.launch("Memcpy HtoD (Pinned -> Device)", 500, "cudaMemcpyAsync", DeviceOpKind.MEMCPY)
            p.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
            p.sync().spend(400)

    found = {one.remedy.id: one.prediction for one in advise(steps(only_copies))}
    assert found["move_host_work"].step_ms == pytest.approx(1.5, rel=0.05)


def test_what_a_remedy_asks_of_a_tape_is_worked_out_once() -> None:
    asked: list[Tape] = []

    def find(tape: Tape) -> np.ndarray:
        asked.append(tape)
        return tape.copy

    tape = taped(copying)
    assert tape.memo(find) is tape.memo(find)
    assert asked == [tape]
    changed = tape.with_dispatch(tape.dispatch * 2)
    changed.memo(find)
    assert asked == [tape, changed], "a changed tape is another one"


def test_up_to_the_last_of_some_ops_in_each_step() -> None:
    """A step is a copy and a kernel: up to its copy is the copy alone, up to its kernel is all of
    it."""
    tape = taped(copying)
    assert (tape.up_to_last(tape.copy) == tape.copy).all()
    assert tape.up_to_last(tape.compute).all()
    last_step = tape.step_of_op == tape.step_of_op.max()
    assert (tape.up_to_last(tape.compute & last_step) == last_step).all(), "other steps have none"
    assert not tape.up_to_last(np.zeros(len(tape.row), bool)).any()


def test_operators_are_told_by_the_ranges_that_they_are(reading: Tape) -> None:
    source = reading.source
    operator = reading.of_launches(source.linked.tree.operator)
    assert (operator >= 0).any()
    names = reading.of_operators(operator, source.trace.host_ranges.name)
    assert [source.trace.text(one) for one in names[:50].tolist()] == [
        None
        if node < 0
        else source.trace.text(int(source.trace.host_ranges.name[source.linked.tree.row[node]]))
        for node in operator[:50].tolist()
    ]
    assert reading.of_operators(np.array([-1]), source.trace.host_ranges.name).tolist() == [-1]
