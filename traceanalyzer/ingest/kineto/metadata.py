"""What a Kineto file says about itself around its events; every part of it may be missing or
damaged. ROCm numbers device rows as the system numbers its nodes, the CPUs first (1, 2 or 9 for the
only GPU), where PyTorch describes devices, and its allocator counts memory, from 0."""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.kineto.chunks import BYTE_ORDER_MARK
from traceanalyzer.ingest.kineto.repair import mend
from traceanalyzer.ingest.side_files import items, mapping, mappings
from traceanalyzer.trace import I32, Device, MemoryEvents, distinct

_NUMBERS = (
    "baseTimeNanoseconds",
    "record_shapes",
    "with_stack",
    "profile_memory",
    "rank",
    "world_size",
)


def _is_rocm(metadata: Mapping[str, object]) -> bool:
    return not metadata.keys().isdisjoint(
        ("roctracer_version", "hip_runtime_version", "hip_driver_version")
    )


def devices_of(metadata: dict[str, Any], used: list[int]) -> tuple[tuple[Device, ...], str]:
    """The GPUs that are described or did work, each with the description that is its own, and a
    remark where that was worked out: GPUs that are all alike leave no doubt; as many as are
    described are taken in their order."""
    described = _described(metadata)
    unknown = set(used) - set(described)
    if not unknown and not (used and _is_rocm(metadata)):
        return tuple(described[i] for i in sorted(described)), ""
    kinds = {replace(device, id=0, uid=None) for device in described.values()}
    if not unknown or len(kinds) < 2 or len(described) != len(used):
        usual = kinds.pop() if len(kinds) == 1 else Device(0)
        return tuple(described.get(i, replace(usual, id=i)) for i in used), ""
    pairs = zip(used, sorted(described), strict=True)
    remark = "Rows number GPUs as the system does, CPUs first; descriptions are theirs in order."
    return tuple(replace(described[place], id=i) for i, place in pairs), remark


def on_the_gpu(events: MemoryEvents, used: list[int], metadata: dict[str, Any]) -> MemoryEvents:
    """The allocator's events under the number that AMD's device rows have, where both know one
    GPU."""
    counted = distinct(events.device[events.device >= 0])
    if not _is_rocm(metadata) or len(used) != 1 or len(counted) != 1 or counted[0] == used[0]:
        return events
    device: I32 = np.where(events.device >= 0, used[0], events.device).astype(np.int32)
    return replace(events, device=device)


def parse_metadata(text: bytes) -> dict[str, Any]:
    """The object around the events; of a damaged one the numbers that matter, under their own
    names."""
    text = text.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r\n\x00")
    for candidate in (text, mend(text)):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return mapping(msgspec.json.decode(candidate))
    found = {}
    for name in _NUMBERS:
        match = re.search(rb'"' + name.encode() + rb'"\s*:\s*"?(-?\d{1,18})(?!\d)', text)
        if match:
            found[name] = int(match[1])
    return {"distributedInfo": {k: found[k] for k in ("rank", "world_size") if k in found}} | found


def distributed(metadata: dict[str, Any], name: str) -> int | None:
    """`rank` or `world_size` of `distributedInfo`, None where the recording does not say."""
    value = integer(mapping(metadata.get("distributedInfo")).get(name))
    return value if value is not None and 0 <= value <= limits().ranks else None


def groups_of(metadata: dict[str, Any]) -> dict[str, str]:
    """For each process group of `pg_config`, by name, what is the same wherever its ranks are."""
    found = {}
    for row in mappings(mapping(metadata.get("distributedInfo")).get("pg_config")):
        ranks = items(row.get("ranks"))
        if ranks:
            mark = hashlib.blake2b(str(ranks).encode(), digest_size=4).hexdigest()
            found[str(row.get("pg_name"))] = f"({len(ranks)} ranks, {mark})"
    return found


def integer(value: Any) -> int | None:
    """The value as an int that fits 64 bits, None if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def _described(metadata: dict[str, Any]) -> dict[int, Device]:
    """The devices that `deviceProperties` describes, by id."""
    found = {}
    for row in mappings(metadata.get("deviceProperties")):
        number = integer(row.get("id"))
        if number is None or not 0 <= number < 2**31:
            continue
        major = integer(row.get("computeMajor"))
        minor = integer(row.get("computeMinor"))
        name = row.get("name")
        uid = row.get("uuid")
        found[number] = Device(
            id=number,
            name=name if isinstance(name, str) and name else None,
            sm_count=integer(row.get("numSms")),
            memory_bytes=integer(row.get("totalGlobalMem")),
            compute_capability=None if major is None or minor is None else (major, minor),
            uid=uid if isinstance(uid, str) else None,
        )
    return found
