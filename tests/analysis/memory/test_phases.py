"""Phases and steps of programs that differ from the plain loop: forward, backward, step,
zero_grad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.snapshots import (
    BACKWARD,
    CAST,
    FORWARD,
    MIB,
    OPTIMIZER,
    SEGMENT,
    TORCH,
    TRAIN,
    ZERO,
    content,
    event,
    frames,
    freed,
    segment,
    snapshot,
)
from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS, STATE, GRADIENTS, WORK = (SEGMENT + k * 64 * MIB for k in range(4))
MAIN = frames(TRAIN)
AVERAGE = frames(("average", "/home/user/ema.py", 4), TRAIN)
CLIP = frames(("clip_grad_norm_", f"{TORCH}/nn/utils/clip_grad.py", 9), TRAIN)
SECOND = frames(("step", f"{TORCH}/optim/adam.py", 9), ("<module>", "/home/user/train.py", 95))


def ran(tmp_path: Path, steps: list[list[dict[str, Any]]], alive: dict[int, int]) -> MemoryOfDevice:
    """A history of these steps after 8 MiB of weights."""
    events = [event("segment_alloc", SEGMENT, 512 * MIB), event("alloc", WEIGHTS, 8 * MIB, CAST)]
    events += [dict(e) for step in steps for e in step]
    blocks = [
        (address, size, size, "active_allocated")
        for address, size in sorted({WEIGHTS: 8 * MIB, **alive}.items())
    ]
    return measured_memory(snapshot(tmp_path, content(events, [segment(blocks, 512 * MIB)])))[0]


def work(stack: list[dict[str, Any]], size: int = MIB) -> list[dict[str, Any]]:
    return [event("alloc", WORK, size, stack), *freed(WORK, size, stack)]


def kept(stack: list[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    """Optimizer state, made in the first step."""
    return [event("alloc", STATE, 16 * MIB, stack)] if k == 0 else []


BACK = [event("alloc", GRADIENTS, 8 * MIB, BACKWARD)]
ZEROED = freed(GRADIENTS, 8 * MIB, ZERO)
HELD = WORK + 32 * MIB


def test_what_drops_the_loss_after_the_backward_is_no_forward(tmp_path: Path) -> None:
    begin = [event("alloc", HELD, MIB, FORWARD)]
    drop = freed(HELD, MIB, MAIN)
    steps = [
        [*begin, *BACK, *drop, *kept(OPTIMIZER, k), *work(OPTIMIZER), *ZEROED] for k in range(4)
    ]
    device = ran(tmp_path, steps, {STATE: 16 * MIB})
    assert [step.phase_peaks["forward"] for step in device.steps] == [
        9 * MIB,
        25 * MIB,
        25 * MIB,
        25 * MIB,
    ]


def test_clipping_belongs_to_the_update_and_other_code_there_to_no_phase(tmp_path: Path) -> None:
    steps = [
        [
            *work(FORWARD),
            *BACK,
            *work(MAIN, 4 * MIB),
            *work(CLIP, 2 * MIB),
            *kept(OPTIMIZER, k),
            *work(OPTIMIZER),
            *ZEROED,
        ]
        for k in range(4)
    ]
    device = ran(tmp_path, steps, {STATE: 16 * MIB})
    assert [step.phase_peaks for step in device.steps[1:]] == [
        {
            "forward": 25 * MIB,
            "backward": 32 * MIB,
            "other": 36 * MIB,
            "optimizer": 34 * MIB,
            "zero_grad": 32 * MIB,
        }
    ] * 3
    assert device.peak_phase == "other"


def test_a_step_of_two_updates_is_one(tmp_path: Path) -> None:
    averaged = [
        [*work(FORWARD), *BACK, *kept(OPTIMIZER, k), *work(OPTIMIZER), *work(AVERAGE), *ZEROED]
        for k in range(6)
    ]
    assert len(ran(tmp_path, averaged, {STATE: 16 * MIB}).steps) == 6
    half = [*work(FORWARD), *BACK]
    adversarial = [
        [*half, *kept(OPTIMIZER, k), *work(OPTIMIZER), *ZEROED, *half, *ZEROED, *work(SECOND)]
        for k in range(6)
    ]
    assert len(ran(tmp_path, adversarial, {STATE: 16 * MIB}).steps) == 6


def test_zero_grad_before_the_backward_ends_no_step(tmp_path: Path) -> None:
    steps = [
        [*work(FORWARD), *(ZEROED if k else []), *BACK, *kept(OPTIMIZER, k), *work(OPTIMIZER)]
        for k in range(5)
    ]
    device = ran(tmp_path, steps, {STATE: 16 * MIB, GRADIENTS: 8 * MIB})
    assert [step.end_bytes for step in device.steps] == [32 * MIB] * 5


def test_inference_has_steps_not_layers(tmp_path: Path) -> None:
    layer = frames(
        ("forward", "/home/user/layer.py", 3), ("forward", "/home/user/model.py", 9), TRAIN
    )
    steps = [[*work(FORWARD), *work(layer), *work(layer), *work(layer)] for _ in range(7)]
    device = ran(tmp_path, steps, {})
    assert (len(device.steps), device.step_source) == (7, "stacks")


def test_growth_leaves_a_last_step_out_that_is_not_whole(tmp_path: Path) -> None:
    steps = [
        [*(ZEROED if k else []), *work(FORWARD), *BACK, *kept(OPTIMIZER, k), *work(OPTIMIZER)]
        for k in range(8)
    ]
    growth = ran(tmp_path, steps, {STATE: 16 * MIB, GRADIENTS: 8 * MIB}).growth
    assert (growth.verdict, growth.bytes_per_step) == ("steady", 0)
