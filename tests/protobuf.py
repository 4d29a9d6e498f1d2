"""Protobuf messages by hand, for tests: a message is its fields one after the other."""

import struct


def varint(value: int) -> bytes:
    """A number on the wire; negative ones as 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def field(number: int, value: object) -> bytes:
    """One field: an int, a float (as double), text or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    raw = value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(*fields: tuple[int, object]) -> bytes:
    """A message of (number, value) pairs."""
    return b"".join(field(number, value) for number, value in fields)


def parse(raw: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message, the slow way: numbers as ints (those of fixed width as bytes), the
    rest as bytes."""
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(raw):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, number()))
            continue
        size = {1: 8, 5: 4}.get(key & 7) or number()
        found.append((key >> 3, raw[at : at + size]))
        at += size
    return found
