"""Collectives as Kineto writes them: in the arguments of the operators and kernels that belong to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from numpy.typing import NDArray

from traceanalyzer.ingest.columns import Texts
from traceanalyzer.ingest.kineto.events import Args

_NO_DESCRIPTION = ("", "undefined")
"""What PyTorch writes of a process group that nobody described."""
_MAX_DIGITS = 19
"""Numbers of fewer digits fit 64 bits."""
_TEXTS = ("name", "dtype", "group", "ranks", "communicator")
"""Columns that are codes of strings."""


class Collective(NamedTuple):
    """A row of `trace.Collectives`; -1 for what was not recorded."""

    name: int
    in_elements: int
    out_elements: int
    dtype: int
    group: int
    group_size: int
    ranks: int
    sequence: int
    communicator: int
    peer: int

    def recoded(self, texts: NDArray[Any]) -> Collective:
        """The same with other codes of strings, by the old ones."""
        return self._replace(**{name: int(texts[getattr(self, name)]) for name in _TEXTS})


def collective_of(a: Args, texts: Texts) -> Collective:
    """The collective that the arguments of an event describe."""
    described = json_text(bytes(a.group_description))
    group = described if described not in _NO_DESCRIPTION else json_text(bytes(a.group_name))
    ranks = json_text(bytes(a.ranks))
    communicator = bytes(a.communicator).decode("utf-8", "replace").strip('"')
    return Collective(
        texts.code(a.collective),
        a.in_elements,
        a.out_elements,
        texts.code(a.dtype) if a.dtype else -1,
        texts.code(group) if group else -1,
        a.group_size,
        texts.code(ranks) if ranks else -1,
        _number(bytes(a.sequence_of_collective)),
        texts.code(communicator) if communicator else -1,
        _number(bytes(a.target or a.source)),
    )


def json_text(raw: bytes) -> str:
    """A JSON string's text, any other JSON as it is written."""
    if raw.startswith(b'"'):
        try:
            return str(msgspec.json.decode(raw))
        except (msgspec.DecodeError, ValueError):
            pass
    return raw.decode("utf-8", "replace")


def _number(text: bytes) -> int:
    """A count, written as a number or as text; -1 for anything else."""
    digits = text.strip(b'"')
    return int(digits) if digits.isdigit() and len(digits) < _MAX_DIGITS else -1
