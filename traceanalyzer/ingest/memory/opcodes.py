"""A snapshot's pickle, which nobody vouches for, opcode by opcode: containers, numbers, texts and
the memo.

What a dictionary stands for is taken out as soon as it is complete (`Shapes.take`), so that a
history of a gigabyte never stands in memory as Python objects. Nothing is imported, called or
built, and no class is ever made; any other opcode is refused by name. Both writers are read:
Python's (protocols 2 to 5) and PyTorch's own in C++ (`torch::jit::Pickler`, protocol 2).
https://github.com/python/cpython/blob/main/Lib/pickletools.py has the opcodes."""

import pickle
import re
from collections.abc import Callable
from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import Any, NoReturn

from traceanalyzer.base import RefusedSnapshotError, regex
from traceanalyzer.ingest.memory.shapes import EVENT, PickleMemo, Shapes
from traceanalyzer.ingest.memory.templates import PUSH, Templates

MAX_DEPTH = 64  # containers inside containers; a memory snapshot has six
MAX_OPEN = 20_000
"""Containers that are not yet part of anything taken out; a memory snapshot has a few hundred."""
MAX_TEXT = (
    1 << 20
)  # bytes of one text. The longest in snapshots are sources of generated modules, some ten KiB
MAX_VALUE_RATE = 8
"""Values kept (stack, memo) for each so many bytes read, above `MIN_VALUES`; snapshots have one in
thirty."""
MIN_VALUES = 20_000
MAX_KEPT = 3_000  # values of opcodes kept at a time
MARGIN = 300  # bytes that any opcode but a long text fits in
PIECE = 64 << 10  # bytes between two looks at how much is kept
RUN = regex(b"(?:" + PUSH + b")+", re.DOTALL).match
VALUES = regex(PUSH, re.DOTALL).findall
PUSHES = bytes(op in b"jhKJM\x8aN\x88\x89" for op in range(256))
STOP = ord(".")
OPCODES = {
    value[0]: name
    for name, value in vars(pickle).items()
    if name.isupper() and isinstance(value, bytes)
}
FAULTS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct_error, EOFError)
"""What a damaged file makes of the interpreter; UnicodeDecodeError is a ValueError."""
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}
_U4 = Struct("<I").unpack_from
_U8 = Struct("<Q").unpack_from
_FLOAT = Struct(">d").unpack_from


def interpret(read: Callable[[], bytes], shapes: Shapes) -> Any:
    """The value that the pickle states. `read` gives the next piece, b"" at the end. Raises
    RefusedSnapshotError."""
    try:
        return _Interpreter(read, shapes).value()
    except FAULTS as error:
        raise RefusedSnapshotError(f"damaged ({type(error).__name__}: {error})") from error


class _Interpreter:
    def __init__(self, read: Callable[[], bytes], shapes: Shapes) -> None:
        self._pieces = (
            piece[at : at + PIECE]
            for piece in iter(read, b"")
            for at in range(0, len(piece), PIECE)
        )
        self._shapes = shapes
        self._stack: list[Any] = []
        self._memo = PickleMemo()
        self._marks: list[tuple[int, int, int]] = []
        """For each mark the sizes of stack and memo there, and how many containers were open."""
        self._pushed = _Pushed(self._memo)
        self._templates = Templates(self._memo, self._pushed.__getitem__, shapes)
        self._data = b""
        self._before = 0  # bytes of the file before `data`
        self._safe = -1  # up to there any opcode but a long text is whole
        self._is_open = 0  # containers that are part of nothing that was taken out
        # where in the file the last dictionary began that was not read by a template
        self._begun = 0

    def value(self) -> Any:
        """What the pickle states."""
        handlers = self._handlers()
        stack = self._stack
        value_of = self._pushed.__getitem__
        at = 0
        while True:
            if at > self._safe:
                piece = next(self._pieces, b"")
                self._before += at
                self._data = self._data[at:] + piece
                at = 0
                self._safe = len(self._data) - MARGIN if piece else len(self._data)
                if len(stack) + len(self._memo) > MIN_VALUES + self._before // MAX_VALUE_RATE:
                    refuse("more values than a snapshot of its size has")
                self._shapes.after(self._before)
            data = self._data
            op = data[at]
            if PUSHES[op]:
                run = RUN(data, at, self._safe + MARGIN)
                if run is None:
                    refuse(f"a number of {data[at + 1]} bytes, or the file is cut off")
                stack += map(value_of, VALUES(run[0]))
                at = run.end()
            elif op == STOP:
                if len(stack) != 1 or self._marks:
                    raise ValueError("it ends before its values do")
                return stack[0]
            else:
                at = handlers[op](at + 1)

    def _handlers(self) -> list[Callable[[int], int]]:
        """By opcode what handles it: takes where its argument begins, gives where the next opcode
        does."""
        known: dict[int, Callable[[int], int]] = {
            0x94: self._memoize,  # MEMOIZE
            0x28: self._mark,  # MARK, "("
            0x7D: self._empty_dict,  # EMPTY_DICT, "}"
            0x75: self._set_items,  # SETITEMS, "u"
            0x8C: lambda at: self._push_text(at + 1, at + 1 + self._data[at]),  # SHORT_BINUNICODE
            0x5D: lambda at: self._open([], at),  # EMPTY_LIST, "]"
            0x65: self._appends,  # APPENDS, "e"
            0x71: lambda at: self._keep(self._data[at], at + 1),  # BINPUT, "q"
            0x72: lambda at: self._keep(_U4(self._data, at)[0], at + 4),  # LONG_BINPUT, "r"
            0x58: lambda at: self._read_text(at + 4, _U4(self._data, at)[0]),  # BINUNICODE, "X"
            0x8D: lambda at: self._read_text(at + 8, _U8(self._data, at)[0]),  # BINUNICODE8
            0x61: self._append,  # APPEND, "a"
            0x73: self._set_item,  # SETITEM, "s"
            **{
                op: partial(self._tuple, size=size)
                for size, op in enumerate((0x29, 0x85, 0x86, 0x87))
            },  # TUPLE1 ...
            0x74: lambda at: self._tuple(at, len(self._stack) - self._marks.pop()[0]),  # TUPLE, "t"
            0x6C: self._list,  # LIST, "l"
            0x64: self._dict,  # DICT, "d"
            0x47: self._float,  # BINFLOAT, "G"
            0x95: self._frame,  # FRAME
            0x80: self._protocol,  # PROTO
        }
        return [known.get(op, self._unknown) for op in range(256)]

    def _open(self, container: Any, at: int) -> int:
        self._is_open += 1
        if self._is_open > MAX_OPEN:
            refuse("too many containers that are part of nothing")
        self._stack.append(container)
        return at

    def _update(self, target: Any, items: list[Any]) -> None:
        """Add to a dictionary: keys, which are texts, and values in turn."""
        keys = items[::2]
        "".join(keys)  # a TypeError unless all are texts
        if type(target) is not dict:
            raise TypeError("items that make no dictionary")
        target.update(zip(keys, items[1::2], strict=True))

    def _unknown(self, at: int) -> int:
        op = self._data[at - 1]
        refuse(f"the pickle opcode {OPCODES.get(op, f'{op:#x}')}, which no snapshot has")

    def _memoize(self, at: int) -> int:
        self._memo.append(self._stack[-1])
        return at

    def _mark(self, at: int) -> int:
        if len(self._marks) >= MAX_DEPTH:
            refuse(f"more than {MAX_DEPTH} containers inside one another")
        self._marks.append((len(self._stack), len(self._memo), self._is_open))
        return at

    def _empty_dict(self, at: int) -> int:
        after = self._templates.events(self._data, at - 1, self._safe + MARGIN, self._stack.append)
        if after > at - 1:
            return after
        self._begun = self._before + at - 1
        return self._open({}, at)

    def _since(self, start: int) -> list[Any]:
        """The values since there, taken off the stack."""
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _set_items(self, at: int) -> int:
        start, kept, was_open = self._marks.pop()
        items = self._since(start)
        stack = self._stack
        memo = self._memo
        target = stack[-1]
        self._update(target, items)
        taken = self._shapes.take(target)
        if taken is None:
            return at
        stack[-1] = taken
        self._is_open = was_open - 1
        if taken is EVENT and self._begun >= self._before:
            self._templates.learn(self._data[self._begun - self._before : at])
        if kept and memo[kept - 1] is target:
            memo[kept - 1] = taken
        for i in range(kept, len(memo)):
            memo[i] = self._shapes.kept(memo[i])
        return at

    def _set_item(self, at: int) -> int:
        items = self._since(len(self._stack) - 2)
        self._update(self._stack[-1], items)
        return at

    def _dict(self, at: int) -> int:
        target: dict[Any, Any] = {}
        self._update(target, self._since(self._marks.pop()[0]))
        taken = self._shapes.take(target)
        return self._open(target if taken is None else taken, at)

    def _appends(self, at: int) -> int:
        items = self._since(self._marks.pop()[0])
        self._shapes.extend(self._stack[-1], items)
        return at

    def _append(self, at: int) -> int:
        item = self._stack.pop()
        self._shapes.extend(self._stack[-1], [item])
        return at

    def _list(self, at: int) -> int:
        target: list[Any] = []
        self._shapes.extend(target, self._since(self._marks.pop()[0]))
        return self._open(target, at)

    def _tuple(self, at: int, size: int) -> int:
        if size > len(self._stack):
            raise ValueError("a tuple of more than there is")
        values = tuple(self._since(len(self._stack) - size))
        if not all(isinstance(value, int | float | str) for value in values):
            refuse("a tuple of more than numbers and texts")
        return self._open(values, at)

    def _read_text(self, at: int, size: int) -> int:
        if size > MAX_TEXT:
            refuse(f"a text of {size:,} bytes")
        while len(self._data) < at + size and (piece := next(self._pieces, b"")):
            self._data += piece
            self._safe = len(self._data) - MARGIN
        return self._push_text(at, at + size)

    def _push_text(self, begin: int, end: int) -> int:
        if len(self._data) < end:
            raise EOFError("the file is cut off")
        self._stack.append(self._shapes.text(str(self._data[begin:end], "utf-8")))
        return end

    def _keep(self, index: int, after: int) -> int:
        if index < len(self._memo):
            self._memo[index] = self._stack[-1]
            self._pushed.clear()
            self._templates.forget()
        elif index == len(self._memo):
            self._memo.append(self._stack[-1])
        else:
            refuse(f"the memo index {index}, which nothing before leads up to")
        return after

    def _float(self, at: int) -> int:
        self._stack.append(_FLOAT(self._data, at)[0])
        return at + 8

    def _frame(self, at: int) -> int:
        _U8(self._data, at)
        return at + 8

    def _protocol(self, at: int) -> int:
        if self._data[at] > 5:
            refuse(f"pickle protocol {self._data[at]}")
        return at + 1


class _Pushed(dict[bytes, Any]):
    """The value that an opcode with its argument pushes, kept where it will always be the same."""

    def __init__(self, memo: PickleMemo) -> None:
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


def refuse(why: str) -> NoReturn:
    """Refuse the file, saying why."""
    raise RefusedSnapshotError(why)
