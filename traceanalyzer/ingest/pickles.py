"""Plain values out of a pickle that nobody vouches for, opcode by opcode: containers, numbers, texts and the memo.

Nothing is imported, called or built, and no class is ever made; any other opcode is refused by name. Both writers are
read: Python's (protocols 2 to 5) and PyTorch's own in C++ (`torch::jit::Pickler`, protocol 2).
https://github.com/python/cpython/blob/main/Lib/pickletools.py has the opcodes.
"""

import pickle
import re
from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, ClassVar, NoReturn, Protocol

from traceanalyzer.base.errors import RefusedPickleError

MAX_DEPTH = 64
"""Containers inside containers; a memory snapshot has six."""
MAX_OPEN = 20_000
"""Containers that are not yet part of anything taken out; a memory snapshot has a few hundred."""
MAX_TEXT = 1 << 20
"""Bytes of one text. The longest in snapshots are sources of generated modules, some ten KiB."""
MAX_VALUE_RATE = 8
"""Values kept (stack, memo) for each so many bytes read, above `MIN_VALUES`; snapshots have one in thirty."""
MIN_VALUES = 20_000
MAX_UNFOLDED = 5_000_000
"""Values of plain data when what stands in several places is counted in each."""
MAX_KEPT = 3_000
"""Values of opcodes kept at a time."""
MARGIN = 300
"""Bytes that any opcode but a long text fits in."""
PIECE = 64 << 10
"""Bytes between two looks at how much is kept."""

PUSH = rb"j.{4}|h.|K.|J.{4}|M..|\x8a(?:\x06.{6}|\x07.{7}|\x05.{5}|\x08.{8}|\x09.{9}|\x04.{4}|\x00)|[N\x88\x89]"
"""Opcodes that only push a value: of the memo (`j`, `h`), an int, None, a bool. Four of five opcodes are."""
RUN = re.compile(b"(?:" + PUSH + b")+", re.DOTALL).match
VALUES = re.compile(PUSH, re.DOTALL).findall
PUSHES = bytes(op in b"jhKJM\x8aN\x88\x89" for op in range(256))
STOP = ord(".")
OPCODES = {value[0]: name for name, value in vars(pickle).items() if name.isupper() and isinstance(value, bytes)}
FAULTS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct_error, EOFError)
"""What a damaged file makes of the interpreter; UnicodeDecodeError is a ValueError."""
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}
_U4, _U8, _FLOAT = Struct("<I").unpack_from, Struct("<Q").unpack_from, Struct(">d").unpack_from
_KEYS = frozenset({str, int, float, bool, type(None)})


def read_untrusted_pickle(read: Callable[[], bytes]) -> Any:
    """The value that a pickle of dictionaries, lists, tuples, numbers, texts, bools and None states. `read` gives the
    next piece, b"" at the end. Raises RefusedPickleError for anything else, for damage, and for more than so long a
    file would hold."""
    value = Interpreter(read).value()
    _check_unfolded(value, {}, 0)
    return value


class Memo(Protocol):
    """What MEMOIZE and PUT keep."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __setitem__(self, index: int, value: Any, /) -> None: ...
    def append(self, value: Any, /) -> None:
        """Keep a value under the next index."""


class Interpreter:
    """Plain values. A subclass may take containers out as soon as they are complete."""

    what: ClassVar[str] = "dump of plain values"

    def __init__(self, read: Callable[[], bytes], memo: Memo | None = None) -> None:
        self._pieces = (piece[at : at + PIECE] for piece in iter(read, b"") for at in range(0, len(piece), PIECE))
        self.stack: list[Any] = []
        self.memo: Memo = [] if memo is None else memo
        self.marks: list[tuple[int, int, int]] = []
        """For each mark the sizes of stack and memo there, and how many containers were open."""
        self.pushed = _Pushed(self.memo)
        self.data = b""
        self.before = 0
        """Bytes of the file before `data`."""
        self.safe = -1
        """Up to there any opcode but a long text is whole."""
        self.is_open = 0
        """Containers that are part of nothing that was taken out."""

    def value(self) -> Any:
        """What the pickle states. Raises RefusedPickleError."""
        try:
            return self._interpret()
        except FAULTS as error:
            raise RefusedPickleError(f"damaged ({type(error).__name__}: {error})") from error

    def _interpret(self) -> Any:
        handlers, stack, value_of = self._handlers(), self.stack, self.pushed.__getitem__
        at = 0
        while True:
            if at > self.safe:
                at = self._refill(at)
            data = self.data
            op = data[at]
            if PUSHES[op]:
                run = RUN(data, at, self.safe + MARGIN)
                if run is None:
                    refuse(f"a number of {data[at + 1]} bytes, or the file is cut off")
                stack += map(value_of, VALUES(run[0]))
                at = run.end()
            elif op == STOP:
                if len(stack) != 1 or self.marks:
                    raise ValueError("it ends before its values do")
                return stack[0]
            else:
                at = handlers[op](at + 1)

    def _handlers(self) -> list[Callable[[int], int]]:
        """By opcode what handles it: takes where its argument begins, gives where the next opcode does."""
        known = {
            0x94: self._memoize,  # MEMOIZE
            0x28: self._mark,  # MARK, "("
            0x7D: self._empty_dict,  # EMPTY_DICT, "}"
            0x75: self._set_items,  # SETITEMS, "u"
            0x8C: self._short_text,  # SHORT_BINUNICODE
            0x5D: self._empty_list,  # EMPTY_LIST, "]"
            0x65: self._appends,  # APPENDS, "e"
            0x71: self._put,  # BINPUT, "q"
            0x72: self._long_put,  # LONG_BINPUT, "r"
            0x58: self._text,  # BINUNICODE, "X"
            0x8D: self._long_text,  # BINUNICODE8
            0x61: self._append,  # APPEND, "a"
            0x73: self._set_item,  # SETITEM, "s"
            0x29: lambda at: self._tuple(at, 0),  # EMPTY_TUPLE, ")"
            0x85: lambda at: self._tuple(at, 1),  # TUPLE1
            0x86: lambda at: self._tuple(at, 2),  # TUPLE2
            0x87: lambda at: self._tuple(at, 3),  # TUPLE3
            0x74: lambda at: self._tuple(at, len(self.stack) - self.marks.pop()[0]),  # TUPLE, "t"
            0x6C: self._list,  # LIST, "l"
            0x64: self._dict,  # DICT, "d"
            0x47: self._float,  # BINFLOAT, "G"
            0x95: self._frame,  # FRAME
            0x80: self._protocol,  # PROTO
        }
        return [known.get(op, self._unknown) for op in range(256)]

    def _refill(self, at: int) -> int:
        """Read on; where the same place is in the new data."""
        piece = next(self._pieces, b"")
        self.before += at
        self.data = self.data[at:] + piece
        self.safe = len(self.data) - MARGIN if piece else len(self.data)
        if len(self.stack) + len(self.memo) > MIN_VALUES + self.before // MAX_VALUE_RATE:
            refuse(f"more values than a {self.what} of its size has")
        return 0

    def _open(self, container: Any) -> None:
        self.is_open += 1
        if self.is_open > self.most_open():
            refuse("too many containers that are part of nothing")
        self.stack.append(container)

    # what a subclass may make of containers and texts

    def most_open(self) -> int:
        """How many containers may be open; here none is ever taken out."""
        return MAX_OPEN + (self.before + len(self.data)) // MAX_VALUE_RATE

    def text(self, value: str) -> str:
        """What stands for a text."""
        return value

    def taken(self, container: dict[Any, Any]) -> Any:
        """What stands for a dictionary that is complete."""
        return container

    def extend(self, target: Any, items: list[Any]) -> None:
        """Append to a list."""
        if type(target) is not list:
            raise TypeError("items that make no list")
        target += items

    def update(self, target: Any, items: list[Any]) -> None:
        """Add to a dictionary: keys and values in turn."""
        keys = items[::2]
        if type(target) is not dict or not _KEYS.issuperset(map(type, keys)):
            raise TypeError("items that make no dictionary")
        target.update(zip(keys, items[1::2], strict=True))

    def tuple_of(self, values: tuple[Any, ...]) -> Any:
        """What stands for a tuple."""
        return values

    # opcodes

    def _unknown(self, at: int) -> int:
        op = self.data[at - 1]
        refuse(f"the pickle opcode {OPCODES.get(op, f'{op:#x}')}, which no {self.what} has")

    def _memoize(self, at: int) -> int:
        self.memo.append(self.stack[-1])
        return at

    def _mark(self, at: int) -> int:
        if len(self.marks) >= MAX_DEPTH:
            refuse(f"more than {MAX_DEPTH} containers inside one another")
        self.marks.append((len(self.stack), len(self.memo), self.is_open))
        return at

    def _empty_dict(self, at: int) -> int:
        self._open({})
        return at

    def _empty_list(self, at: int) -> int:
        self._open([])
        return at

    def _since(self, start: int) -> list[Any]:
        """The values since there, taken off the stack."""
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _set_items(self, at: int) -> int:
        items = self._since(self.marks.pop()[0])
        self.update(self.stack[-1], items)
        return at

    def _set_item(self, at: int) -> int:
        items = self._since(len(self.stack) - 2)
        self.update(self.stack[-1], items)
        return at

    def _dict(self, at: int) -> int:
        target: dict[Any, Any] = {}
        self.update(target, self._since(self.marks.pop()[0]))
        self._open(self.taken(target))
        return at

    def _appends(self, at: int) -> int:
        items = self._since(self.marks.pop()[0])
        self.extend(self.stack[-1], items)
        return at

    def _append(self, at: int) -> int:
        item = self.stack.pop()
        self.extend(self.stack[-1], [item])
        return at

    def _list(self, at: int) -> int:
        target: list[Any] = []
        self.extend(target, self._since(self.marks.pop()[0]))
        self._open(target)
        return at

    def _tuple(self, at: int, size: int) -> int:
        if size > len(self.stack):
            raise ValueError("a tuple of more than there is")
        self._open(self.tuple_of(tuple(self._since(len(self.stack) - size))))
        return at

    def _short_text(self, at: int) -> int:
        begin = at + 1
        return self._push_text(begin, begin + self.data[at])

    def _text(self, at: int) -> int:
        return self._read_text(at + 4, _U4(self.data, at)[0])

    def _long_text(self, at: int) -> int:
        return self._read_text(at + 8, _U8(self.data, at)[0])

    def _read_text(self, at: int, size: int) -> int:
        if size > MAX_TEXT:
            refuse(f"a text of {size:,} bytes")
        while len(self.data) < at + size and (piece := next(self._pieces, b"")):
            self.data += piece
            self.safe = len(self.data) - MARGIN
        return self._push_text(at, at + size)

    def _push_text(self, begin: int, end: int) -> int:
        text = self.text(str(self.data[begin:end], "utf-8"))
        if len(self.data) < end:
            raise EOFError("the file is cut off")
        self.stack.append(text)
        return end

    def _put(self, at: int) -> int:
        self._keep(self.data[at])
        return at + 1

    def _long_put(self, at: int) -> int:
        self._keep(_U4(self.data, at)[0])
        return at + 4

    def _keep(self, index: int) -> None:
        if index < len(self.memo):
            self.memo[index] = self.stack[-1]
            self.forget()
        elif index == len(self.memo):
            self.memo.append(self.stack[-1])
        else:
            refuse(f"the memo index {index}, which nothing before leads up to")

    def forget(self) -> None:
        """The memo has changed: what was learned of it no longer holds."""
        self.pushed.clear()

    def _float(self, at: int) -> int:
        self.stack.append(_FLOAT(self.data, at)[0])
        return at + 8

    def _frame(self, at: int) -> int:
        _U8(self.data, at)
        return at + 8

    def _protocol(self, at: int) -> int:
        if self.data[at] > 5:
            refuse(f"pickle protocol {self.data[at]}")
        return at + 1


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


def refuse(why: str) -> NoReturn:
    """Refuse the file, saying why."""
    raise RefusedPickleError(why)


def _check_unfolded(value: Any, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Size and height of a value with all in it, for whoever walks through it: the memo can state a value inside
    itself, or double it line by line."""
    if type(value) not in (dict, list, tuple):
        return 1, 0
    if id(value) not in known:
        if depth > MAX_DEPTH:
            refuse("containers inside themselves")
        inside = value.values() if type(value) is dict else value
        sizes = [_check_unfolded(one, known, depth + 1) for one in inside]
        known[id(value)] = 1 + sum(size for size, _ in sizes), 1 + max((height for _, height in sizes), default=0)
    size, height = known[id(value)]
    if size > MAX_UNFOLDED or height > MAX_DEPTH:
        refuse("values that stand in too many places")
    return size, height
