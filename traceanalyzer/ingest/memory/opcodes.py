"""Plain values out of a pickle, opcode by opcode: containers, numbers, texts and the memo, nothing else.

Nothing is imported, called or built that a memory snapshot does not hold; any other opcode is refused by name.
Both writers are read: Python's (protocols 2 to 5) and PyTorch's own in C++ (`torch::jit::Pickler`, protocol 2).
What a dictionary stands for is taken out as soon as it is complete (`Shapes.take`), so that a history of a gigabyte
never stands in memory as Python objects. https://github.com/python/cpython/blob/main/Lib/pickletools.py has the
opcodes.
"""

from __future__ import annotations

import pickle
import re
from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, NoReturn

from traceanalyzer.errors import RefusedSnapshotError
from traceanalyzer.ingest.memory.memo import Memo
from traceanalyzer.ingest.memory.shapes import EVENT
from traceanalyzer.ingest.memory.templates import PUSH, Templates

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.ingest.memory.shapes import Shapes

Stack = list[Any]
Marks = list[tuple[int, int, int]]
"""For each mark the sizes of stack and memo there, and how many containers were open."""

MAX_DEPTH = 64
"""Containers inside containers; a snapshot has six."""
MAX_OPEN = 20_000
"""Containers that are not yet part of anything taken out; a snapshot has a few hundred."""
MAX_TEXT = 1 << 20
"""Bytes of one text. The longest in snapshots are sources of generated modules, some ten KiB."""
MAX_VALUE_RATE = 8
"""Values kept (stack, memo) for each so many bytes read, above `MIN_VALUES`; snapshots have one in thirty."""
MIN_VALUES = 20_000
MAX_KEPT = 3_000
"""Values of opcodes kept at a time."""
MARGIN = 300
"""Bytes that any opcode but a long text fits in."""
PIECE = 64 << 10
"""Bytes between two looks at how much is kept."""

RUN = re.compile(b"(?:" + PUSH + b")+", re.DOTALL).match
VALUES = re.compile(PUSH, re.DOTALL).findall
PUSHES = bytes(op in b"jhKJM\x8aN\x88\x89" for op in range(256))
OPCODES = {value[0]: name for name, value in vars(pickle).items() if name.isupper() and isinstance(value, bytes)}
FAULTS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct_error, EOFError)
"""What a damaged file makes of the interpreter; UnicodeDecodeError is a ValueError."""


def interpret(read: Callable[[], bytes], shapes: Shapes) -> Any:
    """The value that the pickle states. `read` gives the next piece, b"" at the end. Raises RefusedSnapshotError."""
    try:
        return _interpret(_pieces(read), shapes)
    except FAULTS as error:
        raise RefusedSnapshotError(f"damaged ({type(error).__name__}: {error})") from error


def _pieces(read: Callable[[], bytes]) -> Callable[[], bytes]:
    """The same bytes in smaller pieces."""
    pieces = (piece[at : at + PIECE] for piece in iter(read, b"") for at in range(0, len(piece), PIECE))
    return lambda: next(pieces, b"")


def refuse(why: str) -> NoReturn:
    """Refuse the file, saying why."""
    raise RefusedSnapshotError(why)


def _unsigned(size: int) -> Callable[..., tuple[int]]:
    return Struct({1: "<B", 2: "<H", 4: "<I", 8: "<Q"}[size]).unpack_from


# One loop with everything in local names, its branches by how often they are met: a call for each of four million
# opcodes a second would halve that. Those that are seldom met and need nothing but the stack are functions (`SELDOM`).
def _interpret(read: Callable[[], bytes], shapes: Shapes) -> Any:  # noqa: C901
    stack: Stack = []
    memo = Memo()
    marks: Marks = []
    push, remember, take = stack.append, memo.append, shapes.take
    u4, u8 = _unsigned(4), _unsigned(8)
    pushed = _Pushed(memo)
    value_of = pushed.__getitem__
    templates = Templates(memo, value_of, shapes)
    is_open = begun = 0
    data = b""
    at, safe, before = 0, -1, 0
    while True:
        if at > safe:
            piece = read()
            before += at
            data, at = data[at:] + piece, 0
            safe = len(data) - MARGIN if piece else len(data)
            if len(stack) + len(memo) > MIN_VALUES + before // MAX_VALUE_RATE:
                refuse("more values than a snapshot of its size has")
            shapes.after(before)
        op = data[at]
        if PUSHES[op]:
            run = RUN(data, at, safe + MARGIN)
            if run is None:
                refuse(f"a number of {data[at + 1]} bytes, or the file is cut off")
            stack += map(value_of, VALUES(run[0]))
            at = run.end()
            continue
        at += 1
        if is_open > MAX_OPEN:
            refuse("too many containers that are part of nothing")
        if op == 0x94:  # MEMOIZE
            remember(stack[-1])
        elif op == 0x28:  # MARK, "("
            if len(marks) >= MAX_DEPTH:
                refuse(f"more than {MAX_DEPTH} containers inside one another")
            marks.append((len(stack), len(memo), is_open))
        elif op == 0x7D:  # EMPTY_DICT, "}"
            after = templates.events(data, at - 1, safe + MARGIN, push)
            if after > at - 1:
                at = after
                continue
            begun = before + at - 1
            is_open += 1
            push({})
        elif op == 0x75:  # SETITEMS, "u"
            start, kept, was_open = marks.pop()
            target = stack[start - 1]
            items = stack[start:]
            del stack[start:]
            _update(target, items)
            taken = take(target)
            if taken is not None:
                stack[-1] = taken
                is_open = was_open - 1
                if taken is EVENT and begun >= before:
                    templates.learn(data[begun - before : at])
                if kept and memo[kept - 1] is target:
                    memo[kept - 1] = taken
                for i in range(kept, len(memo)):
                    memo[i] = shapes.kept(memo[i])
        elif op == 0x8C:  # SHORT_BINUNICODE
            size = data[at]
            at += 1
            push(shapes.text(str(data[at : at + size], "utf-8")))
            if len(data) < at + size:
                raise EOFError("the file is cut off")
            at += size
        elif op == 0x5D:  # EMPTY_LIST, "]"
            is_open += 1
            push([])
        elif op == 0x65:  # APPENDS, "e"
            start = marks.pop()[0]
            items = stack[start:]
            del stack[start:]
            shapes.extend(stack[-1], items)
        elif op == 0x71:  # BINPUT, "q"
            _put(memo, data[at], stack[-1], pushed, templates)
            at += 1
        elif op == 0x72:  # LONG_BINPUT, "r"
            _put(memo, u4(data, at)[0], stack[-1], pushed, templates)
            at += 4
        elif op in (0x58, 0x8D):  # BINUNICODE, "X", and BINUNICODE8
            size = u4(data, at)[0] if op == 0x58 else u8(data, at)[0]
            at += 4 if op == 0x58 else 8
            if size > MAX_TEXT:
                refuse(f"a text of {size:,} bytes")
            while len(data) < at + size:
                piece = read()
                if not piece:
                    raise EOFError("the file is cut off")
                data += piece
                safe = len(data) - MARGIN
            push(shapes.text(str(data[at : at + size], "utf-8")))
            at += size
        elif op in SELDOM:
            is_open += SELDOM[op](stack, marks, shapes)
        elif op == 0x47:  # BINFLOAT, "G"
            push(Struct(">d").unpack_from(data, at)[0])
            at += 8
        elif op == 0x95:  # FRAME
            u8(data, at)
            at += 8
        elif op == 0x80:  # PROTO
            if data[at] > 5:
                refuse(f"pickle protocol {data[at]}")
            at += 1
        elif op == 0x2E:  # STOP, "."
            if len(stack) != 1 or marks:
                raise ValueError("it ends before its values do")
            return stack[0]
        else:
            refuse(f"the pickle opcode {OPCODES.get(op, f'{op:#x}')}, which no snapshot has")


class _Pushed(dict[bytes, Any]):
    """The value that an opcode with its argument pushes, kept where it will always be the same."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo

    def __missing__(self, opcode: bytes) -> Any:
        op = opcode[0]
        if op in b"jh":
            value = self._memo[int.from_bytes(opcode[1:], "little")]
            if type(value) in (list, dict):
                return value
        elif op in b"KM":
            value = int.from_bytes(opcode[1:], "little")
        elif op == 0x8A:  # LONG1, mostly addresses and times: too many to keep
            return int.from_bytes(opcode[2:], "little", signed=True)
        elif op == 0x4A:  # BININT, "J"
            value = int.from_bytes(opcode[1:], "little", signed=True)
        else:
            value = _CONSTANTS[op]
        if len(self) > MAX_KEPT:
            self.clear()
        self[opcode] = value
        return value


_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}


def _put(memo: Memo, index: int, value: Any, pushed: _Pushed, templates: Templates) -> None:
    if index < len(memo):
        memo[index] = value
        pushed.clear()
        templates.forget()
    elif index == len(memo):
        memo.append(value)
    else:
        refuse(f"the memo index {index}, which nothing before leads up to")


def _append(stack: Stack, _: Marks, shapes: Shapes) -> int:
    item = stack.pop()
    shapes.extend(stack[-1], [item])
    return 0


def _set_item(stack: Stack, _: Marks, __: Shapes) -> int:
    items = stack[-2:]
    del stack[-2:]
    _update(stack[-1], items)
    return 0


def _tuple(size: int | None, stack: Stack, marks: Marks, _: Shapes) -> int:
    """Of so many values, None: of those since the last mark."""
    start = marks.pop()[0] if size is None else len(stack) - size
    values = tuple(stack[start:])
    if start < 0 or not all(isinstance(value, int | float | str) for value in values):
        refuse("a tuple of more than numbers and texts")
    stack[start:] = [values]
    return 0


def _list(stack: Stack, marks: Marks, shapes: Shapes) -> int:
    start = marks.pop()[0]
    target: list[Any] = []
    items, stack[start:] = stack[start:], [target]
    shapes.extend(target, items)
    return 1


def _dict(stack: Stack, marks: Marks, shapes: Shapes) -> int:
    start = marks.pop()[0]
    target: dict[str, Any] = {}
    _update(target, stack[start:])
    taken = shapes.take(target)
    stack[start:] = [target if taken is None else taken]
    return 1


SELDOM: dict[int, Callable[[Stack, Marks, Shapes], int]] = {
    0x61: _append,  # APPEND, "a"
    0x73: _set_item,  # SETITEM, "s"
    0x29: partial(_tuple, 0),  # EMPTY_TUPLE, ")"
    0x85: partial(_tuple, 1),  # TUPLE1
    0x86: partial(_tuple, 2),  # TUPLE2
    0x87: partial(_tuple, 3),  # TUPLE3
    0x74: partial(_tuple, None),  # TUPLE, "t"
    0x6C: _list,  # LIST, "l"
    0x64: _dict,  # DICT, "d"
}
"""What these opcodes do to the stack; each gives how many containers it opens."""


def _update(target: Any, items: list[Any]) -> None:
    keys = items[::2]
    "".join(keys)  # a TypeError unless all are texts
    if type(target) is not dict:
        raise TypeError("items that make no dictionary")
    target.update(zip(keys, items[1::2], strict=True))
