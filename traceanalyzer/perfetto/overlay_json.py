"""An overlay as a Chrome trace, which Perfetto opens: alone, or with the recording's own events in one file.

Times are microseconds with three decimals on the recording's own clock, written as exact decimals (floats would not
hold them), and `baseTimeNanoseconds` is the recording's: the events lie beside those of a Kineto trace.
"""

from __future__ import annotations

import re
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.report.values import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.perfetto.overlay import Label, Overlay, Track
    from traceanalyzer.trace import I64

PROCESS = 2_000_000_000
"""Process id of the overlay: above what a Linux kernel gives (2**22)."""
FIRST_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[')
LATER_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[')
"""The same where the file has begun otherwise."""
LONGEST_MARK = 256
"""Bytes that it takes, with as much white space as files have."""
EVENTS_A_PIECE = 10_000


def render_overlay(overlay: Overlay) -> bytes:
    """The overlay as a file of its own."""
    return b"".join(overlay_pieces(overlay))


def overlay_pieces(overlay: Overlay) -> Iterator[bytes]:
    """The same a piece at a time."""
    yield orjson.dumps({"displayTimeUnit": "ms", "baseTimeNanoseconds": overlay.epoch_ns})[:-1]
    yield b',"traceEvents":[\n'
    yield from _events(overlay)
    yield b"\n]}\n"


def merged(overlay: Overlay, recording: Iterable[bytes]) -> Iterator[bytes]:
    """The (decompressed) JSON of the recording, read and given a piece at a time, with the overlay's events before its
    own.

    Raises UnreadableInputError where the recording has no list of events to put them into.
    """
    pieces, kept, begun = iter(recording), b"", False
    for piece in pieces:
        text = kept + piece
        found = FIRST_EVENT.search(text) if not begun else LATER_EVENT.search(text)
        if found is not None:
            yield text[: found.end()]
            yield b"\n"
            yield from _events(overlay)
            yield from _rest_of(text[found.end() :], pieces)
            return
        # What is kept may be the beginning of what is looked for.
        cut = max(len(text) - LONGEST_MARK, 0)
        yield text[:cut]
        kept, begun = text[cut:], begun or bool(text[:cut].strip())
    raise UnreadableInputError(f"{overlay.path}: it has no list of events that an overlay could be put into")


def _rest_of(text: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the overlay's events: a comma, if the recording has events of its own, and these."""
    while not text.strip():
        more = next(pieces, None)
        if more is None:
            break
        text += more
    if text.lstrip()[:1] != b"]":
        yield b","
    yield text
    yield from pieces


def _events(overlay: Overlay) -> Iterator[bytes]:
    texts = _texts(overlay)
    between = ""
    while batch := list(islice(texts, EVENTS_A_PIECE)):
        yield (between + ",\n".join(batch)).encode()
        between = ",\n"


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
        for time, value in zip(_us(counter.time), counter.value.tolist(), strict=True):
            yield f'{{"ph":"C","ts":{time},"args":{{"ops":{value}}},{rest}'


def _about(process: int, thread: int, what: str, **args: Any) -> str:
    return _json({"ph": "M", "pid": process, "tid": thread, "name": what, "args": args})


def _slices(track: Track, where: dict[str, Any]) -> Iterator[str]:
    rests = [_rest({**where, **_said(label)}) for label in track.labels]
    columns = (_us(track.start), _us(track.duration), track.duration.tolist(), track.label.tolist())
    for start, written, duration, i in zip(*columns, strict=True):
        if duration:
            yield f'{{"ph":"X","dur":{written},"ts":{start},{rests[i]}'
        else:
            yield f'{{"ph":"i","s":"t","ts":{start},{rests[i]}'


def _said(label: Label) -> dict[str, Any]:
    name = ": ".join(text for text in (label.kind, label.name) if text)
    return {"name": name, "args": {"detail": label.detail}} if label.detail else {"name": name}


def _rest(values: dict[str, Any]) -> str:
    """The end of an event: its values that many events share, as JSON. Written once, since there may be a million."""
    return _json(values)[1:]


def _json(values: dict[str, Any]) -> str:
    return orjson.dumps(as_plain(values)).decode()


def _us(ns: I64) -> Iterator[str]:
    """Nanoseconds as decimal numbers of microseconds."""
    whole, rest = np.divmod(np.abs(ns), 1000)
    signs = np.where(ns < 0, "-", "").tolist() if (ns < 0).any() else repeat("")
    return (f"{sign}{us}.{part:03d}" for sign, us, part in zip(signs, whole.tolist(), rest.tolist(), strict=False))
