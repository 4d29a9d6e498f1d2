"""What a Kineto file says about itself around its events; every part of it may be missing or damaged."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.kineto.chunks import BYTE_ORDER_MARK
from traceanalyzer.ingest.kineto.repair import mend
from traceanalyzer.trace import Device

_NUMBERS = ("baseTimeNanoseconds", "record_shapes", "with_stack", "profile_memory", "rank", "world_size")
_INT64 = 2**63
_INT32 = 2**31


def parse_metadata(text: bytes) -> dict[str, Any]:
    """The object around the events; of a damaged one the numbers that matter, under their own names."""
    text = text.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r\n\x00")
    for candidate in (text, mend(text)):
        try:
            found = msgspec.json.decode(candidate)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return found if isinstance(found, dict) else {}
    return _salvaged(text)


def _salvaged(text: bytes) -> dict[str, Any]:
    found = {}
    for name in _NUMBERS:
        match = re.search(rb'"' + name.encode() + rb'"\s*:\s*"?(-?\d{1,18})(?!\d)', text)
        if match:
            found[name] = int(match[1])
    return {"distributedInfo": {k: found[k] for k in ("rank", "world_size") if k in found}} | found


def distributed(metadata: dict[str, Any], name: str) -> int | None:
    """`rank` or `world_size` of `distributedInfo`, None where the recording does not say."""
    info = metadata.get("distributedInfo")
    value = integer(info.get(name)) if isinstance(info, dict) else None
    return value if value is not None and 0 <= value <= limits().ranks else None


def integer(value: Any) -> int | None:
    """The value as an int that fits 64 bits, None if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -_INT64 <= number < _INT64 else None


def devices_of(metadata: dict[str, Any]) -> dict[int, Device]:
    """The devices that `deviceProperties` describes, by id."""
    properties = metadata.get("deviceProperties")
    rows = properties if isinstance(properties, list) else []
    found = {}
    for row in rows:
        number = integer(row.get("id")) if isinstance(row, dict) else None
        if number is not None and 0 <= number < _INT32:
            found[number] = _device(number, row)
    return found


def _device(number: int, row: dict[str, Any]) -> Device:
    major, minor = integer(row.get("computeMajor")), integer(row.get("computeMinor"))
    name, uid = row.get("name"), row.get("uuid")
    return Device(
        id=number,
        name=name if isinstance(name, str) and name else None,
        sm_count=integer(row.get("numSms")),
        memory_bytes=integer(row.get("totalGlobalMem")),
        compute_capability=None if major is None or minor is None else (major, minor),
        uid=uid if isinstance(uid, str) else None,
    )
