"""What the dictionaries of a snapshot stand for: events, blocks, segments, frames and annotations,
as columns.

A dictionary is known by its keys, whatever its place: that is what PyTorch's writers of any version
agree on."""

from array import array
from typing import Any, Final

import numpy as np

from traceanalyzer.base import RefusedSnapshotError
from traceanalyzer.trace.snapshot import (
    ACTIVE,
    CODE,
    INACTIVE,
    PENDING,
    AllocationEvents,
    Annotation,
    Frame,
    MemoryBlocks,
    Segment,
    Stack,
)

STATES = {
    "active_allocated": ACTIVE,
    "active_pending_free": PENDING,
    "active_awaiting_free": PENDING,
    "inactive": INACTIVE,
}
ACTION_BITS = 8  # width in an event's fourth number, below the stack's index
NUMBERS = 4  # of an event while it is taken in: time, address, size, and stack with action
EVENTS_AT_ONCE = 1 << 15
"""Events that are put into columns together; a column has the bits that it needs, an event taken in
has 256."""
WIDER = {"b": "h", "h": "i", "i": "q"}  # the next width of a column, in `array`'s names
TEXT_COST = 120  # bytes that Python needs for a text beside its characters, in a dictionary
MIN_TEXTS = (
    8 << 20
)  # bytes of different texts in any snapshot; generated modules' sources are some MiB
NO_TIME = -1  # torch_npu writes no times
MAX_FRAMES = 4096  # of one stack; Python's own limit is a thousand deep


class TakenOut:
    """Stands where a dictionary stood that was taken out."""

    __slots__ = ()


class KeptStack:
    """Stands where the list of a stack's frames stood."""

    __slots__ = ("row",)

    def __init__(self, row: int) -> None:
        self.row = row


EVENT: Final = TakenOut()
BLOCK: Final = TakenOut()
ANNOTATION: Final = TakenOut()


class TakenSegment:
    """A segment, with how many blocks the rows before its own were."""

    __slots__ = ("blocks", "device", "segment")

    def __init__(self, device: int, segment: Segment, blocks: int) -> None:
        self.device = device
        self.segment = segment
        self.blocks = blocks


class Shapes:
    """Collects what the interpreter meets. Raises RefusedSnapshotError, or what its caller takes
    for damage."""

    def __init__(self) -> None:
        self.events = array("q")
        self._columns = [array(code) for code in "iqibh"]
        self._begin_us = 0
        self.blocks = array("q")
        self.annotations: list[Annotation] = []
        self.stacks: list[Stack] = [()]
        self._text_bytes = 0
        self._text_limit = MIN_TEXTS
        self._texts: dict[str, str] = {}
        self._frames: dict[tuple[str, str, int], Frame] = {}
        self._stacks: dict[Stack, KeptStack] = {(): KeptStack(0)}

    def text(self, value: str) -> str:
        """The text, as the object that it was when it was met before: both writers repeat some."""
        known = self._texts.get(value)
        if known is not None:
            return known
        self._text_bytes += TEXT_COST + len(value)
        if self._text_bytes > self._text_limit:
            raise RefusedSnapshotError("more texts than a snapshot has")
        self._texts[value] = value
        return value

    def after(self, read: int) -> None:
        """To be called now and then: texts may take an eighth of the bytes read so far, and
        `MIN_TEXTS`."""
        self._text_limit = MIN_TEXTS + read // 8
        if len(self.events) >= NUMBERS * EVENTS_AT_ONCE:
            self._settle()

    def _settle(self) -> None:
        """Put the events taken in since the last time into columns: arrays that grow in place, not
        pieces to join."""
        rows = np.frombuffer(self.events, np.int64).reshape(-1, NUMBERS)
        time_us, address, size, packed = rows.T
        if not len(self._columns[0]) and len(rows):
            self._begin_us = int(time_us[0])
        parts = (
            time_us - self._begin_us,
            address,
            size,
            packed & ((1 << ACTION_BITS) - 1),
            packed >> ACTION_BITS,
        )
        for number, part in enumerate(parts if len(rows) else ()):
            column = self._columns[number]
            while (limits := np.iinfo(column.typecode)).min > part.min() or part.max() > limits.max:
                column = array(WIDER[column.typecode], column)
            column.frombytes(part.astype(column.typecode).tobytes())
            self._columns[number] = column
        self.events = array("q")

    def take(self, values: dict[str, Any]) -> Any:
        """What stands for a complete dictionary from now on; None where it stays what it is."""
        if "action" in values:
            address = values.get("addr")
            address = values.get("device_free", 0) if address is None else address
            about = values.get("size", 0), values.get("time_us", NO_TIME), values.get("frames", ())
            self.event(values["action"], address, *about)
            return EVENT
        if "filename" in values:
            return self._frame(values)
        if "blocks" in values:
            return self._segment(values)
        if "state" in values:
            history: Any = values.get("history") or ({},)  # as PyTorch before 2.1 wrote it
            size = values["size"]
            requested = values.get("requested_size", history[0].get("real_size", size))
            stack = self.stack(values.get("frames", history[0].get("frames", ()))).row
            state = STATES.get(values["state"], INACTIVE)
            self.blocks.extend((values.get("address", NO_TIME), size, requested, state, stack))
            return BLOCK
        if "stage" in values:
            numbers = int(values.get("device", 0)), int(values.get("time_us", NO_TIME))
            self.annotations.append(
                Annotation(str(values.get("name", "")), values["stage"] == "START", *numbers)
            )
            return ANNOTATION
        return None

    def kept(self, value: Any) -> Any:
        """What the memo keeps of a value inside a dictionary that was taken out."""
        if type(value) is list and (not value or type(value[0]) is Frame):
            return self.stack(value)
        if type(value) in (list, dict):
            value.clear()
        return value

    def extend(self, target: Any, items: list[Any]) -> None:
        """Append to a list; of what was taken out it keeps the number."""
        if type(target) is not list:
            raise TypeError("items that make no list")
        if items and type(items[0]) is TakenOut:
            if items.count(items[0]) != len(items):
                raise TypeError("a list of different things")
            items = [len(items)]
        target += items

    def event(self, action: str, address: int, size: int, time_us: int, frames: Any) -> None:
        """Take an event in."""
        row = frames.row if type(frames) is KeptStack else self.stack(frames).row
        self.events.extend((time_us, address, size, row << ACTION_BITS | CODE.get(action, 0)))

    def _frame(self, values: dict[str, Any]) -> Frame:
        key = str(values.get("name", "")), str(values["filename"]), int(values.get("line", 0))
        if key not in self._frames:
            self._frames[key] = Frame(*key)
        return self._frames[key]

    def stack(self, frames: Any) -> KeptStack:
        """The stack of these frames, the same for the same ones."""
        if type(frames) is KeptStack:
            return frames
        stack = tuple(frames)
        kept = self._stacks.get(stack)
        if kept is None:
            if len(stack) > MAX_FRAMES or any(type(frame) is not Frame for frame in stack):
                raise TypeError("a stack of other things than frames")
            kept = self._stacks[stack] = KeptStack(len(self.stacks))
            self.stacks.append(stack)
        return kept

    def _segment(self, values: dict[str, Any]) -> TakenSegment:
        segment = Segment(
            int(values["address"]),
            int(values["total_size"]),
            int(values.get("stream", 0)),
            values.get("segment_type") == "small",
            bool(values.get("is_expandable", False)),
            self.stack(values.get("frames", ())).row,
        )
        return TakenSegment(int(values.get("device", 0)), segment, sum(values["blocks"]))

    def event_columns(self) -> AllocationEvents:
        """All events."""
        self._settle()
        return AllocationEvents(
            self._begin_us, *(np.frombuffer(column, column.typecode) for column in self._columns)
        )

    def block_columns(self, segment_blocks: list[int]) -> MemoryBlocks:
        """All blocks; `segment_blocks` is how many each segment has, in file order."""
        rows = np.frombuffer(self.blocks, np.int64).reshape(-1, 5)
        if sum(segment_blocks) != len(rows) or min(segment_blocks, default=0) < 0:
            raise RefusedSnapshotError("damaged (blocks without a segment)")
        owner = np.repeat(np.arange(len(segment_blocks)), segment_blocks)
        address, size, requested, state, stack = rows.T
        return MemoryBlocks(address, size, requested, state, stack, owner)


FREE: Final = object()


class PickleMemo:
    """What a pickle's memo keeps, in four bytes for nearly all of it: a history has an entry an
    event, and one a stack, and these take no more than their place."""

    def __init__(self) -> None:
        self._places = array("i")
        self._values: list[Any] = [EVENT]
        self._of_stack: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Any:
        return self._values[self._places[index]]

    def __setitem__(self, index: int, value: Any) -> None:
        old = self._places[index]
        known = self._values[old]
        if known is value:
            return
        if known is not EVENT and type(known) is not KeptStack:  # only this index had it
            self._values[old] = FREE
            while self._values[-1] is FREE:
                self._values.pop()
        self._places[index] = self._place(value)

    def append(self, value: Any) -> None:
        """Keep a value under the next index."""
        self._places.append(self._place(value))

    def append_event(self) -> None:
        """Keep that an event was there."""
        self._places.append(0)

    def _place(self, value: Any) -> int:
        if value is EVENT:
            return 0
        place = len(self._values)
        if type(value) is KeptStack:
            place = self._of_stack.setdefault(value.row, place)
        if place == len(self._values):
            self._values.append(value)
        return place
