"""How much a Parquet file becomes in memory, by the headers of its pages: what it says of itself at
its end need not be true.

A page header is a Thrift struct in the compact protocol (apache/parquet-format, `PageHeader`)."""

from typing import Any, BinaryIO

NUMBER_BYTES = 8
LONGEST_HEADER = 1 << 16
DEEPEST = 3  # a page header, that of its kind, its statistics
UNCOMPRESSED, COMPRESSED = 2, 3
OF_KIND = (5, 7, 8)  # the header of a data page, a dictionary page, a data page of version 2
VALUES = 1
ENCODING = {5: 2, 7: 2, 8: 4}
DELTA_BYTE_ARRAY = 7
"""Each text is written as what it shares with the one before and what follows: a file of some kB
may hold as much text as one likes."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_STRUCT = 12
Fields = dict[int, Any]


def made_bytes(file: BinaryIO, metadata: Any) -> int:
    """What all columns take once they are read. Raises ValueError for headers that are none, and
    for an encoding without bounds."""
    total = 0
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            total += max(NUMBER_BYTES * chunk.num_values, _made_of_chunk(file, chunk))
    file.seek(0)
    return total


def _made_of_chunk(file: BinaryIO, chunk: Any) -> int:
    # 0 is where no page begins: a column without values has a dictionary alone
    begins = [at for at in (chunk.data_page_offset, chunk.dictionary_page_offset) if at]
    at = min(begins, default=0)
    if not at:
        return 0
    end = at + chunk.total_compressed_size
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
    """The fields of a header, structs as the same, and how many bytes it takes. Raises ValueError
    where the bytes are none."""
    try:
        return _struct(data, 0, DEEPEST)
    except IndexError as error:
        raise ValueError("the header of a page is cut") from error


def _struct(data: bytes, at: int, deeper: int) -> tuple[Fields, int]:
    found: Fields = {}
    number = 0
    while data[at]:
        delta, kind = divmod(data[at], 16)
        at += 1
        if delta:
            number += delta
        else:
            number, at = _number(data, at)
        found[number], at = _value(data, at, kind, deeper)
    return found, at + 1


def _value(data: bytes, at: int, kind: int, deeper: int) -> tuple[Any, int]:
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
    if kind == _STRUCT and deeper:
        return _struct(data, at, deeper - 1)
    raise ValueError("a page header holds no such value")


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
