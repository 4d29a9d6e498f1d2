"""Plain values of a pickle that is not trusted: containers, numbers and texts.

Two passes. The first walks the opcodes and refuses any that does more than state a value, or that could make the
second take memory out of proportion. The second is the interpreter's own, which then has nothing to import or call,
and refuses to: ten times as fast as `ingest.memory`'s, and a job may have ten thousand ranks of 200,000 opcodes.
"""

import io
import pickle
import re
from typing import Any

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.ingest.memory.opcodes import FAULTS, OPCODES

RUN = re.compile(
    rb"(?>(?:h.)++|[\](eu}N\x88\x89\x86\x94a]++|(?:K.)++|M..|q.|J.{4}|j.{4}|\x8a\x08.{8}|r..[\x00-\x0f]\x00"
    rb"|[s)\x85\x87]|G.{8}|\x95.{8}|\x8a(?:\x07.{7}|\x06.{6}|\x05.{5}|\x04.{4}|\x03...|\x02..|\x01.|\x00))*+",
    re.DOTALL,
).match
"""Opcodes without a text. The memo has room for what it is given the index of: a million at most (`r`)."""
MAX_TUPLES = 50_000
"""Tuples inside tuples are hashed by recursion, one frame of C (100 bytes) each; a dump has one an entry."""
MAX_BYTES = 64 << 20
"""Of a dump: 2,000 entries take 350 kB, and nobody keeps more than some 20,000."""
TEXT_SIZES = {0x58: 4, 0x8C: 1, 0x8D: 8}
"""Bytes of the length of BINUNICODE, SHORT_BINUNICODE and BINUNICODE8."""


class _Plain(pickle.Unpickler):  # no opcode is left that names a class; were there one, it is refused here
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"names {module}.{name}")


def plain_values(data: bytes) -> Any:
    """The value that the pickle states. Raises UnreadableInputError, saying why."""
    _check(data)
    try:
        return _Plain(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, *FAULTS) as error:
        raise UnreadableInputError(f"damaged ({error})") from error


def _check(data: bytes) -> None:
    """Raises UnreadableInputError unless every opcode states a value."""
    if len(data) > MAX_BYTES:
        raise UnreadableInputError(f"larger than any dump ({len(data) >> 20} MiB)")
    if sum(map(data.count, (b"\x85", b"\x86", b"\x87"))) > MAX_TUPLES:
        raise UnreadableInputError("more tuples than a dump has")
    at = 0
    try:
        while (op := data[at := run.end() if (run := RUN(data, at)) else at]) != 0x2E:
            if op in TEXT_SIZES:
                begin = at + 1 + TEXT_SIZES[op]
                at = begin + int.from_bytes(data[at + 1 : begin], "little")
            elif op == 0x80:  # PROTO
                at += 2
            else:
                raise UnreadableInputError(f"the pickle opcode {OPCODES.get(op, f'{op:#x}')}, which no dump has")
    except (IndexError, OverflowError):
        raise UnreadableInputError("it is cut off") from None
