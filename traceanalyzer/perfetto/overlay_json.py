"""An overlay as a Chrome trace, which Perfetto opens: alone, or with the recording's own events in one file.

Times are microseconds with three decimals on the recording's own clock, written as exact decimals (floats would not
hold them), and `baseTimeNanoseconds` is the recording's: the events lie beside those of a Kineto trace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.report.values import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.perfetto.overlay import Label, Overlay, Track

PROCESS = 2_000_000_000
"""Process id of the overlay: above what a Linux kernel gives (2**22)."""
FIRST_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[')


def render_overlay(overlay: Overlay) -> bytes:
    """The overlay as a file of its own."""
    head = orjson.dumps({"displayTimeUnit": "ms", "baseTimeNanoseconds": overlay.epoch_ns})[:-1]
    return head + b',"traceEvents":[\n' + _events(overlay) + b"\n]}\n"


def merged(overlay: Overlay, recording: bytes) -> bytes:
    """The (decompressed) JSON of the recording with the overlay's events before its own.

    Raises UnreadableInputError where the recording has no list of events to put them into.
    """
    found = FIRST_EVENT.search(recording)
    if found is None:
        raise UnreadableInputError(f"{overlay.path}: it has no list of events that an overlay could be put into")
    rest = recording[found.end() :]
    comma = b"" if rest.lstrip()[:1] == b"]" else b","
    return recording[: found.end()] + b"\n" + _events(overlay) + comma + rest


def _events(overlay: Overlay) -> bytes:
    return ",\n".join(_texts(overlay)).encode()


def _texts(overlay: Overlay) -> Iterator[str]:
    process = PROCESS + (overlay.rank or 0)
    rank = "" if overlay.rank is None else f" of rank {overlay.rank}"
    yield _about(process, 0, "process_name", name=f"traceanalyzer: analysis{rank}")
    yield _about(process, 0, "process_sort_index", sort_index=-1)
    for thread, track in enumerate(overlay.tracks, 1):
        yield _about(process, thread, "thread_name", name=track.title)
        yield _about(process, thread, "thread_sort_index", sort_index=thread)
        yield from _slices(track, {"cat": "traceanalyzer", "pid": process, "tid": thread})
    for counter in overlay.counters:
        rest = _rest({"pid": process, "name": counter.title})
        for time, value in zip(counter.time.tolist(), counter.value.tolist(), strict=True):
            yield f'{{"ph":"C","ts":{_us(time)},"args":{{"ops":{value}}},{rest}'


def _about(process: int, thread: int, what: str, **args: Any) -> str:
    return _json({"ph": "M", "pid": process, "tid": thread, "name": what, "args": args})


def _slices(track: Track, where: dict[str, Any]) -> Iterator[str]:
    rests = [_rest({**where, **_said(label)}) for label in track.labels]
    for start, duration, i in zip(track.start.tolist(), track.duration.tolist(), track.label.tolist(), strict=True):
        length = f'"ph":"X","dur":{_us(duration)}' if duration else '"ph":"i","s":"t"'
        yield f'{{{length},"ts":{_us(start)},{rests[i]}'


def _said(label: Label) -> dict[str, Any]:
    name = ": ".join(text for text in (label.kind, label.name) if text)
    return {"name": name, "args": {"detail": label.detail}} if label.detail else {"name": name}


def _rest(values: dict[str, Any]) -> str:
    """The end of an event: its values that many events share, as JSON. Written once, since there may be a million."""
    return _json(values)[1:]


def _json(values: dict[str, Any]) -> str:
    return orjson.dumps(as_plain(values)).decode()


def _us(ns: int) -> str:
    """Nanoseconds as a decimal number of microseconds."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
