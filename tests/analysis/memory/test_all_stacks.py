"""Snapshots as PyTorch makes them by default: frames of C++ and of the interpreter among those of
Python; and layers of a model that come back like steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.snapshots import MIB, SEGMENT, TORCH, TRAIN, content, event, frames, segment, snapshot
from traceanalyzer.analysis.memory.checkpointing import _module_calls
from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory
from traceanalyzer.analysis.memory.phases import allocation_site
from traceanalyzer.trace.snapshot import Frame, Stack

UNWIND = [
    ("torch::unwind::unwind()", "??", 0),
    ("torch::CapturedTraceback::gather(bool, bool, bool)", "??", 0),
    (
        "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int)",
        "CUDACachingAllocator.cpp",
        0,
    ),
]
RELU = ("at::_ops::relu::call(at::Tensor const&)", "??", 0)
PYTHON = [("_PyEval_EvalFrameDefault", "??", 0), ("PyMethod_New", "??", 0)]
CALL = ("_call_impl", f"{TORCH}/nn/modules/module.py", 1520)
ACTIVATION = ("forward", f"{TORCH}/nn/modules/activation.py", 101)
BLOCK = ("forward", "/app/block.py", 41)
MAIN = ("train", "/app/train.py", 88)


def stack(*entries: tuple[str, str, int]) -> Stack:
    return tuple(Frame(name, file, line) for name, file, line in entries)


def test_the_site_is_the_first_frame_of_the_program() -> None:
    forward = stack(*UNWIND, RELU, ACTIVATION, *PYTHON, CALL, *PYTHON, BLOCK, *PYTHON, CALL, MAIN)
    assert allocation_site(forward) == "block.py:41 forward"
    assert _module_calls(forward)[-1][:2] == ("/app/block.py", "forward")


def test_frames_of_cpp_name_the_operator_where_there_is_no_program() -> None:
    div = ("torch::autograd::generated::DivBackward0::apply(std::vector<at::Tensor>&&)", "??", 0)
    engine = ("torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)", "??", 0)
    assert allocation_site(stack(*UNWIND, RELU, div, engine)) == "DivBackward0"
    assert allocation_site(stack(*UNWIND, RELU)) == "aten::relu"
    assert (
        allocation_site(stack(*UNWIND, ("my::kernel()", "mine.cpp", 7)))
        == "mine.cpp:7 my::kernel()"
    )
    assert allocation_site(stack(*UNWIND)).startswith("??:0 torch::unwind")
    assert allocation_site(()) == ""


def steps_of(folder: Path, allocations: list[tuple[str, list[dict[str, Any]]]]) -> MemoryOfDevice:
    """Allocations of 1 MiB."""
    events = [event("segment_alloc", SEGMENT, 512 * MIB)]
    blocks = []
    for i, (_, where) in enumerate(allocations):
        at = SEGMENT + i * MIB
        events.append(event("alloc", at, MIB, where))
        blocks.append((at, MIB, MIB, "active_allocated"))
    return measured_memory(snapshot(folder, content(events, [segment(blocks, 512 * MIB)])))[0]


def layer(line: int) -> list[dict[str, Any]]:
    """Within a module of a model."""
    return frames(
        ("forward", "/app/linear.py", line), CALL, ("forward", "/app/net.py", 9), CALL, TRAIN
    )


def test_layers_of_one_pass_are_no_steps(tmp_path: Path) -> None:
    once = frames(("forward", "/app/net.py", 7), CALL, TRAIN)
    device = steps_of(tmp_path, [("embed", once), *(("layer", layer(15)) for _ in range(12))])
    assert device.steps == ()
    assert device.growth.verdict == "unknown"


def test_passes_that_each_have_layers_are_steps(tmp_path: Path) -> None:
    once = frames(("forward", "/app/net.py", 7), CALL, TRAIN)
    one = [("embed", once), *(("layer", layer(15)) for _ in range(3))]
    device = steps_of(tmp_path, one * 6)
    assert len(device.steps) == 6
    assert device.growth.bytes_per_step == 4 * MIB


def test_what_is_freed_when_the_history_ends_is_no_leak(tmp_path: Path) -> None:
    batch = frames(("load", "/app/train.py", 3), TRAIN)
    events = [event("segment_alloc", SEGMENT, 512 * MIB)]
    events += [event("alloc", SEGMENT + i * MIB, MIB, batch) for i in range(12)]
    blocks = [(SEGMENT + i * MIB, MIB, MIB, "active_allocated") for i in range(12)]
    kept = measured_memory(snapshot(tmp_path, content(events, [segment(blocks, 512 * MIB)])))[0]
    assert kept.growth.verdict == "leak"
    for action in ("free_requested", "free_completed"):
        events += [event(action, SEGMENT + i * MIB, MIB, batch) for i in range(12)]
    freed = measured_memory(snapshot(tmp_path, content(events, [segment([], 512 * MIB)])))[0]
    assert freed.growth.verdict == "growth"
