"""Memory snapshots made by hand: the dictionaries that PyTorch writes, from a list of actions."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from traceanalyzer.ingest.memory import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traceanalyzer.trace.snapshot import Snapshot

MIB = 1 << 20
SEGMENT = 1 << 40
TORCH = "/usr/lib/python3/site-packages/torch"
TRAIN = ("<module>", "/home/user/train.py", 90)


def frames(*stack: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "filename": file, "line": line} for name, file, line in stack]


FORWARD = frames(("forward", "/home/user/model.py", 7), TRAIN)
CAST = frames(
    ("convert", f"{TORCH}/nn/modules/module.py", 1), ("main", "/home/user/train.py", 3), TRAIN
)
OPTIMIZER = frames(
    ("_init_group", f"{TORCH}/optim/adam.py", 5), ("step", f"{TORCH}/optim/adam.py", 9), TRAIN
)
ZERO = frames(("zero_grad", f"{TORCH}/optim/optimizer.py", 5), TRAIN)
BACKWARD: list[dict[str, Any]] = []


def event(
    action: str, address: int, size: int, stack: Sequence[dict[str, Any]] = (), time_us: int = 0
) -> dict[str, Any]:
    place = "device_free" if action == "oom" else "addr"
    return {
        "action": action,
        place: address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": list(stack),
    }


def freed(address: int, size: int, stack: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    return [
        event("free_requested", address, size, stack),
        event("free_completed", address, size, stack),
    ]


def segment(
    blocks: Sequence[tuple[int, int, int, str]], size: int, address: int = SEGMENT, **more: Any
) -> dict[str, Any]:
    """`blocks` are (address, size, requested, state)."""
    keys = ("address", "size", "requested_size", "state")
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "stream": 0,
        "segment_type": "large",
        "is_expandable": False,
        "frames": [],
        "blocks": [{**dict(zip(keys, block, strict=True)), "frames": []} for block in blocks],
        **more,
    }


def content(
    events: Sequence[dict[str, Any]], segments: Sequence[dict[str, Any]], **settings: Any
) -> dict[str, Any]:
    return {
        "segments": list(segments),
        "device_traces": [list(events)],
        "allocator_settings": settings,
    }


def snapshot(folder: Path, value: object, protocol: int = 4) -> Snapshot:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return read_snapshot(path)
