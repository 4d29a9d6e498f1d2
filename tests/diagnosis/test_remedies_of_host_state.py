"""Averages and sums that the host keeps of what each step copies to it, told from results that are
only kept there."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import GEMM, copy, within
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.remedies.data import keep_on_device
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import CopyKind, Device, MemoryKind

SHAPE = "[1024, 1024]"
SIZE = 1 << 22
SMALL = "[1024]"
SMALL_SIZE = 4096


def step(p: Program, *updates: str, shape: str = SHAPE) -> None:
    """Two products, and what the host does with each of the weights that it copies."""
    for _ in range(2):
        within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, 200))
    for mine, size, us in ((SHAPE, SIZE, 400), (SMALL, SMALL_SIZE, 2)):

        def moved(p: Program, us: float = us, size: int = size) -> None:
            copy(p.spend(10), us, CopyKind.DEVICE_TO_HOST, size, MemoryKind.PAGEABLE).sync()

        within(p, "aten::to", moved, shapes=f"[{mine}, [], []]")
        for name in updates:
            other = mine if shape == SHAPE else shape
            within(
                p, name, lambda p, size=size: p.spend(size / 8192), shapes=f"[{other}, {mine}, []]"
            )


def program(*updates: str, shape: str = SHAPE, memory: int = 1 << 33) -> Measurements:
    p = Program()
    for i in range(6):
        start = p.now
        step(p, *updates, shape=shape)
        p.annotation(f"ProfilerStep#{i}", start, p.now)
    return measure(p.build(devices=(Device(0, "NVIDIA H200", memory_bytes=memory),)))


@pytest.mark.parametrize(
    "updates", [("aten::lerp_",), ("aten::mul", "aten::add_"), ("aten::sub_",)]
)
def test_averages_that_the_host_updates_can_be_on_the_gpu(updates: tuple[str, ...]) -> None:
    m = program(*updates)
    offer = keep_on_device.offer(m)
    tape = tape_of(m)
    assert offer is not None
    assert tape is not None
    assert f"{(SIZE + SMALL_SIZE) / 1e6:.3g} MB" in offer.action.pytorch
    changed = offer.scenario.change(tape)
    assert changed is not None
    assert not changed.waits.any()
    assert step_time_ns(tape) / 1e3 > 1000
    assert step_time_ns(changed) / 1e3 == pytest.approx(2 * 201 + 5, rel=0.05)


@pytest.mark.parametrize("updates", [(), ("aten::copy_",), ("aten::sub", "aten::abs")])
def test_what_the_host_keeps_or_looks_at_goes_there(updates: tuple[str, ...]) -> None:
    assert keep_on_device.offer(program(*updates)) is None


def test_what_is_added_to_a_tensor_of_another_shape_is_no_state_of_it() -> None:
    assert keep_on_device.offer(program("aten::add_", shape="[64, 1024, 1024]")) is None


def test_averages_that_the_gpu_has_no_room_for_stay_where_they_are() -> None:
    assert keep_on_device.offer(program("aten::lerp_", memory=3 * SIZE)) is None
