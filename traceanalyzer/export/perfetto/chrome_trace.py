"""An overlay as a Chrome trace, a piece at a time: alone, or put into the recording it is of."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.export.perfetto.tracks import Label, Overlay
from traceanalyzer.report.json import as_plain, without_unseen
from traceanalyzer.trace import I64

PROCESS = 2_000_000_000  # process id of the overlay: above what a Linux kernel gives (2**22)
FIRST_EVENT = regex(rb'"traceEvents"\s*:\s*\[|\A\s*\[')
LATER_EVENT = regex(rb'"traceEvents"\s*:\s*\[')  # the same where the file has begun otherwise
LONGEST_MARK = 256  # bytes that it takes, with as much white space as files have
EVENTS_A_PIECE = 4_000  # their texts stay in the processor's cache
LONGEST_NAME = 4096
"""Characters of a slice's name: a viewer shows a hundred, and each slice repeats them."""
BETWEEN = b",\n"
FRACTIONS = np.array([f".{i:03d}" for i in range(1000)], object)  # of a microsecond, by nanoseconds


def overlay_pieces(overlay: Overlay) -> Iterator[bytes]:
    """The overlay as a Chrome trace of its own, which Perfetto opens, a piece at a time. Times are
    microseconds with three decimals on the recording's own clock, written as exact decimals (floats
    would not hold them), and `baseTimeNanoseconds` is the recording's: the events lie beside those
    of a Kineto trace."""
    yield orjson.dumps({"displayTimeUnit": "ms", "baseTimeNanoseconds": overlay.epoch_ns})[:-1]
    yield b',"traceEvents":[\n'
    yield from _events(overlay)
    yield b"\n]}\n"


def merged_traces(overlay: Overlay, recording: Iterable[bytes]) -> Iterator[bytes]:
    """The (decompressed) JSON of the recording, read and given a piece at a time, with the
    overlay's events before its own. Raises UnreadableInputError where the recording has no list of
    events to put them into."""
    pieces = iter(recording)
    kept = b""
    begun = False
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
        kept = text[cut:]
        begun = begun or bool(text[:cut].strip())
    raise UnreadableInputError(
        f"{overlay.path}: it has no list of events that an overlay could be put into"
    )


def _rest_of(text: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the overlay's events: a comma, if the recording has events of its own, and
    these."""
    while not text.strip() and (more := next(pieces, None)) is not None:
        text += more
    if text.lstrip()[:1] != b"]":
        yield b","
    yield text
    yield from pieces


def _events(overlay: Overlay) -> Iterator[bytes]:
    process = PROCESS + (overlay.rank or 0)
    rank = "" if overlay.rank is None else f" of rank {overlay.rank}"
    yield _about(process, 0, "process_name", name=f"traceanalyzer: analysis{rank}")
    yield BETWEEN + _about(process, 0, "process_sort_index", sort_index=-1)
    for thread, track in enumerate(overlay.tracks, 1):
        yield BETWEEN + _about(process, thread, "thread_name", name=track.title)
        yield BETWEEN + _about(process, thread, "thread_sort_index", sort_index=thread)
        rests = _rests(map(_said, track.labels), cat="traceanalyzer", pid=process, tid=thread)
        for block in _blocks(track.start):
            yield _slices(
                track.start[block], track.duration[block], rests[track.label[block]].tolist()
            )
    for counter in overlay.counters:
        rest = _rests([{"name": counter.title}], pid=process)[0]
        for block in _blocks(counter.time):
            ends = [f',"args":{{"ops":{one}}}{rest}' for one in counter.value[block].tolist()]
            yield _interleaved([',\n{"ph":"C","ts":'] * len(ends), *_us(counter.time[block]), ends)


def _blocks(column: I64) -> list[slice]:
    return [slice(i, i + EVENTS_A_PIECE) for i in range(0, len(column), EVENTS_A_PIECE)]


def _about(process: int, thread: int, what: str, **args: Any) -> bytes:
    return _json({"ph": "M", "pid": process, "tid": thread, "name": what, "args": args})


def _said(label: Label) -> dict[str, Any]:
    name = ": ".join(text for text in (label.kind, label.name) if text)
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
    return {"name": name, "args": {"detail": label.detail}} if label.detail else {"name": name}


def _rests(shared: Iterable[dict[str, Any]], **where: Any) -> NDArray[np.object_]:
    """The ends of events: values that many of them share, as JSON. Written once: there may be a
    million events."""
    return np.array(
        ["," + _json(where | one)[1:].decode() for one in shared],
        object,
    )


def _slices(start: I64, duration: I64, rests: list[str]) -> bytes:
    """Slices as JSON, those without a length as moments."""
    kind = [',\n{"ph":"X","dur":'] * len(start)
    (microseconds, fraction) = _us(duration)
    for i in np.flatnonzero(duration == 0).tolist():
        kind[i] = ',\n{"ph":"i","s":"t"'
        microseconds[i] = ""
        fraction[i] = ""
    return _interleaved(kind, microseconds, fraction, [',"ts":'] * len(start), *_us(start), rests)


def _interleaved(*columns: list[str]) -> bytes:
    """The texts row by row: twice as fast as to put each row together."""
    texts = [""] * (len(columns) * len(columns[0]))
    for i, column in enumerate(columns):
        texts[i :: len(columns)] = column
    return "".join(texts).encode()


def _json(values: dict[str, Any]) -> bytes:
    try:
        text = orjson.dumps(values)
    except TypeError:  # text that is no Unicode
        text = orjson.dumps(as_plain(values))
    return without_unseen(text)


def _us(ns: I64) -> tuple[list[str], list[str]]:
    """Nanoseconds as decimal numbers of microseconds: what stands before the point, and what
    follows from there on."""
    microseconds, rest = np.divmod(np.abs(ns), 1000)
    texts = orjson.dumps(microseconds, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode().split(",")
    for i in np.flatnonzero(ns < 0).tolist():
        texts[i] = f"-{texts[i]}"
    return texts, FRACTIONS[rest].tolist()
