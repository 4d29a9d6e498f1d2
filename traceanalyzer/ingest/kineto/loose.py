"""An event of any JSON types to the typed one: what is usable is kept, what is not becomes "not
recorded"."""

import math
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.ingest.kineto.events import (
    Args,
    CompleteEvent,
    Event,
    Instant,
    MemoryArgs,
    Meta,
    MetaArgs,
    Skipped,
)
from traceanalyzer.ingest.kineto.times import exact_ns
from traceanalyzer.ingest.side_files import mapping

_ARGS = {f.encode_name: f for f in msgspec.structs.fields(Args)}
_MEMORY_ARGS = msgspec.structs.fields(MemoryArgs)


def event_of(row: Any) -> tuple[Event | None, bool]:
    """The event a decoded JSON value stands for, None if it is none; and whether values had to be
    mended. Numbers with a fraction are expected as their text."""
    if not isinstance(row, dict):
        return None, False
    phase = row.get("ph", "X" if "dur" in row else None)
    start = _time(row.get("ts")) if phase in ("X", "i") else b""
    if start is None or phase not in ("X", "i", "M"):
        return None if phase == "X" else Skipped(), False
    args = row.get("args")
    return _event(row, phase, Raw(start), args if isinstance(args, dict) else None)


def _event(
    row: dict[str, Any], phase: str, start: Raw, args: dict[str, Any] | None
) -> tuple[Event, bool]:
    name = _text(row.get("name"))
    pid = _id(row.get("pid"))
    tid = _id(row.get("tid"))
    if phase == "M":
        return Meta(name, pid, tid, MetaArgs(_raw(mapping(args).get("name")))), False
    if phase == "i":
        if args is None:
            return Instant(name, start, pid=pid), False
        memory = {f.name: _integer(args.get(f.encode_name), f.default) for f in _MEMORY_ARGS}
        return Instant(name, start, MemoryArgs(**memory), pid), False
    duration = _number(row.get("dur"))
    span = CompleteEvent(
        name=name,
        ts=start,
        cat=_text(row.get("cat")),
        dur=duration or 0.0,
        pid=pid,
        tid=tid,
        args=None if args is None else _args(args),
    )
    return span, duration is None or not isinstance(row.get("name"), str)


def _args(stated: dict[str, Any]) -> Args:
    """What is read of an event's arguments."""
    known = ((_ARGS[name], value) for name, value in stated.items() if name in _ARGS)
    return Args(**{f.name: _arg(f, value) for f, value in known})


def _arg(f: msgspec.structs.FieldInfo, value: Any) -> Any:
    if f.type is Raw:
        return _raw(value)
    return _text(value) if f.type is str else _integer(value, f.default)


def _time(value: Any) -> bytes | None:
    """The time as text, None if it is none."""
    try:
        text = str(value).encode() if isinstance(value, int | float | str) else b""
        exact_ns(text)
    except ValueError:
        return None
    return text


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _integer(value: Any, default: int) -> int:
    if isinstance(value, int):
        return int(value)
    number = _number(value)
    if number is None:
        return default
    try:
        return int(value)
    except ValueError:
        return int(number)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _id(value: Any) -> int | str:
    return value if isinstance(value, int | str) else str(value) if isinstance(value, float) else -1


def _raw(value: Any) -> Raw:
    return Raw() if value is None else Raw(msgspec.json.encode(value))
