"""How much a Parquet file becomes in memory, by the headers of its pages: what it says of itself at
its end need not be true.

Its end (`FileMetaData`) and a page's header (`PageHeader`) are Thrift structs in the compact protocol
(apache/parquet-format). Both are read here: Arrow, asked for a column's facts, ends the process where
they are damaged."""

from collections.abc import Mapping
from typing import Any, BinaryIO

NUMBER_BYTES = 8
LONGEST_HEADER = 1 << 16
DEEPEST = 10  # the end of a file: row groups, columns, their facts, statistics, bounds
MAGIC = b"PAR1"
LENGTH_BYTES = 4  # of the number before it: how long the end is
UNCOMPRESSED, COMPRESSED = 2, 3
OF_KIND = (5, 7, 8)  # the header of a data page, a dictionary page, a data page of version 2
VALUES = 1
ENCODING = {5: 2, 7: 2, 8: 4}
DELTA_BYTE_ARRAY = 7
"""Each text is written as what it shares with the one before and what follows: a file of some kB
may hold as much text as one likes."""
GROUPS, COLUMNS, FACTS = 4, 1, 3
CHUNK_VALUES, CHUNK_BYTES, DATA_AT, DICTIONARY_AT = 5, 7, 9, 11
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST = range(1, 10)
_STRUCT = 12
LONG_LIST = 15  # in place of a count: it follows
Fields = dict[int, Any]
Wanted = Mapping[int, Any]
"""The fields of a struct that are kept, each with those of the structs in it; of a list, in a list."""
Read = tuple[Any, int]  # a value, and the place behind it
NOTHING: Wanted = {}
OF_PAGE: Wanted = {
    UNCOMPRESSED: NOTHING,
    COMPRESSED: NOTHING,
    **{kind: {VALUES: NOTHING, ENCODING[kind]: NOTHING} for kind in OF_KIND},
}
OF_CHUNK: Wanted = dict.fromkeys((CHUNK_VALUES, CHUNK_BYTES, DATA_AT, DICTIONARY_AT), NOTHING)
OF_FILE: Wanted = {GROUPS: [{COLUMNS: [{FACTS: OF_CHUNK}]}]}


def made_bytes(file: BinaryIO) -> int:
    """What all columns take once they are read. Raises ValueError for an end or headers that are
    none, for columns that share their pages, and for an encoding without bounds."""
    total = 0
    for chunk in chunks(file):
        total += max(NUMBER_BYTES * chunk.get(CHUNK_VALUES, 0), _made_of_chunk(file, chunk))
    file.seek(0)
    return total


def chunks(file: BinaryIO) -> list[Fields]:
    """The facts of each column of each group of rows. Raises ValueError."""
    size = file.seek(0, 2)
    tail = LENGTH_BYTES + len(MAGIC)
    file.seek(max(size - tail, 0))
    told = file.read(tail)
    length = int.from_bytes(told[:LENGTH_BYTES], "little")
    if told[LENGTH_BYTES:] != MAGIC or length > size - tail:
        raise ValueError("no Parquet file")
    file.seek(size - tail - length)
    groups = _read(file.read(length), OF_FILE)[0].get(GROUPS, [])
    found = [column.get(FACTS, {}) for group in groups for column in group.get(COLUMNS, [])]
    if sum(max(chunk.get(CHUNK_BYTES, 0), 0) for chunk in found) > size:
        raise ValueError("columns that share their pages")
    return found


def _made_of_chunk(file: BinaryIO, chunk: Fields) -> int:
    # 0 is where no page begins: a column without values has a dictionary alone
    begins = [chunk[at] for at in (DATA_AT, DICTIONARY_AT) if chunk.get(at)]
    at = min(begins, default=0)
    if not at:
        return 0
    end = at + chunk.get(CHUNK_BYTES, 0)
    total = 0
    while at < end:
        file.seek(at)
        header, length = page_header(file.read(LONGEST_HEADER))
        of_page = [(kind, header[kind]) for kind in OF_KIND if kind in header]
        if len(of_page) != 1 or header.get(COMPRESSED, -1) < 0:
            raise ValueError("no header of a page")
        kind, own = of_page[0]
        if own.get(ENCODING[kind]) == DELTA_BYTE_ARRAY:
            raise ValueError("texts that are written by what they share")
        total += max(header.get(UNCOMPRESSED, 0), NUMBER_BYTES * own.get(VALUES, 0))
        at += length + header[COMPRESSED]
    return total


def page_header(data: bytes) -> tuple[Fields, int]:
    """The fields of a header that are needed, structs as the same, and how many bytes it takes.
    Raises ValueError where the bytes are none."""
    return _read(data, OF_PAGE)


def _read(data: bytes, wanted: Wanted) -> tuple[Fields, int]:
    try:
        return _struct(data, 0, wanted, DEEPEST)
    except IndexError as error:
        raise ValueError("a header is cut") from error


def _struct(data: bytes, at: int, wanted: Wanted, deeper: int) -> tuple[Fields, int]:
    found: Fields = {}
    number = 0
    while data[at]:
        delta, kind = divmod(data[at], 16)
        at += 1
        if delta:
            number += delta
        else:
            number, at = _number(data, at)
        if number in found:  # readers differ in which of the two holds
            raise ValueError("a field stands twice")
        value, at = _value(data, at, kind, wanted.get(number, NOTHING), deeper)
        if number in wanted:
            found[number] = value
    return found, at + 1


def _value(data: bytes, at: int, kind: int, wanted: Any, deeper: int) -> Read:
    if wanted and kind != (_LIST if isinstance(wanted, list) else _STRUCT):
        raise ValueError("a field is of another type")
    if kind not in (_LIST, _STRUCT):
        return _alone(data, at, kind)
    if not deeper:
        raise ValueError("a header is deeper than any")
    if kind == _LIST:
        return _list(data, at, wanted[0] if wanted else NOTHING, deeper - 1)
    return _struct(data, at, wanted, deeper - 1)


def _alone(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind == _BYTE:
        return data[at], at + 1
    if kind in (_I16, _I32, _I64):
        return _number(data, at)
    if kind == _DOUBLE:
        return None, at + 8
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, at + length
    raise ValueError("a header holds no such value")


def _list(data: bytes, at: int, wanted: Wanted, deeper: int) -> Read:
    """Its elements where they are structs of which something is kept."""
    count, kind = divmod(data[at], 16)
    at += 1
    if count == LONG_LIST:
        count, at = _varint(data, at)
    if kind in (_TRUE, _FALSE):  # a byte each, unlike one that is a field
        return [], at + count
    found = []
    for _ in range(count):
        value, at = _value(data, at, kind, wanted, deeper)
        if wanted:
            found.append(value)
    return found, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A signed number: zigzag, so that small ones take one byte."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
