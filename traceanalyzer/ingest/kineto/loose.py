"""An event of any JSON types to the typed one: what is usable is kept, what is not becomes "not recorded"."""

import math
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.ingest.kineto.events import Args, Event, Instant, MemoryArgs, Meta, MetaArgs, Skipped, Span
from traceanalyzer.ingest.kineto.times import exact_ns

_TEXT_ARGS = ("collective", "dtype", "sync_kind")
_RAW_ARGS = frozenset(f.name for f in msgspec.structs.fields(Args) if f.type is Raw)
_ARGS = {f.encode_name: f for f in msgspec.structs.fields(Args)}
_MEMORY_ARGS = msgspec.structs.fields(MemoryArgs)


def event_of(row: Any) -> tuple[Event | None, bool]:
    """The event a decoded JSON value stands for, None if it is none; and whether values had to be mended.

    Numbers with a fraction are expected as their text.
    """
    if not isinstance(row, dict):
        return None, False
    phase = row.get("ph", "X" if "dur" in row else None)
    if phase == "X":
        return _span(row)
    if phase == "i":
        return _instant(row), False
    if phase == "M":
        name = (row.get("args") or {}).get("name") if isinstance(row.get("args"), dict) else None
        return Meta(_text(row.get("name")), _id(row.get("pid")), _id(row.get("tid")), MetaArgs(_raw(name))), False
    return Skipped(), False


def _span(row: dict[str, Any]) -> tuple[Event | None, bool]:
    start = _time(row.get("ts"))
    if start is None:
        return None, False
    duration, args = _number(row.get("dur")), row.get("args")
    span = Span(
        name=_text(row.get("name")),
        ts=Raw(start),
        cat=_text(row.get("cat")),
        dur=0.0 if duration is None else duration,
        pid=_id(row.get("pid")),
        tid=_id(row.get("tid")),
        args=_args(args) if isinstance(args, dict) else None,
    )
    return span, duration is None or not isinstance(row.get("name"), str)


def _instant(row: dict[str, Any]) -> Event:
    args, start = row.get("args"), _time(row.get("ts"))
    if start is None:
        return Skipped()
    if not isinstance(args, dict):
        return Instant(_text(row.get("name")), Raw(start))
    values = {f.name: _integer(args.get(f.encode_name), f.default) for f in _MEMORY_ARGS}
    return Instant(_text(row.get("name")), Raw(start), MemoryArgs(**values))


def _args(values: dict[str, Any]) -> Args:
    made: dict[str, Any] = {}
    for key, value in values.items():
        f = _ARGS.get(key)
        if f is None:
            continue
        if f.name in _RAW_ARGS:
            made[f.name] = _raw(value)
        elif f.name in _TEXT_ARGS:
            made[f.name] = _text(value)
        else:
            made[f.name] = _integer(value, f.default)
    return Args(**made)


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
