"""Parameters gathered once a step instead of twice: collectives, and what the host does for
them."""

from __future__ import annotations

import pytest

from tests.analysis.collectives import GEMM, Ranked
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.changes.communication.collectives import (
    gathered_again,
    parameters_kept,
    prefetched,
)
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.tape import Tape

GATHER = "ncclDevKernel_AllGather_RING_LL"
COPY = "void at::native::split_with_sizes_copy_out_contiguous"
LAYERS = 4
HOST_US = 200
OTHER_US = 100
"""What the host does for a gather, and for a layer's product."""


class Sharded(Ranked):
    """A host that goes along a timeline, and a device that is always faster."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def product(self) -> None:
        self.now += OTHER_US
        self.launched(GEMM, self.now + 6, self.now + 36, self.now)
        self.now += 5

    def gather(self, elements: int, name: str) -> None:
        begun = self.now
        self.now += HOST_US / 2
        self.collective(
            self.now + 6,
            self.now + 16,
            self.now,
            name="_allgather_base",
            kernel=GATHER,
            elements=elements,
            stream=9,
        )
        self.now += HOST_US / 2
        self.launched(COPY, self.now + 6, self.now + 12, self.now)
        self.now += 5
        self.annotation(name, begun, self.now)


def tape(name: str, *, other: int = 0, learns: bool = True) -> Tape:
    b = Sharded()
    for step in range(6):
        begun = b.now
        for layer in range(LAYERS):
            b.gather(1000, name.format(layer))
            b.product()
        back = b.now
        for layer in range(LAYERS if learns else 0):
            b.gather(other if other and layer == 0 else 1000, name.format(other or layer))
            b.product()
        if learns:
            b.op("autograd::engine::evaluate_function: MmBackward0", back, b.now)
        b.annotation(f"ProfilerStep#{step}", begun, b.now)
    made = make_tape(measure(b.trace(0, 2)).rated)
    assert made is not None
    return made


def test_gathers_that_are_gone_take_their_host_work_along() -> None:
    before = tape("FSDP::all_gather (layers.{})")
    assert gathered_again(before).sum() == LAYERS * before.steps
    kept = parameters_kept(before)
    assert kept is not None
    saved_us = (step_time_ns(before) - step_time_ns(kept)) / 1e3
    assert saved_us == pytest.approx(LAYERS * (HOST_US + 5), rel=0.1)


@pytest.mark.parametrize(
    ("name", "other"), [("my::gather", 0), ("FSDP::all_gather (layers.{})", 3000)]
)
def test_only_what_is_named_and_gathered_again_takes_it_along(name: str, other: int) -> None:
    before = tape(name, other=other)
    kept = parameters_kept(before)
    assert kept is not None
    saved_us = (step_time_ns(before) - step_time_ns(kept)) / 1e3
    assert saved_us < LAYERS * (HOST_US + 5) * 0.7


def test_what_never_changes_is_gathered_once_for_good() -> None:
    before = tape("FSDP::all_gather (layers.{})", learns=False)
    assert gathered_again(before).sum() == LAYERS * before.steps
    kept = parameters_kept(before)
    assert kept is not None
    assert step_time_ns(kept) / 1e3 == pytest.approx(LAYERS * OTHER_US, rel=0.15)
    unnamed = tape("my::gather", learns=False)
    assert not gathered_again(unnamed).any()


def test_a_module_gathered_for_each_part_of_the_batch_is_gathered_again() -> None:
    before = tape("FSDP::all_gather (layers)")
    assert gathered_again(before).sum() == (2 * LAYERS - 1) * before.steps


def test_what_is_gathered_once_stays() -> None:
    before = tape("FSDP::all_gather (layers.{})")
    once = parameters_kept(before)
    assert once is not None
    forward = ~before.source.joined.in_backward[before.source.linked.tree.node_of_call[before.call]]
    assert (once.dispatch[forward] == before.dispatch[forward]).all()


def test_gathers_ahead_have_a_stream_of_their_own_and_nothing_becomes_longer() -> None:
    before = tape("FSDP::all_gather (layers.{})")
    ahead = prefetched(before)
    assert ahead is not None
    assert not set(ahead.stream[ahead.communication].tolist()) & set(
        ahead.stream[~ahead.communication].tolist()
    )
    assert step_time_ns(ahead) <= step_time_ns(before)
