"""Which GPU is meant by a number in a Kineto trace of AMD GPUs.

ROCm numbers device rows as the system numbers its nodes, the CPUs first (1, 2 or 9 for the only GPU), where PyTorch
describes devices, and its allocator counts memory, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from traceanalyzer.trace import I32, Device, MemoryEvents
from traceanalyzer.trace.distinct import distinct

_VERSIONS = ("roctracer_version", "hip_runtime_version", "hip_driver_version")


def is_rocm(metadata: Mapping[str, object]) -> bool:
    """Whether the trace says that it is of AMD GPUs."""
    return any(version in metadata for version in _VERSIONS)


def gpus_in_use(described: Mapping[int, Device], used: list[int]) -> tuple[tuple[Device, ...], str]:
    """The GPUs that did work, each with the description that is its own, and a remark where that was worked out.

    One GPU with one description, and GPUs that are all alike, leave no doubt; as many as are described are taken in
    their order.
    """
    kinds = {replace(device, id=0, uid=None) for device in described.values()}
    if len(kinds) == 1:
        usual = kinds.pop()
        return tuple(described.get(i) or replace(usual, id=i) for i in used), ""
    if len(described) != len(used) or not set(used) - set(described):
        return tuple(described.get(i) or Device(i) for i in used), ""
    pairs = zip(used, sorted(described), strict=True)
    remark = "Rows number GPUs as the system does, CPUs first; descriptions are theirs in order."
    return tuple(replace(described[place], id=i) for i, place in pairs), remark


def on_the_gpu_in_use(events: MemoryEvents, used: list[int]) -> MemoryEvents:
    """The allocator's events under the number that device rows have, where both know one GPU."""
    counted = distinct(events.device[events.device >= 0])
    if len(used) != 1 or len(counted) != 1 or counted[0] == used[0]:
        return events
    device: I32 = np.where(events.device >= 0, used[0], events.device).astype(np.int32)
    return replace(events, device=device)
