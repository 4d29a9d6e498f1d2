"""Room for a larger batch: exact on a hand-made step, null with a reason where the batch's part
cannot be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.snapshots import (
    BACKWARD,
    CAST,
    FORWARD,
    MIB,
    OPTIMIZER,
    SEGMENT,
    ZERO,
    content,
    event,
    freed,
    segment,
    snapshot,
)
from traceanalyzer.analysis.memory.measure import measured_memory

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.analysis.memory.room import LargerBatch

WEIGHTS, ACTIVATION, GRADIENT, CACHE = (SEGMENT + k * 128 * MIB for k in range(4))


def room(
    tmp_path: Path, capacity: int | None = None, *, cache: int = 0, failed: bool = False
) -> LargerBatch:
    """Steps of 10 MiB of weights, 20 MiB of activations and 10 MiB of gradients; with a cache that
    the second makes."""
    events = [event("segment_alloc", SEGMENT, 1024 * MIB), event("alloc", WEIGHTS, 10 * MIB, CAST)]
    for k in range(4):
        events += [event("alloc", ACTIVATION, 20 * MIB, FORWARD)]
        events += [event("alloc", CACHE, cache, FORWARD)] if cache and k == 1 else []
        events += [
            event("alloc", GRADIENT, 10 * MIB, BACKWARD),
            *freed(ACTIVATION, 20 * MIB, BACKWARD),
        ]
        events += [event("alloc", ACTIVATION, MIB, OPTIMIZER), *freed(ACTIVATION, MIB, OPTIMIZER)]
        events += freed(GRADIENT, 10 * MIB, ZERO)
    if failed:
        events += [
            event("alloc", ACTIVATION, 20 * MIB, FORWARD),
            event("oom", 0, 2048 * MIB, FORWARD),
        ]
    alive = {
        WEIGHTS: 10 * MIB,
        **({CACHE: cache} if cache else {}),
        **({ACTIVATION: 20 * MIB} if failed else {}),
    }
    blocks = [(address, size, size, "active_allocated") for address, size in sorted(alive.items())]
    found = snapshot(tmp_path, content(events, [segment(blocks, 1024 * MIB)]))
    return measured_memory(found, capacity=None if capacity is None else {0: capacity})[
        0
    ].larger_batch


def test_the_largest_batch_is_what_the_fullest_moment_allows(tmp_path: Path) -> None:
    """90 % of 200 MiB, less weights and gradients: 160 MiB for activations of 20."""
    found = room(tmp_path, 200 * MIB)
    assert (found.usable_bytes, found.free_bytes) == (180 * MIB, 140 * MIB)
    assert found.largest_times == pytest.approx(8.0)
    assert found.peak_bytes == 180 * MIB
    assert found.reason is None


def test_without_a_size_there_is_no_factor(tmp_path: Path) -> None:
    found = room(tmp_path)
    assert (found.usable_bytes, found.largest_times, found.peak_bytes) == (None, None, None)
    assert "the GPU's size" in str(found.reason)


@pytest.mark.parametrize(
    ("capacity", "cache", "reason"),
    [(200, 100, "kept from step to step"), (20, 0, "fills the GPU")],
)
def test_what_is_not_known_is_null_with_a_reason(
    tmp_path: Path, capacity: int, cache: int, reason: str
) -> None:
    found = room(tmp_path, capacity * MIB, cache=cache * MIB)
    assert (found.largest_times, found.peak_bytes) == (None, None)
    assert reason in str(found.reason)


def test_where_memory_ran_out_its_limit_counts(tmp_path: Path) -> None:
    assert room(tmp_path, 200 * MIB, failed=True).usable_bytes == 1024 * MIB


def test_an_activation_as_large_as_a_weight_goes_with_the_batch(tmp_path: Path) -> None:
    """One of two weights has a tensor of its size in the backward: no gradient to be added."""
    events: list[dict[str, Any]] = [event("segment_alloc", SEGMENT, 1024 * MIB)]
    events += [event("alloc", WEIGHTS + k * 32 * MIB, (16 + 8 * k) * MIB, CAST) for k in range(2)]
    for _ in range(4):
        events += [
            event("alloc", ACTIVATION, 16 * MIB, FORWARD),
            event("alloc", GRADIENT, 16 * MIB, BACKWARD),
        ]
        events += [*freed(GRADIENT, 16 * MIB, BACKWARD), *freed(ACTIVATION, 16 * MIB, BACKWARD)]
        events += [event("alloc", CACHE, MIB, OPTIMIZER), *freed(CACHE, MIB, OPTIMIZER)]
    blocks = [
        (WEIGHTS + k * 32 * MIB, (16 + 8 * k) * MIB, (16 + 8 * k) * MIB, "active_allocated")
        for k in range(2)
    ]
    device = measured_memory(snapshot(tmp_path, content(events, [segment(blocks, 1024 * MIB)])))[0]
    peaks = {scenario.id: scenario.peak_bytes for scenario in device.scenarios}
    assert peaks["batch-x2"] == (40 + 2 * 32) * MIB
